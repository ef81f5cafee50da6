// Made from the OpenAPI document by generate.py. Do not edit: change the server's types and run it again.

/** Take a lease, or wait for it. */
export interface Acquire {
  resources: string[] | string;
  ttl_seconds?: number;
  wait_seconds?: number;
  mode?: string | null;
  slots?: number;
  any_of?: boolean;
  holder?: string | null;
  session?: string | null;
  space?: string | null;
  name?: string | null;
  context?: unknown;
  reason?: string | null;
  priority?: number;
  reentrant?: boolean;
  grace_seconds?: number;
  on_expiry?: string;
  request_id?: string | null;
  intent?: boolean;
  first?: boolean;
  token?: string[] | string | null;
}

/** Take a lease, or not: it cannot wait. */
export interface AcquireCall {
  verb: "acquire";
  resources: string[] | string;
  ttl_seconds?: number;
  wait_seconds?: number;
  mode?: string | null;
  slots?: number;
  any_of?: boolean;
  holder?: string | null;
  session?: string | null;
  space?: string | null;
  name?: string | null;
  context?: unknown;
  reason?: string | null;
  priority?: number;
  reentrant?: boolean;
  grace_seconds?: number;
  on_expiry?: string;
  request_id?: string | null;
  intent?: boolean;
  first?: boolean;
  token?: string[] | string | null;
}

/** Somebody in the wait-for graph. */
export interface Agent {
  id: string;
  space: string;
  holder: string;
  session: string | null;
}

/** The answers to several calls, in their order. */
export interface Answers {
  answers: Told[];
}

/** Set the clock of a run back to a full TTL. */
export interface BeatRun {
  id: string;
  ttl_seconds?: number | null;
  space?: string | null;
}

/** What stands in the way. */
export interface Blocker {
  resource: string;
  holder: string;
  state: "grace" | "held" | "quarantined" | "waiting";
  mode: "exclusive" | "shared" | "slots";
  name: string | null;
  reason: string | null;
  since: string;
  expires_at: string | null;
  expires_in_seconds: number | null;
  fence: number;
  lease: string;
  as_of: string;
  yours: boolean;
  watched_since?: string;
  recorded_until?: string | null;
}

/** Several calls at once: each is answered as if it had come alone. */
export interface Calls {
  calls: (AcquireCall | RenewCall | ReleaseCall)[];
}

/** Withdraw an acquire by its request_id. */
export interface Cancel {
  request_id: string;
  holder?: string | null;
  session?: string | null;
  space?: string | null;
}

/** The request can never be granted. */
export interface Cancelled {
  cancelled: boolean;
  was: "granted" | "unknown" | "waiting";
}

/** The run that is active on a work unit, a task or a project. */
export interface CheckRun {
  work_unit?: string | null;
  task?: string | null;
  project?: string | null;
  space?: string | null;
}

/** The run that is active, or null: you may begin. */
export interface CheckedWorkflow {
  workflow: Workflow | null;
}

/** Open a resource that was closed after an unclean end. */
export interface Clear {
  resource: string;
  reason: string;
  by?: string | null;
  space?: string | null;
}

/** Whether there was anything to clear. */
export interface Cleared {
  resources: string[];
  cleared: boolean;
}

/** Sweep what has expired now. */
export interface Collect {
}

/** What a clean-up found. */
export interface Collected {
  swept: number;
  forgotten: number;
}

/** A resource that is waited for: ids of agents that are in the way, and of those that want it. */
export interface Contended {
  space: string;
  resource: string;
  holders: string[];
  waiting: string[];
}

/** A new key. */
export interface CreateKey {
  role: string;
  name: string;
  space?: string | null;
  prefixes?: string[];
  by?: string | null;
  reason?: string | null;
}

/** Begin a run on a work unit, a task or a project, unless another is active there. */
export interface CreateRun {
  name: string;
  work_unit?: string | null;
  task?: string | null;
  project?: string | null;
  ttl_seconds?: number;
  context?: unknown;
  id?: string | null;
  holder?: string | null;
  space?: string | null;
}

/** One agent waits for another; `place` is null if it only polls. */
export interface Edge {
  waiter: string;
  blocker: string;
  resource: string;
  state: "held" | "waiting";
  by: string;
  place: string | null;
  since: string;
  waited_seconds: number;
  until: string;
}

/** A session: ID.SECRET, or for admins its id, and why. */
export interface EndSession {
  session?: string | null;
  space?: string | null;
  reason?: string | null;
}

/** One change. */
export interface Event {
  seq: number;
  kind: string;
  at: string;
  space: string;
  resources: string[];
  holder: string;
  session: string | null;
  lease: string | null;
  fence: number | null;
  detail: Record<string, unknown>;
}

/** Past events, newest first. */
export interface Events {
  events: Event[];
}

/** Tell which leases were taken from their holders, from now on; and first, which of `leases` are not held. */
export interface Follow {
  space?: string | null;
  holders?: string[] | null;
  leases?: string[];
}

/** End somebody's lease, by its id or by the resource it holds. */
export interface ForceRelease {
  target: string;
  reason: string;
  by?: string | null;
  space?: string | null;
}

/** It is yours. */
export interface GatewayAcquired {
  ok: true;
  resourceKey: string;
}

/** A lock of anybody. */
export interface GatewayAnyLock {
  resourceKey: string;
  agentName: string;
  holder: string;
  heldSince: number;
}

/** It is yours until then, in milliseconds since 1970. */
export interface GatewayBeaten {
  ok: true;
  expiresAt: number;
}

/** The request cannot be served as it stands. */
export interface GatewayError {
  error: string;
}

/** A run's secret, and the URI that it is about. */
export interface GatewayLock {
  secret: string;
  resourceKey: string;
  ttl?: number | null;
  space?: string | null;
}

/** Every lock. */
export interface GatewayLocks {
  locks: GatewayAnyLock[];
}

/** A lock of this run. */
export interface GatewayOwnLock {
  resourceKey: string;
  holder: string;
  heldSince: number;
  expiresAt: number;
}

/** Somebody else has it, or waiting for it would be a deadlock, or there is no such lock. */
export interface GatewayRefusal {
  ok: false;
  holder?: string | null;
  heldSince?: number | null;
  reason?: string | null;
  deadlock?: boolean | null;
  cycle?: string[] | null;
}

/** It is free. */
export interface GatewayReleased {
  ok: true;
}

/** One run, active or over. */
export interface GetRun {
  id: string;
  space?: string | null;
}

/** You have it; the token is told here and nowhere else. */
export interface Granted {
  lease: Lease;
  token: string;
  fresh: boolean;
  unapplied?: string[];
}

/** Who waits for whom, and which cycles were refused lately; `complete` unless there are more edges. */
export interface Graph {
  at: string;
  agents: Agent[];
  resources: Contended[];
  edges: Edge[];
  complete: boolean;
  deadlocks: Event[];
}

/** All is well. */
export interface Health {
  status: "ok";
}

/** Which events. */
export interface History {
  space?: string | null;
  resource?: string | null;
  holder?: string | null;
  lease?: string | null;
  kind?: string[];
  since?: number | null;
  before?: number | null;
  limit?: number;
}

/** Of one space. */
export interface InSpace {
  space?: string | null;
}

/** One resource. */
export interface Inspect {
  resource: string;
  space?: string | null;
}

/** How a resource stands. */
export interface Inspection {
  resource: string;
  at: string;
  free: boolean;
  leases: Lease[];
  waiting: Waiting[];
  closed: Blocker[];
}

/** A key, without its secret. */
export interface Key {
  id: string;
  role: "admin" | "agent" | "viewer";
  space: string;
  name: string;
  prefixes: string[];
  created_at: string;
  principal: string;
  until: string | null;
}

/** `credential` is told here and nowhere else. */
export interface KeyCreated {
  key: Key;
  credential: string;
}

/** Whether there was such a key. */
export interface KeyRevoked {
  key: string;
  revoked: boolean;
}

/** `credential` is told here and nowhere else; `before` counts until its `until`. */
export interface KeyRotated {
  key: Key;
  credential: string;
  before: Key;
}

/** Every key. */
export interface Keys {
  keys: Key[];
}

/** One grant. */
export interface Lease {
  id: string;
  space: string;
  resources: string[];
  holder: string;
  session: string | null;
  mode: "exclusive" | "shared" | "slots";
  slots: number;
  fence: number;
  ttl_seconds: number;
  acquired_at: string;
  expires_at: string;
  expires_in_seconds: number;
  as_of: string;
  name: string | null;
  reason: string | null;
  context: unknown;
  principal?: string;
  key?: string;
}

/** Live leases. */
export interface Leases {
  leases: Lease[];
}

/** Which runs. */
export interface ListRuns {
  status?: string | null;
  work_unit?: string | null;
  task?: string | null;
  limit?: number;
  space?: string | null;
}

/** Which leases. */
export interface Listing {
  space?: string | null;
  holder?: string | null;
  resource?: string | null;
}

/** A lease that may be lost: renew it to find out. Or a session that has ended, with all of its leases. */
export interface Loss {
  lease: string | null;
  session: string | null;
}

/** No parameters. */
export interface Nothing {
}

/** A session: ID.SECRET, or for admins its id. */
export interface OfSession {
  session?: string | null;
  space?: string | null;
}

/** A run. */
export interface OneWorkflow {
  workflow: Workflow;
}

/** Why not: application/problem+json with a stable `code`. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  field?: string | null;
  resources?: string[] | null;
  holders?: Blocker[] | null;
  queue?: Queue | null;
  retry_after_seconds?: number | null;
  cycle?: string[] | null;
  reason?: string | null;
  lease?: string | null;
  workflow?: Workflow | null;
}

/** How many wait, and which place the asker has. */
export interface Queue {
  length: number;
  position: number;
}

/** Give a lease back. */
export interface Release {
  lease: string;
  token?: string | null;
  status?: string;
  error?: string | null;
  session?: string | null;
  space?: string | null;
}

/** Give a lease back. */
export interface ReleaseCall {
  verb: "release";
  lease: string;
  token?: string | null;
  status?: string;
  error?: string | null;
  session?: string | null;
  space?: string | null;
}

/** End a run, with its outcome. */
export interface ReleaseRun {
  id: string;
  status?: string;
  error?: string | null;
  space?: string | null;
}

/** `released` is true once. */
export interface Released {
  lease: string;
  released: boolean;
  reason: string;
  resources: string[];
}

/** A run that is over; `released` is true once. */
export interface ReleasedWorkflow {
  workflow: Workflow;
  released: boolean;
}

/** Set a lease's clock back to a full TTL. */
export interface Renew {
  lease: string;
  token?: string | null;
  ttl_seconds?: number | null;
  session?: string | null;
  space?: string | null;
}

/** Set a lease's clock back to a full TTL. */
export interface RenewCall {
  verb: "renew";
  lease: string;
  token?: string | null;
  ttl_seconds?: number | null;
  session?: string | null;
  space?: string | null;
}

/** The lease as it is now. */
export interface Renewed {
  lease: Lease;
}

/** Let the owner of a key in no more. */
export interface RevokeKey {
  id: string;
  by?: string | null;
  reason?: string | null;
}

/** Add a key to a principal; the one before it counts for a while yet. */
export interface RotateKey {
  id: string;
  overlap_seconds?: number;
  by?: string | null;
  reason?: string | null;
}

/** A session, without its secret. */
export interface Session {
  id: string;
  space: string;
  holder: string;
  name: string | null;
  ttl_seconds: number;
  started_at: string;
  expires_at: string;
  principal?: string;
  key?: string;
}

/** All that it held is released. */
export interface SessionEnded {
  session: string;
  ended: boolean;
  released: string[];
}

/** The session and its leases have a full TTL again. */
export interface SessionRenewed {
  session: Session;
  leases: Lease[];
}

/** `credential` is told here and nowhere else. */
export interface SessionStarted {
  session: Session;
  credential: string;
}

/** Live sessions. */
export interface Sessions {
  sessions: Session[];
}

/** Begin a session. */
export interface StartSession {
  ttl_seconds?: number;
  holder?: string | null;
  name?: string | null;
  session?: string | null;
  secret?: string | null;
  space?: string | null;
}

/** Take over what others hold, in one step. */
export interface Steal {
  resources: string[] | string;
  reason: string;
  ttl_seconds?: number;
  by?: string | null;
  holder?: string | null;
  space?: string | null;
  name?: string | null;
  context?: unknown;
}

/** You still wait: ask again with `request_id` = ticket to keep your place. */
export interface Ticket {
  ticket: string;
  queue: Queue;
  holders: Blocker[];
  retry_after_seconds: number;
}

/** The answer to one of several calls: status and body as if it had come alone. */
export interface Told {
  status: number;
  body: Record<string, unknown>;
}

/** Replace the context of a lease, or merge into it. */
export interface Update {
  lease: string;
  context: unknown;
  token?: string | null;
  merge?: boolean;
  session?: string | null;
  space?: string | null;
}

/** Replace the context of a run, or merge into it; also a heartbeat. */
export interface UpdateRun {
  id: string;
  context: unknown;
  merge?: boolean;
  space?: string | null;
}

/** A place in a queue. */
export interface Waiting {
  id: string;
  resources: string[];
  holder: string;
  session: string | null;
  mode: "exclusive" | "shared" | "slots";
  position: number;
  since: string;
  waited_seconds: number;
  until: string;
  name: string | null;
  reason: string | null;
  principal?: string;
  key?: string;
}

/** Which events, from now on or after `last_event_id`. */
export interface Watch {
  space?: string | null;
  resource?: string | null;
  holder?: string | null;
  last_event_id?: number | null;
}

/** Who waits for whom: at most `limit` edges. */
export interface WhoWaits {
  space?: string | null;
  limit?: number;
}

/** The caller, as the server knows it, and what it may do. */
export interface Whoami {
  name: string;
  role: "admin" | "agent" | "session" | "viewer";
  space: string | null;
  prefixes: string[];
  principal: string | null;
  key: string | null;
  session: string | null;
}

/** A run: a lease with a name, a context and an outcome. */
export interface Workflow {
  id: string;
  status: "cancelled" | "completed" | "expired" | "failed" | "running";
  name: string | null;
  space: string;
  resource: string | null;
  holder: string;
  context: unknown;
  error: string | null;
  started_at: string | null;
  ended_at: string | null;
  expires_at: string | null;
  ttl_seconds: number | null;
  fence: number | null;
  lease: string | null;
}

/** Runs, the newest first. */
export interface Workflows {
  workflows: Workflow[];
}

/** Every route that has an answer: what it takes, and what it answers when it is a yes. */
export interface Routes {
  /** Take a lease, or wait for it. */
  "POST /v1/acquire": { body: Acquire; answer: Granted; };
  /** Set a lease's clock back to a full TTL. */
  "POST /v1/renew": { body: Renew; answer: Renewed; };
  /** Give a lease back. */
  "POST /v1/release": { body: Release; answer: Released; };
  /** Several calls at once: each is answered as if it had come alone. */
  "POST /v1/batch": { body: Calls; answer: Answers; };
  /** Replace the context of a lease, or merge into it. */
  "POST /v1/update": { body: Update; answer: Renewed; };
  /** Withdraw an acquire by its request_id. */
  "POST /v1/cancel": { body: Cancel; answer: Cancelled; };
  /** Begin a session. */
  "POST /v1/sessions": { body: StartSession; answer: SessionStarted; };
  /** Of one space. */
  "GET /v1/sessions": { query: { space?: string; }; answer: Sessions; };
  /** A session: ID.SECRET, or for admins its id. */
  "POST /v1/sessions/renew": { body: OfSession; answer: SessionRenewed; };
  /** A session: ID.SECRET, or for admins its id, and why. */
  "POST /v1/sessions/end": { body: EndSession; answer: SessionEnded; };
  /** End somebody's lease, by its id or by the resource it holds. */
  "POST /v1/force-release": { body: ForceRelease; answer: Released; };
  /** Take over what others hold, in one step. */
  "POST /v1/steal": { body: Steal; answer: Granted; };
  /** Open a resource that was closed after an unclean end. */
  "POST /v1/clear": { body: Clear; answer: Cleared; };
  /** Sweep what has expired now. */
  "POST /v1/gc": { body: Collect; answer: Collected; };
  /** One resource. */
  "GET /v1/inspect": { query: { resource: string; space?: string; }; answer: Inspection; };
  /** Which leases. */
  "GET /v1/leases": { query: { space?: string; holder?: string; resource?: string; }; answer: Leases; };
  /** Who waits for whom: at most `limit` edges. */
  "GET /v1/graph": { query: { space?: string; limit?: number; }; answer: Graph; };
  /** Which events. */
  "GET /v1/history": { query: { space?: string; resource?: string; holder?: string; lease?: string; kind?: string[]; since?: number; before?: number; limit?: number; }; answer: Events; };
  /** No parameters. */
  "GET /v1/keys": { answer: Keys; };
  /** A new key. */
  "POST /v1/keys": { body: CreateKey; answer: KeyCreated; };
  /** Add a key to a principal; the one before it counts for a while yet. */
  "POST /v1/keys/rotate": { body: RotateKey; answer: KeyRotated; };
  /** No parameters. */
  "GET /v1/whoami": { answer: Whoami; };
  /** Let the owner of a key in no more. */
  "POST /v1/keys/revoke": { body: RevokeKey; answer: KeyRevoked; };
  /** Begin a run on a work unit, a task or a project, unless another is active there. */
  "POST /v1/workflows": { body: CreateRun; answer: OneWorkflow; };
  /** Which runs. */
  "GET /v1/workflows": { query: { status?: string; work_unit?: string; task?: string; limit?: number; space?: string; }; answer: Workflows; };
  /** One run, active or over. */
  "GET /v1/workflows/run": { query: { id: string; space?: string; }; answer: OneWorkflow; };
  /** The run that is active on a work unit, a task or a project. */
  "GET /v1/workflows/check": { query: { work_unit?: string; task?: string; project?: string; space?: string; }; answer: CheckedWorkflow; };
  /** Replace the context of a run, or merge into it; also a heartbeat. */
  "POST /v1/workflows/update": { body: UpdateRun; answer: OneWorkflow; };
  /** Set the clock of a run back to a full TTL. */
  "POST /v1/workflows/heartbeat": { body: BeatRun; answer: OneWorkflow; };
  /** End a run, with its outcome. */
  "POST /v1/workflows/release": { body: ReleaseRun; answer: ReleasedWorkflow; };
  /** Take the lock on a URI. */
  "POST /locks/acquire": { body: GatewayLock; answer: GatewayAcquired; };
  /** Give it back. */
  "POST /locks/release": { body: GatewayLock; answer: GatewayReleased; };
  /** Another full TTL. */
  "POST /locks/heartbeat": { body: GatewayLock; answer: GatewayBeaten; };
  /** The locks of one run. */
  "GET /locks/list": { query: { secret?: string; space?: string; }; answer: GatewayOwnLock[]; };
  /** Every lock. */
  "GET /locks/status": { query: { space?: string; }; answer: GatewayLocks; };
  /** Answer a hook of Claude: may this agent change that now? */
  "POST /v1/hooks/claude": { body: Record<string, unknown>; query: { policy?: "off" | "warn" | "require" | "require-own"; root?: string; }; answer: Record<string, unknown>; };
  /** Answer a hook of Codex: may this agent change that now? */
  "POST /v1/hooks/codex": { body: Record<string, unknown>; query: { policy?: "off" | "warn" | "require" | "require-own"; root?: string; }; answer: Record<string, unknown>; };
  /** Answer a hook of Cursor: may this agent change that now? */
  "POST /v1/hooks/cursor": { body: Record<string, unknown>; query: { policy?: "off" | "warn" | "require" | "require-own"; root?: string; }; answer: Record<string, unknown>; };
  /** The server is there. */
  "GET /healthz": { answer: Health; };
  /** The server can serve: the store answers. */
  "GET /readyz": { answer: Health; };
  /** Prometheus text. */
  "GET /metrics": { answer: unknown; };
  /** This document. */
  "GET /openapi.json": { answer: unknown; };
}

// Made from the OpenAPI document by generate.py. Do not edit: change the server's types and run it again.

/** Take a lease, or wait for it. */
export interface Acquire {
  /** One name, or several that are taken together or not at all. */
  resources: string | string[];
  /** Seconds that it lives unless it is renewed; at most 24 h unless the server allows more. */
  ttl_seconds?: number;
  /** Seconds to wait in the queue; 0 answers at once. */
  wait_seconds?: number;
  /** Held by one, by many readers, or by `slots` holders; the default with several slots. */
  mode?: "exclusive" | "shared" | "slots" | null;
  /** How many may hold it at the same time; all callers must give the same number. */
  slots?: number;
  /** Take the first of the resources that is free. */
  any_of?: boolean;
  /** Name of the agent, job or person; by default the name of the key. */
  holder?: string | null;
  /** ID.SECRET of a session: the lease ends with it. */
  session?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
  /** A short title of the work, for others to see. */
  name?: string | null;
  /** JSON for others to see, at most 16 KiB. */
  context?: unknown;
  /** Why, for others to see. */
  reason?: string | null;
  /** A larger one is served first. */
  priority?: number;
  /** Extend a lease that `token` or the session proves to be yours, if it covers the resources. */
  reentrant?: boolean;
  /** Seconds after an unclean end for which the resource stays closed. */
  grace_seconds?: number;
  /** After an unclean end, `quarantine` closes it until an admin clears it. */
  on_expiry?: "free" | "quarantine";
  /** A retry with the same id gets the same answer. */
  request_id?: string | null;
  /** A refused try counts as waiting for a minute when deadlocks are looked for. */
  intent?: boolean;
  /** True: this request_id was never sent before. Only for a request_id drawn at random. */
  first?: boolean;
  /** Tokens of leases that you hold: proof for `reentrant` and for `yours`. */
  token?: string | string[] | null;
  /** The `traceparent` of the caller (W3C), or another id: kept with the lease, and in its events. */
  trace?: string | null;
  /** The name of the machine that acquires it, for others to see. */
  host?: string | null;
}

/** Take a lease, or wait for it. */
export interface AcquireCall {
  /** The verb. */
  verb: "acquire";
  /** One name, or several that are taken together or not at all. */
  resources: string | string[];
  /** Seconds that it lives unless it is renewed; at most 24 h unless the server allows more. */
  ttl_seconds?: number;
  /** Seconds to wait in the queue; 0 answers at once. */
  wait_seconds?: number;
  /** Held by one, by many readers, or by `slots` holders; the default with several slots. */
  mode?: "exclusive" | "shared" | "slots" | null;
  /** How many may hold it at the same time; all callers must give the same number. */
  slots?: number;
  /** Take the first of the resources that is free. */
  any_of?: boolean;
  /** Name of the agent, job or person; by default the name of the key. */
  holder?: string | null;
  /** ID.SECRET of a session: the lease ends with it. */
  session?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
  /** A short title of the work, for others to see. */
  name?: string | null;
  /** JSON for others to see, at most 16 KiB. */
  context?: unknown;
  /** Why, for others to see. */
  reason?: string | null;
  /** A larger one is served first. */
  priority?: number;
  /** Extend a lease that `token` or the session proves to be yours, if it covers the resources. */
  reentrant?: boolean;
  /** Seconds after an unclean end for which the resource stays closed. */
  grace_seconds?: number;
  /** After an unclean end, `quarantine` closes it until an admin clears it. */
  on_expiry?: "free" | "quarantine";
  /** A retry with the same id gets the same answer. */
  request_id?: string | null;
  /** A refused try counts as waiting for a minute when deadlocks are looked for. */
  intent?: boolean;
  /** True: this request_id was never sent before. Only for a request_id drawn at random. */
  first?: boolean;
  /** Tokens of leases that you hold: proof for `reentrant` and for `yours`. */
  token?: string | string[] | null;
  /** The `traceparent` of the caller (W3C), or another id: kept with the lease, and in its events. */
  trace?: string | null;
  /** The name of the machine that acquires it, for others to see. */
  host?: string | null;
}

/** A session, or a holder without one, in the wait-for graph. */
export interface Agent {
  /** Id of the agent: edges name it by this. */
  id: string;
  /** The tenant that the name lives in. */
  space: string;
  /** Name of the agent, job or person. */
  holder: string;
  /** Id of the session; null for none. */
  session: string | null;
}

/** The answers to several calls, in their order. */
export interface Answers {
  /** One answer for each call, in the order of the calls. */
  answers: BatchedAnswer[];
}

/** Make several calls at once: each is answered as if it had come alone. */
export interface Batch {
  /** The calls, at most 64; none of them can wait. */
  calls: (AcquireCall | RenewCall | ReleaseCall)[];
}

/** The answer to one of several calls, as if it had come alone. */
export interface BatchedAnswer {
  /** HTTP status of the answer. */
  status: number;
  /** The body of that answer. */
  body: Record<string, unknown>;
}

/** Reset the TTL of a run. */
export interface BeatRun {
  /** Id of the run. */
  id: string;
  /** Seconds that it lives unless it is renewed; at most 24 h unless the server allows more. */
  ttl_seconds?: number | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
}

/** A lease, a waiting request or a closed resource that stands in the way of a request. */
export interface Blocker {
  /** Name of the resource. */
  resource: string;
  /** Name of the agent, job or person. */
  holder: string;
  /** The state: held, waited for, or closed after an unclean end. */
  state: "held" | "waiting" | "grace" | "quarantined";
  /** How it is held: by one holder, by many readers, or by as many as `slots` says. */
  mode: "exclusive" | "shared" | "slots";
  /** A short title of the work, for others to see. */
  name: string | null;
  /** Why it is held, for others to see. */
  reason: string | null;
  /** Since when. */
  since: string;
  /** When it expires unless it is renewed; null: never. */
  expires_at: string | null;
  /** Seconds until it expires, counted from `as_of`. */
  expires_in_seconds: number | null;
  /** A number that grows with every grant: a resource refuses writers with an older one. */
  fence: number;
  /** Id of the lease. */
  lease: string;
  /** When the store saw it like this. */
  as_of: string;
  /** True if you proved that it is your own lease: by its token or its session's secret. */
  yours: boolean;
  /** Id of the session; null for none. */
  session: string | null;
  /** Over git: since when this observer has seen the lease unchanged. */
  watched_since?: string;
  /** Over git: when it expires by the clock of the machine that wrote it. */
  recorded_until?: string | null;
}

/** Cancel an acquire by its request_id; once it is granted, with proof of its lease. */
export interface Cancel {
  /** A retry with the same id gets the same answer. */
  request_id: string;
  /** The token of the lease, needed once the request is granted. */
  token?: string | null;
  /** Name of the agent, job or person; by default the name of the key. */
  holder?: string | null;
  /** ID.SECRET of a session; for admins its id is enough. */
  session?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
}

/** The request can never be granted. */
export interface Cancelled {
  /** True: the request can never be granted. */
  cancelled: boolean;
  /** The state of the request when it was cancelled. */
  was: "waiting" | "granted" | "unknown";
}

/** The active run, or null: then you may begin. */
export interface CheckedWorkflow {
  /** The active run; null: there is none. */
  workflow: Workflow | null;
}

/** Open a resource that was closed after an unclean end. */
export interface Clear {
  /** Name of the resource. */
  resource: string;
  /** Why, for others to see. */
  reason: string;
  /** The person or agent that does it; on a server with keys, the name of the key. */
  by?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
}

/** The result of opening a closed resource. */
export interface Cleared {
  /** Names of the resources. */
  resources: string[];
  /** True if the resource was closed, and is open now. */
  cleared: boolean;
}

/** The result of a clean-up. */
export interface Collected {
  /** Expired records that were removed. */
  swept: number;
  /** Events that were deleted because they were older than the retention. */
  forgotten: number;
}

/** A resource that agents wait for. */
export interface Contended {
  /** The tenant that the name lives in. */
  space: string;
  /** Name of the resource. */
  resource: string;
  /** Ids of the agents that hold it. */
  holders: string[];
  /** Ids of the agents that want it. */
  waiting: string[];
}

/** Create a key. */
export interface CreateKey {
  /** The role of the key. */
  role: "admin" | "agent" | "viewer";
  /** The owner of the key; the history records what an admin does under this name. */
  name: string;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
  /** Names that the key is for begin with one of these; none: every name. */
  prefixes?: string[];
  /** The person or agent that does it; on a server with keys, the name of the key. */
  by?: string | null;
  /** Why, for others to see. */
  reason?: string | null;
}

/** Begin a run on a work unit, a task or a project, unless another is active there. */
export interface CreateRun {
  /** The name of the run. */
  name: string;
  /** Id of the work unit that the run locks. */
  work_unit?: string | null;
  /** Id of the task that the run locks. */
  task?: string | null;
  /** Id of the project that the run locks. */
  project?: string | null;
  /** Seconds that it lives unless it is renewed; at most 24 h unless the server allows more. */
  ttl_seconds?: number;
  /** JSON for others to see, at most 16 KiB. */
  context?: unknown;
  /** Id for the run; by default a new one. */
  id?: string | null;
  /** Name of the agent, job or person; by default the name of the key. */
  holder?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
}

/** Declare the members of a pool, each with its labels after it; without members, show those that are declared. */
export interface DeclarePool {
  /** Name of the resource. */
  resource: string;
  /** The members, each with its labels after it; [] forgets them. */
  members?: string[] | null;
  /** The person or agent that does it; on a server with keys, the name of the key. */
  by?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
}

/** One agent that waits for another. */
export interface Edge {
  /** Id of the agent that waits. */
  waiter: string;
  /** Id of the agent that it waits for. */
  blocker: string;
  /** The resource that the agent waits for. */
  resource: string;
  /** `held`: the other has it. `waiting`: the other is before it in the queue. */
  state: "held" | "waiting";
  /** Id of the lease, or of the place in the queue, that stands in the way. */
  by: string;
  /** Id of the place in the queue; null if the agent only polls. */
  place: string | null;
  /** Since when. */
  since: string;
  /** Seconds that it has waited. */
  waited_seconds: number;
  /** When it stops waiting at the latest. */
  until: string;
}

/** End a session, and release its leases. */
export interface EndSession {
  /** ID.SECRET of a session; for admins its id is enough. */
  session?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
  /** Why, for others to see. */
  reason?: string | null;
}

/** One change, in the history. */
export interface Event {
  /** Number of the event: later events have larger ones. */
  seq: number;
  /** The kind of event: granted, released, expired, … */
  kind: string;
  /** When the store saw it like this. */
  at: string;
  /** The tenant that the name lives in. */
  space: string;
  /** Names of the resources. */
  resources: string[];
  /** Name of the agent, job or person. */
  holder: string;
  /** Id of the session; null for none. */
  session: string | null;
  /** Id of the lease. */
  lease: string | null;
  /** A number that grows with every grant: a resource refuses writers with an older one. */
  fence: number | null;
  /** More about this kind of event; its durations are in seconds. */
  detail: Record<string, unknown>;
}

/** Past events, the newest first. */
export interface Events {
  /** The events, the newest first. */
  events: Event[];
}

/** Give the holder of a lease more time. */
export interface Extend {
  /** Id of the lease. */
  lease: string;
  /** Why, for others to see. */
  reason: string;
  /** Seconds that it lives unless it is renewed; at most 24 h unless the server allows more. */
  ttl_seconds?: number;
  /** The person or agent that does it; on a server with keys, the name of the key. */
  by?: string | null;
}

/** End a lease of another holder, by its id or by a resource. */
export interface ForceRelease {
  /** Id of the lease, or the name of a resource that it holds. */
  target: string;
  /** Why, for others to see. */
  reason: string;
  /** The person or agent that does it; on a server with keys, the name of the key. */
  by?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
}

/** The run has the lock. */
export interface GatewayAcquired {
  /** True if it worked. */
  ok: true;
  /** URI of what is locked. */
  resourceKey: string;
}

/** A lock. */
export interface GatewayAnyLock {
  /** URI of what is locked. */
  resourceKey: string;
  /** The agent that holds it. */
  agentName: string;
  /** The agent that holds it. */
  holder: string;
  /** Since when it is held, in milliseconds since 1970. */
  heldSince: number;
}

/** The run has the lock for another full TTL. */
export interface GatewayBeaten {
  /** True if it worked. */
  ok: true;
  /** When it expires, in milliseconds since 1970. */
  expiresAt: number;
}

/** The request cannot be served as it stands. */
export interface GatewayError {
  /** The reason why the request failed. */
  error: string;
}

/** The secret of a run, and the URI of what it locks. */
export interface GatewayLock {
  /** The secret of the run. */
  secret: string;
  /** URI of what is locked. */
  resourceKey: string;
  /** Seconds that the lock lives. */
  ttl?: number | null;
  /** The tenant that the URI lives in. */
  space?: string | null;
}

/** Every lock. */
export interface GatewayLocks {
  /** Every lock. */
  locks: GatewayAnyLock[];
}

/** A lock of this run. */
export interface GatewayOwnLock {
  /** URI of what is locked. */
  resourceKey: string;
  /** The agent that holds it. */
  holder: string;
  /** Since when it is held, in milliseconds since 1970. */
  heldSince: number;
  /** When it expires, in milliseconds since 1970. */
  expiresAt: number;
}

/** Another run has the lock, or waiting for it would never end, or there is no such lock. */
export interface GatewayRefusal {
  /** False: nothing was changed. */
  ok: false;
  /** The agent that holds it. */
  holder?: string | null;
  /** Since when it is held, in milliseconds since 1970. */
  heldSince?: number | null;
  /** Why it did not work. */
  reason?: string | null;
  /** True if waiting for it would never end. */
  deadlock?: boolean | null;
  /** The cycle that waiting would close. */
  cycle?: string[] | null;
}

/** The lock is released. */
export interface GatewayReleased {
  /** True if it worked. */
  ok: true;
}

/** Remove what has expired, and history beyond its retention. */
export interface Gc {
}

/** The lease is yours; this answer alone has its token. */
export interface Granted {
  /** The lease. */
  lease: Lease;
  /** Proof that the lease is yours: renew and release need it. No other answer has it. */
  token: string;
  /** False if you held this lease before: a retry, or a re-entrant acquire. */
  fresh: boolean;
  /** Arguments that the lease you held before does not have, such as `mode`. */
  unapplied?: string[];
}

/** The wait-for graph, and the deadlocks that were refused lately. */
export interface Graph {
  /** When the store saw it like this. */
  at: string;
  /** Agents that wait, and agents that others wait for. */
  agents: Agent[];
  /** The resources that agents wait for. */
  resources: Contended[];
  /** Which agent waits for which, the longest wait first. */
  edges: Edge[];
  /** True if these are all edges; false if only the longest waits are here. */
  complete: boolean;
  /** The latest requests that were refused because they would have closed a cycle. */
  deadlocks: Event[];
}

/** The server is well. */
export interface Health {
  /** ok: the server is well. */
  status: "ok";
}

/** The leases, the queue and the closures of one resource. */
export interface Inspection {
  /** Name of the resource. */
  resource: string;
  /** When the store saw it like this. */
  at: string;
  /** True if the resource is neither held nor closed. */
  free: boolean;
  /** The leases, the oldest first. */
  leases: ListedLease[];
  /** The queue, in the order of service. */
  waiting: Waiting[];
  /** Why the resource is closed after an unclean end: grace or quarantine. */
  closed: Blocker[];
  /** The plans, the oldest first. */
  plans: Plan[];
}

/** A key of a server, without its secret. */
export interface Key {
  /** Id of the key. */
  id: string;
  /** The role of the key. */
  role: "admin" | "agent" | "viewer";
  /** The tenant that the name lives in. */
  space: string;
  /** The owner of the key. */
  name: string;
  /** Names that the key is for begin with one of these; none: every name. */
  prefixes: string[];
  /** When the key was created. */
  created_at: string;
  /** Id of the first key of its principal, which keeps its leases while its keys rotate. */
  principal: string;
  /** When it stops working; null: when it is revoked. */
  until: string | null;
}

/** The key works from now on; this answer alone has its credential. */
export interface KeyCreated {
  /** The key, without its secret. */
  key: Key;
  /** The key to show; no other answer has it. */
  credential: string;
}

/** The result of revoking a key. */
export interface KeyRevoked {
  /** Id of the key. */
  key: string;
  /** True if this call revoked it; false if there was no such key. */
  revoked: boolean;
}

/** The principal has another key; the one before works until its `until`. */
export interface KeyRotated {
  /** The key, without its secret. */
  key: Key;
  /** The key to show; no other answer has it. */
  credential: string;
  /** The key that it replaces; it works until its `until`. */
  before: Key;
}

/** Every key, the oldest first. */
export interface Keys {
  /** The keys, the oldest first. */
  keys: Key[];
}

/** One grant. */
export interface Lease {
  /** Id of the lease. */
  id: string;
  /** The tenant that the name lives in. */
  space: string;
  /** Names of the resources. */
  resources: string[];
  /** Name of the agent, job or person. */
  holder: string;
  /** Id of the session; null for none. */
  session: string | null;
  /** How it is held: by one holder, by many readers, or by as many as `slots` says. */
  mode: "exclusive" | "shared" | "slots";
  /** How many may hold it at the same time. */
  slots: number;
  /** A number that grows with every grant: a resource refuses writers with an older one. */
  fence: number;
  /** Seconds that it lives unless it is renewed. */
  ttl_seconds: number;
  /** When the lease was granted. */
  acquired_at: string;
  /** When it expires unless it is renewed; null: never. */
  expires_at: string;
  /** Seconds until it expires, counted from `as_of`. */
  expires_in_seconds: number;
  /** When the store saw it like this. */
  as_of: string;
  /** A short title of the work, for others to see. */
  name: string | null;
  /** Why it is held, for others to see. */
  reason: string | null;
  /** JSON that the holder put there for others to see. */
  context: unknown;
  /** The machine that acquired it, as its client names it; null if the client did not. */
  host: string | null;
}

/** Live leases, the oldest first. */
export interface Leases {
  /** The leases, the oldest first. */
  leases: ListedLease[];
}

/** A lease in a listing. */
export interface ListedLease {
  /** Id of the lease. */
  id: string;
  /** The tenant that the name lives in. */
  space: string;
  /** Names of the resources. */
  resources: string[];
  /** Name of the agent, job or person. */
  holder: string;
  /** Id of the session; null for none. */
  session: string | null;
  /** How it is held: by one holder, by many readers, or by as many as `slots` says. */
  mode: "exclusive" | "shared" | "slots";
  /** How many may hold it at the same time. */
  slots: number;
  /** A number that grows with every grant: a resource refuses writers with an older one. */
  fence: number;
  /** Seconds that it lives unless it is renewed. */
  ttl_seconds: number;
  /** When the lease was granted. */
  acquired_at: string;
  /** When it expires unless it is renewed; null: never. */
  expires_at: string;
  /** Seconds until it expires, counted from `as_of`. */
  expires_in_seconds: number;
  /** When the store saw it like this. */
  as_of: string;
  /** A short title of the work, for others to see. */
  name: string | null;
  /** Why it is held, for others to see. */
  reason: string | null;
  /** JSON that the holder put there for others to see. */
  context: unknown;
  /** The machine that acquired it, as its client names it; null if the client did not. */
  host: string | null;
  /** The principal, as NAME:ID; for admins, on a server with keys. */
  principal?: string;
  /** Id of the key that was used; for admins, on a server with keys. */
  key?: string;
  /** The `traceparent` of the request that acquired it; only if it had one. */
  trace?: string;
}

/** A session in a listing. */
export interface ListedSession {
  /** Its id. */
  id: string;
  /** The tenant that the name lives in. */
  space: string;
  /** Name of the agent, job or person. */
  holder: string;
  /** A short title of the work, for others to see. */
  name: string | null;
  /** Seconds that it lives unless it is renewed. */
  ttl_seconds: number;
  /** When it began. */
  started_at: string;
  /** When it expires unless it is renewed; null: never. */
  expires_at: string;
  /** The principal, as NAME:ID; for admins, on a server with keys. */
  principal?: string;
  /** Id of the key that was used; for admins, on a server with keys. */
  key?: string;
}

/** A lease that may be lost (renew it to find out), or a session that ended with all of its leases. */
export interface Loss {
  /** Id of the lease; null if a session ended. */
  lease: string | null;
  /** Id of the session; null for none. */
  session: string | null;
}

/** Stream the leases that their holders lose from now on; first, those of `leases` that are not held. */
export interface Losses {
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
  /** Only of these holders. */
  holders?: string[] | null;
  /** Ids of leases that the caller holds: those that are over are reported first. */
  leases?: string[];
}

/** Leave a note on a resource for everybody who looks at it; without a text, remove it. */
export interface Note {
  /** Name of the resource. */
  resource: string;
  /** The note; none removes the one before. */
  text?: string | null;
  /** The person or agent that does it; on a server with keys, the name of the key. */
  by?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
}

/** The note is in the history. */
export interface Noted {
  /** Name of the resource. */
  resource: string;
  /** The note, or null if it was removed. */
  text: string | null;
}

/** A run. */
export interface OneWorkflow {
  /** The run. */
  workflow: Workflow;
}

/** A cell of the conflict matrix: a planned resource, and what another agent does with one that overlaps. */
export interface Overlap {
  /** The planned resource. */
  resource: string;
  /** The resource of the other agent, which overlaps with the planned one. */
  other: string;
  /** State of the other claim: planned, held, waited for, or closed after an unclean end. */
  state: "planned" | "held" | "waiting" | "grace" | "quarantined";
  /** Name of the agent, job or person. */
  holder: string;
  /** Id of the session; null for none. */
  session: string | null;
  /** A short title of the work, for others to see. */
  name: string | null;
  /** Why it is held, for others to see. */
  reason: string | null;
  /** Since when. */
  since: string;
  /** When it ends at the latest; null: never. */
  until: string | null;
  /** Id of the other plan, of the lease, or of the place in the queue. */
  id: string;
}

/** Announce what you are about to touch, and see who plans, holds or wants what overlaps. It blocks nobody. */
export interface Plan {
  /** The names and patterns that you are about to touch. */
  resources: string | string[];
  /** Seconds that it lives unless it is renewed; at most 24 h unless the server allows more. */
  ttl_seconds?: number;
  /** A short title of the work, for others to see. */
  name?: string | null;
  /** Why, for others to see. */
  reason?: string | null;
  /** Name of the agent, job or person; by default the name of the key. */
  holder?: string | null;
  /** ID.SECRET of a session: the plan ends with it. */
  session?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
  /** Tokens of plans and leases that you have: such a plan is replaced. */
  token?: string | string[] | null;
  /** The `traceparent` of the caller (W3C), or another id: kept with the lease, and in its events. */
  trace?: string | null;
}

/** The plan is announced; this answer alone has its token. */
export interface Planned {
  /** The plan. */
  plan: Plan;
  /** Proof that the plan is yours: release, acquire and the next plan take it. */
  token: string;
}

/** Live plans, the oldest first. */
export interface Plans {
  /** The plans, the oldest first. */
  plans: Plan[];
}

/** The members of a pool that an admin declared. */
export interface PoolDeclared {
  /** Name of the resource. */
  resource: string;
  /** The members, each with its labels after it. */
  members: string[];
}

/** Why a request failed: application/problem+json with a stable `code`. */
export interface Problem {
  /** URN of the problem: its code. */
  type: string;
  /** The problem in a few words. */
  title: string;
  /** HTTP status. */
  status: number;
  /** The problem, its reason, and what to do next. */
  detail: string;
  /** Stable code of the problem. */
  code: string;
  /** The argument that is wrong. */
  field?: string;
  /** Names of the resources. */
  resources?: string[];
  /** The leases and waiting requests that stand in the way. */
  holders?: Blocker[];
  /** The queue of the resource. */
  queue?: Queue;
  /** Seconds after which to try again at the earliest. */
  retry_after_seconds?: number;
  /** The cycle that waiting would close: agent, resource, agent, resource, … */
  cycle?: string[];
  /** Why the lease is gone. */
  reason?: string;
  /** Id of the lease. */
  lease?: string;
  /** The run. */
  workflow?: Workflow;
}

/** How many requests wait, and the place of the caller among them. */
export interface Queue {
  /** How many requests wait. */
  length: number;
  /** The place in the queue, from 1; 0: none. */
  position: number;
}

/** Release a lease. */
export interface Release {
  /** Id of the lease. */
  lease: string;
  /** The token that came with the lease. */
  token?: string | null;
  /** How the work ended. */
  status?: "completed" | "failed" | "cancelled";
  /** The error, if the work failed. */
  error?: string | null;
  /** ID.SECRET of a session; for admins its id is enough. */
  session?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
}

/** Release a lease. */
export interface ReleaseCall {
  /** The verb. */
  verb: "release";
  /** Id of the lease. */
  lease: string;
  /** The token that came with the lease. */
  token?: string | null;
  /** How the work ended. */
  status?: "completed" | "failed" | "cancelled";
  /** The error, if the work failed. */
  error?: string | null;
  /** ID.SECRET of a session; for admins its id is enough. */
  session?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
}

/** End a run, with its outcome. */
export interface ReleaseRun {
  /** Id of the run. */
  id: string;
  /** How the run ended. */
  status?: "completed" | "failed";
  /** The error, if the work failed. */
  error?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
}

/** How a release ended. */
export interface Released {
  /** Id of the lease; the resource, if an admin ended a lease on it and there was none. */
  lease: string;
  /** True if this call released it; false if it was over before. */
  released: boolean;
  /** How the lease ended: completed, failed, cancelled, released, expired, forced by … */
  reason: string;
  /** Names of the resources. */
  resources: string[];
}

/** A run that is over. */
export interface ReleasedWorkflow {
  /** The run. */
  workflow: Workflow;
  /** True if this call released it; false if it was over before. */
  released: boolean;
}

/** Reset the TTL of a lease. */
export interface Renew {
  /** Id of the lease. */
  lease: string;
  /** The token that came with the lease. */
  token?: string | null;
  /** Seconds that it lives unless it is renewed; at most 24 h unless the server allows more. */
  ttl_seconds?: number | null;
  /** ID.SECRET of a session; for admins its id is enough. */
  session?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
}

/** Reset the TTL of a lease. */
export interface RenewCall {
  /** The verb. */
  verb: "renew";
  /** Id of the lease. */
  lease: string;
  /** The token that came with the lease. */
  token?: string | null;
  /** Seconds that it lives unless it is renewed; at most 24 h unless the server allows more. */
  ttl_seconds?: number | null;
  /** ID.SECRET of a session; for admins its id is enough. */
  session?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
}

/** Reset the TTL of a session and of its leases. */
export interface RenewSession {
  /** ID.SECRET of a session; for admins its id is enough. */
  session?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
}

/** The lease as it is now. */
export interface Renewed {
  /** The lease as it is now. */
  lease: Lease;
}

/** Record that an agent changed what another one holds. */
export interface ReportTrespass {
  /** Id of the lease. */
  lease: string;
  /** The files that were changed, each as a `path:` name; at most 64. */
  paths: string | string[];
  /** The person or agent that does it; on a server with keys, the name of the key. */
  by?: string | null;
}

/** Revoke a key. */
export interface RevokeKey {
  /** Id of the key, as `keys list` shows it. */
  id: string;
  /** The person or agent that does it; on a server with keys, the name of the key. */
  by?: string | null;
  /** Why, for others to see. */
  reason?: string | null;
}

/** Add a key to the principal of this one, which works for a while longer. */
export interface RotateKey {
  /** Id of the key, as `keys list` shows it. */
  id: string;
  /** Seconds for which the key before still works. */
  overlap_seconds?: number;
  /** The person or agent that does it; on a server with keys, the name of the key. */
  by?: string | null;
  /** Why, for others to see. */
  reason?: string | null;
}

/** A session, without its secret. */
export interface Session {
  /** Its id. */
  id: string;
  /** The tenant that the name lives in. */
  space: string;
  /** Name of the agent, job or person. */
  holder: string;
  /** A short title of the work, for others to see. */
  name: string | null;
  /** Seconds that it lives unless it is renewed. */
  ttl_seconds: number;
  /** When it began. */
  started_at: string;
  /** When it expires unless it is renewed; null: never. */
  expires_at: string;
}

/** The session is over, and its leases are released. */
export interface SessionEnded {
  /** Id of the session. */
  session: string;
  /** True if this call ended the session; false if it was over before. */
  ended: boolean;
  /** Names of the resources that were released. */
  released: string[];
}

/** The session and its leases have a full TTL again. */
export interface SessionRenewed {
  /** The session. */
  session: Session;
  /** The leases, the oldest first. */
  leases: Lease[];
}

/** The session began; this answer alone has its credential. */
export interface SessionStarted {
  /** The session. */
  session: Session;
  /** The secret to authenticate with; no other answer has it. */
  credential: string;
}

/** Live sessions, the oldest first. */
export interface Sessions {
  /** The sessions, the oldest first. */
  sessions: ListedSession[];
}

/** Start a session. */
export interface StartSession {
  /** Seconds that it lives unless it is renewed; at most 24 h unless the server allows more. */
  ttl_seconds?: number;
  /** Name of the agent, job or person; by default the name of the key. */
  holder?: string | null;
  /** A short title of the work, for others to see. */
  name?: string | null;
  /** ID.SECRET for the session; by default a new one. */
  session?: string | null;
  /** For admins: a secret of their own, instead of `session`. */
  secret?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
}

/** Take over what others hold, in one step. */
export interface Steal {
  /** One name, or several that are taken together or not at all. */
  resources: string | string[];
  /** Why, for others to see. */
  reason: string;
  /** Seconds that it lives unless it is renewed; at most 24 h unless the server allows more. */
  ttl_seconds?: number;
  /** The person or agent that does it; on a server with keys, the name of the key. */
  by?: string | null;
  /** Name of the agent, job or person; by default the name of the key. */
  holder?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
  /** A short title of the work, for others to see. */
  name?: string | null;
  /** JSON for others to see, at most 16 KiB. */
  context?: unknown;
}

/** You still wait: ask again with this ticket as the `request_id` to keep your place. */
export interface Ticket {
  /** Send it as the `request_id` of the same acquire to keep your place. */
  ticket: string;
  /** The queue of the resource. */
  queue: Queue;
  /** The leases and waiting requests that stand in the way. */
  holders: Blocker[];
  /** Seconds after which to try again at the earliest. */
  retry_after_seconds: number;
}

/** The result of reporting a trespass. */
export interface TrespassReported {
  /** Id of the lease. */
  lease: string;
  /** True if the lease was still held, so that the history has it. */
  reported: boolean;
}

/** Replace the context of a lease, or merge into it. */
export interface Update {
  /** Id of the lease. */
  lease: string;
  /** JSON for others to see, at most 16 KiB. */
  context: unknown;
  /** The token that came with the lease. */
  token?: string | null;
  /** Merge into the context that is there, instead of replacing it. */
  merge?: boolean;
  /** ID.SECRET of a session; for admins its id is enough. */
  session?: string | null;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
}

/** Replace the context of a run, or merge into it; this also resets its TTL. */
export interface UpdateRun {
  /** Id of the run. */
  id: string;
  /** JSON for others to see, at most 16 KiB. */
  context: unknown;
  /** Merge into the context that is there, instead of replacing it. */
  merge?: boolean;
  /** The tenant that names live in; by default that of the key. */
  space?: string | null;
}

/** The lease with its new context. */
export interface Updated {
  /** The lease with its new context. */
  lease: Lease;
}

/** A place in the queue of a resource. */
export interface Waiting {
  /** Id of the place in the queue. */
  id: string;
  /** Names of the resources. */
  resources: string[];
  /** Name of the agent, job or person. */
  holder: string;
  /** Id of the session; null for none. */
  session: string | null;
  /** How it is held: by one holder, by many readers, or by as many as `slots` says. */
  mode: "exclusive" | "shared" | "slots";
  /** The place in the queue, from 1; 0: none. */
  position: number;
  /** Since when. */
  since: string;
  /** Seconds that it has waited. */
  waited_seconds: number;
  /** When the request gives up. */
  until: string;
  /** A short title of the work, for others to see. */
  name: string | null;
  /** Why it is held, for others to see. */
  reason: string | null;
  /** The principal, as NAME:ID; for admins, on a server with keys. */
  principal?: string;
  /** Id of the key that was used; for admins, on a server with keys. */
  key?: string;
}

/** The caller as the server knows it, and what the caller may do. */
export interface Whoami {
  /** Name of the caller: the default holder. */
  name: string;
  /** The role of the caller. */
  role: "admin" | "agent" | "viewer" | "session";
  /** The only space that the key is for; null: every space. */
  space: string | null;
  /** Names that the key is for begin with one of these; none: every name. */
  prefixes: string[];
  /** The principal, as NAME:ID; for admins, on a server with keys. */
  principal: string | null;
  /** Id of the key that was used; for admins, on a server with keys. */
  key: string | null;
  /** Id of the session; null for none. */
  session: string | null;
}

/** A run: a lease with a name, a context and an outcome. */
export interface Workflow {
  /** Id of the run. */
  id: string;
  /** The status of the run, or how it ended. */
  status: "running" | "completed" | "failed" | "cancelled" | "expired";
  /** The name of the run. */
  name: string | null;
  /** The tenant that the name lives in. */
  space: string;
  /** The resource that the run locks. */
  resource: string | null;
  /** Name of the agent, job or person. */
  holder: string;
  /** JSON that the holder put there for others to see. */
  context: unknown;
  /** The error; null if there was none. */
  error: string | null;
  /** When it began. */
  started_at: string | null;
  /** When the run ended; null while it is active. */
  ended_at: string | null;
  /** When it expires unless it is renewed; null: never. */
  expires_at: string | null;
  /** Seconds that it lives unless it is renewed. */
  ttl_seconds: number | null;
  /** A number that grows with every grant: a resource refuses writers with an older one. */
  fence: number | null;
  /** Id of the lease. */
  lease: string | null;
}

/** Runs, the newest first. */
export interface Workflows {
  /** The runs, the newest first. */
  workflows: Workflow[];
}

/** Every route that has an answer: what it takes, and what it answers when it is a yes. */
export interface Routes {
  /** Take a lease, or wait for it. */
  "POST /v1/acquire": { body: Acquire; answer: Granted; };
  /** Reset the TTL of a lease. */
  "POST /v1/renew": { body: Renew; answer: Renewed; };
  /** Release a lease. */
  "POST /v1/release": { body: Release; answer: Released; };
  /** Make several calls at once: each is answered as if it had come alone. */
  "POST /v1/batch": { body: Batch; answer: Answers; };
  /** Replace the context of a lease, or merge into it. */
  "POST /v1/update": { body: Update; answer: Updated; };
  /** Cancel an acquire by its request_id; once it is granted, with proof of its lease. */
  "POST /v1/cancel": { body: Cancel; answer: Cancelled; };
  /** Start a session. */
  "POST /v1/sessions": { body: StartSession; answer: SessionStarted; };
  /** List the live sessions. */
  "GET /v1/sessions": { query: { space?: string; }; answer: Sessions; };
  /** Reset the TTL of a session and of its leases. */
  "POST /v1/sessions/renew": { body: RenewSession; answer: SessionRenewed; };
  /** End a session, and release its leases. */
  "POST /v1/sessions/end": { body: EndSession; answer: SessionEnded; };
  /** End a lease of another holder, by its id or by a resource. */
  "POST /v1/force-release": { body: ForceRelease; answer: Released; };
  /** Take over what others hold, in one step. */
  "POST /v1/steal": { body: Steal; answer: Granted; };
  /** Open a resource that was closed after an unclean end. */
  "POST /v1/clear": { body: Clear; answer: Cleared; };
  /** Record that an agent changed what another one holds. */
  "POST /v1/trespasses": { body: ReportTrespass; answer: TrespassReported; };
  /** Give the holder of a lease more time. */
  "POST /v1/extend": { body: Extend; answer: Renewed; };
  /** Leave a note on a resource for everybody who looks at it; without a text, remove it. */
  "POST /v1/notes": { body: Note; answer: Noted; };
  /** Announce what you are about to touch, and see who plans, holds or wants what overlaps. It blocks nobody. */
  "POST /v1/plan": { body: Plan; answer: Planned; };
  /** List the live plans, each with what overlaps with it. */
  "GET /v1/plans": { query: { space?: string; holder?: string; resource?: string; }; answer: Plans; };
  /** Declare the members of a pool, each with its labels after it; without members, show those that are declared. */
  "POST /v1/pools": { body: DeclarePool; answer: PoolDeclared; };
  /** Remove what has expired, and history beyond its retention. */
  "POST /v1/gc": { body: Gc; answer: Collected; };
  /** Show the leases, the queue and the closures of one resource. */
  "GET /v1/inspect": { query: { resource: string; space?: string; }; answer: Inspection; };
  /** List the live leases. */
  "GET /v1/leases": { query: { space?: string; holder?: string; resource?: string; }; answer: Leases; };
  /** Show which agents wait for which. */
  "GET /v1/graph": { query: { space?: string; limit?: number; }; answer: Graph; };
  /** List past events, the newest first. */
  "GET /v1/history": { query: { space?: string; resource?: string; holder?: string; lease?: string; kind?: string[]; since?: number; before?: number; limit?: number; }; answer: Events; };
  /** List the keys. */
  "GET /v1/keys": { answer: Keys; };
  /** Create a key. */
  "POST /v1/keys": { body: CreateKey; answer: KeyCreated; };
  /** Add a key to the principal of this one, which works for a while longer. */
  "POST /v1/keys/rotate": { body: RotateKey; answer: KeyRotated; };
  /** Revoke a key. */
  "POST /v1/keys/revoke": { body: RevokeKey; answer: KeyRevoked; };
  /** Show the caller, and what the caller may do. */
  "GET /v1/whoami": { answer: Whoami; };
  /** Begin a run on a work unit, a task or a project, unless another is active there. */
  "POST /v1/workflows": { body: CreateRun; answer: OneWorkflow; };
  /** List runs, the newest first. */
  "GET /v1/workflows": { query: { status?: "running" | "completed" | "failed" | "cancelled" | "expired"; work_unit?: string; task?: string; limit?: number; space?: string; }; answer: Workflows; };
  /** Show one run, active or over. */
  "GET /v1/workflows/run": { query: { id: string; space?: string; }; answer: OneWorkflow; };
  /** Show the active run on a work unit, a task or a project. */
  "GET /v1/workflows/check": { query: { work_unit?: string; task?: string; project?: string; space?: string; }; answer: CheckedWorkflow; };
  /** Replace the context of a run, or merge into it; this also resets its TTL. */
  "POST /v1/workflows/update": { body: UpdateRun; answer: OneWorkflow; };
  /** Reset the TTL of a run. */
  "POST /v1/workflows/heartbeat": { body: BeatRun; answer: OneWorkflow; };
  /** End a run, with its outcome. */
  "POST /v1/workflows/release": { body: ReleaseRun; answer: ReleasedWorkflow; };
  /** Take the lock on a URI. */
  "POST /locks/acquire": { body: GatewayLock; answer: GatewayAcquired; };
  /** Release the lock. */
  "POST /locks/release": { body: GatewayLock; answer: GatewayReleased; };
  /** Reset the TTL of the lock. */
  "POST /locks/heartbeat": { body: GatewayLock; answer: GatewayBeaten; };
  /** The locks of one run. */
  "GET /locks/list": { query: { secret?: string; space?: string; }; answer: GatewayOwnLock[]; };
  /** Every lock. */
  "GET /locks/status": { query: { space?: string; }; answer: GatewayLocks; };
  /** Answer a hook of Claude: may this agent change that now? */
  "POST /v1/hooks/claude": { body: Record<string, unknown>; query: { policy?: "off" | "warn" | "require" | "require-plans" | "require-own"; root?: string; }; answer: Record<string, unknown>; };
  /** Answer a hook of Codex: may this agent change that now? */
  "POST /v1/hooks/codex": { body: Record<string, unknown>; query: { policy?: "off" | "warn" | "require" | "require-plans" | "require-own"; root?: string; }; answer: Record<string, unknown>; };
  /** Answer a hook of Cursor: may this agent change that now? */
  "POST /v1/hooks/cursor": { body: Record<string, unknown>; query: { policy?: "off" | "warn" | "require" | "require-plans" | "require-own"; root?: string; }; answer: Record<string, unknown>; };
  /** Tell that the server runs. */
  "GET /healthz": { answer: Health; };
  /** Tell that the server can serve: its store answers. */
  "GET /readyz": { answer: Health; };
  /** Return metrics in the text format of Prometheus. */
  "GET /metrics": { answer: unknown; };
  /** Return this document. */
  "GET /openapi.json": { answer: unknown; };
}

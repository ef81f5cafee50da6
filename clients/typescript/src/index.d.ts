import type * as api from "./openapi.js";
import type { Routes } from "./openapi.js";

export type * from "./openapi.js";

export interface Options {
  /** A key (`lh_…`) or a session's `ID.SECRET`. Needed where the server has keys. */
  apiKey?: string | undefined;
  /** Who asks, where a call does not say otherwise; with a key it is the key's name by default. */
  holder?: string | undefined;
  /** The tenant that names live in. */
  space?: string | undefined;
  /** Stands in for the global `fetch`. */
  fetch?: typeof globalThis.fetch | undefined;
}

export interface Call {
  /** Aborted: the request is given up, and a waiting caller has left the queue. */
  signal?: AbortSignal | undefined;
}

/** A no that is an answer: who has it, since when, until when; or why it cannot be. */
export interface Refusal extends api.Problem {
  ok: false;
}

export type Yes<T> = T & { ok: true };
export type Outcome<T> = Yes<T> | Refusal;

type Answer<R extends keyof Routes> = Routes[R]["answer"];
type Asked<R extends keyof Routes> = Omit<Routes[R], "answer"> & Call;

/** Something broke, or cannot be asked at all; `code` is stable. */
export class LeaseholdError extends Error {
  readonly code: string;
  readonly status: number | undefined;
  readonly field: string | undefined;
}

/** Leases on shared things, at a Leasehold server. */
export class Locks {
  /** One server, or several of one store with commas between them: `http://a:7420,http://b:7420`. */
  constructor(url: string, options?: Options);
  readonly holder: string | undefined;
  readonly space: string | undefined;

  /** Any route of the server: `locks.request("GET /v1/inspect", { query: { resource: "issue:42" } })`. */
  request<R extends keyof Routes>(route: R, asked?: Asked<R>): Promise<Answer<R>>;

  /** Take a lease, or wait for it, however long: `{ ok: true, lease, token, fresh }`, or why not. */
  acquire(asked: api.Acquire, call?: Call): Promise<Outcome<api.Granted>>;
  renew(asked: api.Renew, call?: Call): Promise<Outcome<api.Renewed>>;
  /** `released` is true once. */
  release(asked: api.Release, call?: Call): Promise<Outcome<api.Released>>;
  update(asked: api.Update, call?: Call): Promise<Outcome<api.Updated>>;
  cancel(asked: api.Cancel, call?: Call): Promise<Outcome<api.Cancelled>>;
  inspect(resource: string, call?: Call): Promise<api.Inspection>;
  list(query?: Routes["GET /v1/leases"]["query"], call?: Call): Promise<api.ListedLease[]>;
  history(query?: Routes["GET /v1/history"]["query"], call?: Call): Promise<api.Event[]>;
  startSession(asked?: api.StartSession, call?: Call): Promise<api.SessionStarted>;
  renewSession(session: string, call?: Call): Promise<Outcome<api.SessionRenewed>>;
  endSession(session: string, call?: Call): Promise<Outcome<api.SessionEnded>>;

  /**
   * Run `work` while the lease is held, renewed in the background, and give it back with how the work ended. Throws a
   * `LeaseholdError` if it was not granted, and if it was lost, which `work` is told by its signal; and also if it
   * could not be given back after work that went well.
   */
  withLock<T>(
    asked: api.Acquire,
    work: (lease: api.Lease, signal: AbortSignal, token: string) => T | Promise<T>,
    call?: Call,
  ): Promise<T>;
}

type CamelName<S extends string> = S extends `${infer A}_${infer B}` ? `${A}${Capitalize<CamelName<B>>}` : S;

/** The same object with names in camelCase; `context` and `detail` are the caller's own JSON. */
export type Camel<T> = T extends readonly (infer Item)[]
  ? Camel<Item>[]
  : T extends object
    ? { [K in keyof T as K extends string ? CamelName<K> : K]: K extends "context" | "detail" ? T[K] : Camel<T[K]> }
    : T;

/** A number of seconds, or a text such as `30s`, `15m` or `2h30m`. */
export type Duration = number | string;

export interface ClientOptions extends Options {
  /** Milliseconds until a call is given up, beyond its `wait`; by default it retries as long as a server may come back. */
  timeout?: number | undefined;
}

export interface ClientCall extends Call {
  /** Milliseconds, instead of the client's own. */
  timeout?: number | undefined;
}

type Timed<T> = Omit<Camel<T>, "ttlSeconds" | "waitSeconds"> & { ttl?: Duration | undefined; wait?: Duration | undefined };

/** Leases on shared things, at a Leasehold server: names in camelCase, `await using`, time-outs, events. */
export class Leasehold {
  /** One server, or several of one store with commas between them. */
  constructor(url: string, options?: ClientOptions);

  acquire(asked: Timed<api.Acquire>, call?: ClientCall): Promise<Camel<Outcome<api.Granted>>>;
  renew(asked: Omit<Timed<api.Renew>, "wait">, call?: ClientCall): Promise<Camel<Outcome<api.Renewed>>>;
  /** `released` is true once. */
  release(asked: Camel<api.Release>, call?: ClientCall): Promise<Camel<Outcome<api.Released>>>;
  update(asked: Camel<api.Update>, call?: ClientCall): Promise<Camel<Outcome<api.Updated>>>;
  cancel(asked: Camel<api.Cancel>, call?: ClientCall): Promise<Camel<Outcome<api.Cancelled>>>;
  inspect(resource: string, call?: ClientCall): Promise<Camel<api.Inspection>>;
  list(query?: Camel<Routes["GET /v1/leases"]["query"]>, call?: ClientCall): Promise<Camel<api.ListedLease[]>>;
  history(query?: Camel<Routes["GET /v1/history"]["query"]>, call?: ClientCall): Promise<Camel<api.Event[]>>;

  /** Acquire a lease that is renewed in the background until it is released. Throws a `LeaseholdError` if it is refused. */
  lock(resources: string | string[], options?: Omit<Timed<api.Acquire>, "resources"> & ClientCall): Promise<HeldLease>;

  /** Events as they happen, from now on or behind the one with this number. */
  events(filter?: {
    resource?: string | undefined;
    holder?: string | undefined;
    space?: string | undefined;
    lastEventId?: number | undefined;
    signal?: AbortSignal | undefined;
  }): AsyncGenerator<Camel<api.Event>, void, undefined>;
}

/** A lease that is held and renewed in the background; `await using` releases it. */
export class HeldLease implements AsyncDisposable {
  readonly lease: Camel<api.Lease>;
  /** Grows with every grant: a resource that remembers the largest one can refuse a stale writer. */
  readonly fence: number;
  readonly token: string;
  /** Aborted once the lease is lost. */
  readonly signal: AbortSignal;
  /** Throws if the lease is lost: before a step that cannot be undone. */
  ensure(): void;
  /** Release it as completed; throws a `LeaseholdError` if it was lost. */
  release(): Promise<void>;
  /** Release it as failed, with the error in the history. */
  fail(error: unknown): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Named locks for the critical sections of flows: satisfies FireFlow's `IFlowLockService`. */
export class FlowLockService {
  constructor(where: string | Locks, options?: Options);

  /** The same service for one flow: flows that wait for each other in a circle are then told so at once. */
  of(flow: string): FlowLockService;

  acquire: (
    lockKey: string,
    lockTtlMs: number,
    waitTimeoutMs: number,
  ) => Promise<{ acquired: boolean; lockId: string }>;
  release: (lockKey: string, lockId: string) => Promise<{ released: boolean }>;
}

// The client for programs: names in camelCase, `await using`, time-outs, and the stream of events. What it asks goes
// through `Locks`, which speaks the server's own names.

import { follow } from "./events.js";
import { Locks } from "./locks.js";

const OPAQUE = new Set(["context", "detail"]); // JSON of the caller's own: its names stay as they are
const UNITS = { ms: 0.001, s: 1, m: 60, h: 3_600, d: 86_400 };
const DISPOSE = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");

/** Leases on shared things, at a Leasehold server. */
export class Leasehold {
  #locks;
  #timeout;

  /** @param {string} url @param {import("./index.d.ts").ClientOptions} [options] */
  constructor(url, { timeout, ...options } = {}) {
    this.#locks = new Locks(url, options);
    this.#timeout = timeout;
  }

  /** Acquire a lease, or wait for it: `{ ok: true, lease, token }`, or why not. */
  async acquire({ ttl, wait = 0, ...asked }, call) {
    const times = { ...(ttl === undefined ? {} : { ttlSeconds: seconds(ttl) }), waitSeconds: seconds(wait) };
    return camel(await this.#locks.acquire(snake({ ...asked, ...times }), this.#limited(call, times.waitSeconds)));
  }

  /** Reset the TTL of a lease. */
  async renew({ ttl, ...proof }, call) {
    const times = ttl === undefined ? {} : { ttlSeconds: seconds(ttl) };
    return camel(await this.#locks.renew(snake({ ...proof, ...times }), this.#limited(call)));
  }

  /** Release a lease; `released` is true once. */
  async release(asked, call) {
    return camel(await this.#locks.release(snake(asked), this.#limited(call)));
  }

  /** Replace the context of a lease, or merge into it. */
  async update(asked, call) {
    return camel(await this.#locks.update(snake(asked), this.#limited(call)));
  }

  /** Withdraw an acquire by its requestId. */
  async cancel(asked, call) {
    return camel(await this.#locks.cancel(snake(asked), this.#limited(call)));
  }

  /** Return who holds a resource, and who waits for it. */
  async inspect(resource, call) {
    return camel(await this.#locks.inspect(resource, this.#limited(call)));
  }

  /** Return every live lease. */
  async list(query, call) {
    return camel(await this.#locks.list(snake(query), this.#limited(call)));
  }

  /** Return past events, the newest first. */
  async history(query, call) {
    return camel(await this.#locks.history(snake(query), this.#limited(call)));
  }

  /**
   * Acquire a lease that is renewed in the background until it is released: `await using held = await client.lock(…)`.
   * Throws a `LeaseholdError` if it is not granted.
   */
  lock(resources, { ttl = "30m", wait = 0, signal, timeout = this.#timeout, ...more } = {}) {
    const waitSeconds = seconds(wait);
    const asked = snake({ ...more, resources, ttlSeconds: seconds(ttl), waitSeconds });
    const stop = new AbortController();
    const late = () => stop.abort(new DOMException("no answer in time", "TimeoutError"));
    const timer = timeout === undefined ? undefined : setTimeout(late, timeout + waitSeconds * 1000);
    const either = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
    return new Promise((resolve, reject) => {
      const ended = this.#locks.withLock(asked, (lease, lost, token) => new Promise((finish, fail) => {
        clearTimeout(timer);
        resolve(new HeldLease(camel(lease), token, lost, { finish, fail, ended }));
      }), { signal: either });
      ended.catch((error) => {
        clearTimeout(timer);
        reject(error); // of no effect once it was granted: then `release` throws it
      });
    });
  }

  /** Events as they happen; after a broken connection the stream resumes behind the last event. */
  async *events({ signal, lastEventId, ...filter } = {}) {
    for await (const event of follow(this.#locks.asking, snake(filter), lastEventId, signal)) yield camel(event);
  }

  #limited({ signal, timeout = this.#timeout } = {}, wait = 0) {
    if (timeout === undefined) return { signal };
    const limit = AbortSignal.timeout(timeout + wait * 1000);
    return { signal: signal ? AbortSignal.any([signal, limit]) : limit };
  }
}

/** A lease that is held and renewed in the background. */
export class HeldLease {
  #work;

  constructor(lease, token, signal, work) {
    this.lease = lease;
    this.fence = lease.fence;
    this.token = token;
    this.signal = signal; // aborted once the lease is lost, or once the caller's own signal is
    this.#work = work;
  }

  /** Throw if the lease is lost: before a step that cannot be undone. */
  ensure() {
    this.signal.throwIfAborted();
  }

  /** Release it as completed. Throws a `LeaseholdError` if it was lost before. */
  async release() {
    this.#work.finish();
    await this.#work.ended;
  }

  /** Release it as failed, with the error in the history. */
  async fail(error) {
    this.#work.fail(error);
    await this.#work.ended.catch((thrown) => {
      if (thrown !== error) throw thrown;
    });
  }

  async [DISPOSE]() {
    await this.release();
  }
}

/** Seconds, from a number of them or from a text such as `30s`, `15m` or `2h30m`. */
function seconds(duration) {
  if (typeof duration === "number") return duration;
  const parts = /^(?:\d+(?:ms|s|m|h|d))+$/.test(duration) ? [...duration.matchAll(/(\d+)(ms|s|m|h|d)/g)] : [];
  if (!parts.length) throw new TypeError(`a duration is a number of seconds, or a text such as 30s or 2h30m, not ${duration}`);
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * UNITS[unit], 0);
}

const camelName = (name) => name.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());
const snakeName = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const camel = (value) => renamed(value, camelName);
const snake = (value) => renamed(value, snakeName);

/** The same value with other names of its fields. */
function renamed(value, rename) {
  if (Array.isArray(value)) return value.map((each) => renamed(each, rename));
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value);
  return Object.fromEntries(entries.map(([name, each]) => [rename(name), OPAQUE.has(name) ? each : renamed(each, rename)]));
}

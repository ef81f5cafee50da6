// The verbs: thin. A refusal is a value with `ok: false`; only a breakage, or input that no server takes, is thrown.

import { Asking, LeaseholdError } from "./asking.js";
import { hold } from "./holding.js";

const REFUSALS = new Set([
  "held", "timeout", "deadlock", "lost", "not_found", "not_allowed", "slots_mismatch",
  "cancelled", "spent", "conflict", "too_many", "paused", "session_over",
]);

/** Leases on shared things, at a Leasehold server. */
export class Locks {
  #kept = new Map(); // how many blocks hold each lease: with `reentrant` one may be inside of another

  /** @param {string} url @param {import("./index.d.ts").Options} [options] */
  constructor(url, options = {}) {
    this.asking = new Asking(url, options);
    this.holder = options.holder;
    this.space = options.space;
  }

  /** Any route of the server, by its method and path: its answer, or an error with a stable `code`. */
  async request(route, { body, query, signal } = {}) {
    const [method, path] = route.split(" ", 2);
    return yes(await this.asking.ask(method, path, { body, query, signal, once: happensTwice(route, body) }));
  }

  /** Take a lease, or wait for it. To ask again after a broken connection is safe: each request has an id. */
  async acquire(asked, { signal } = {}) {
    const body = this.#ours({ request_id: crypto.randomUUID(), ...asked }, "holder");
    const end = performance.now() + (asked.wait_seconds ?? 0) * 1000;
    const reply = await this.asking.ask("POST", "/v1/acquire", { body, signal });
    const outcome = told(reply);
    // Of several requests, one was told that the wait is over, and was not heard: that is what `spent` means here.
    const isLate = reply.again && outcome.code === "spent" && asked.wait_seconds && performance.now() >= end;
    return isLate ? { ...outcome, code: "timeout" } : outcome;
  }

  /** Set a lease's clock back to a full TTL. */
  renew(asked, { signal } = {}) {
    return this.#post("/v1/renew", asked, signal);
  }

  /** Give a lease back; `released` is true once. */
  async release(asked, { signal } = {}) {
    const reply = await this.asking.ask("POST", "/v1/release", { body: asked, signal });
    const outcome = told(reply);
    // A release whose first answer was lost was ours, although the second finds nothing to release.
    return reply.lost && outcome.ok && outcome.reason === "released" ? { ...outcome, released: true } : outcome;
  }

  /** Replace the context of a lease, or merge into it. */
  update(asked, { signal } = {}) {
    return this.#post("/v1/update", asked, signal);
  }

  /** Withdraw an acquire by its request_id. */
  cancel(asked, { signal } = {}) {
    return this.#post("/v1/cancel", this.#ours(asked, "holder"), signal);
  }

  /** Who holds a resource, and who waits for it. */
  inspect(resource, { signal } = {}) {
    return this.request("GET /v1/inspect", { query: this.#ours({ resource }), signal });
  }

  /** Every live lease. */
  async list(query = {}, { signal } = {}) {
    return (await this.request("GET /v1/leases", { query: this.#ours(query), signal })).leases;
  }

  /** Past events, newest first. */
  async history(query = {}, { signal } = {}) {
    return (await this.request("GET /v1/history", { query: this.#ours(query), signal })).events;
  }

  /** Begin a session: its `credential` is what every call in its name shows. */
  startSession(asked = {}, { signal } = {}) {
    return this.request("POST /v1/sessions", { body: this.#ours(asked, "holder"), signal });
  }

  /** One heartbeat for the session and all of its leases. */
  renewSession(session, { signal } = {}) {
    return this.#post("/v1/sessions/renew", this.#ours({ session }), signal);
  }

  /** Release everything that the session holds. */
  endSession(session, { signal } = {}) {
    return this.#post("/v1/sessions/end", this.#ours({ session }), signal);
  }

  /**
   * Run `work` while the lease is held, renewed in the background. Not granted: it throws. Lost: the signal that
   * `work` is given is aborted, and it throws once `work` has ended, however that ended.
   */
  withLock(asked, work, { signal } = {}) {
    return hold(this, this.#kept, asked, work, signal);
  }

  async #post(path, body, signal) {
    return told(await this.asking.ask("POST", path, { body, signal }));
  }

  /** What this client was made with goes where a call does not say otherwise. */
  #ours(asked, ...fields) {
    const known = { space: this.space };
    if (fields.includes("holder")) known.holder = this.holder;
    const given = Object.fromEntries(Object.entries(known).filter(([, value]) => value !== undefined));
    return { ...given, ...asked };
  }
}

/** Return true for a request that, sent twice, would create two things or end the next holder's lease. */
function happensTwice(route, body) {
  if (route === "POST /v1/force-release") return !/^l\d+-[0-9a-f]{32}$/.test(body?.target);
  return route === "POST /v1/keys" || route === "POST /v1/steal" || (route === "POST /v1/acquire" && !body?.request_id);
}

function told({ status, told: body }) {
  if (status < 400) return { ok: true, ...body };
  if (REFUSALS.has(body.code)) return { ok: false, ...body };
  throw problem(status, body);
}

function yes({ status, told: body }) {
  if (status < 400) return body;
  throw problem(status, body);
}

function problem(status, body) {
  return new LeaseholdError(body.code ?? "error", body.detail ?? `the server answered ${status}`, {
    status, ...(body.field ? { field: body.field } : {}),
  });
}

// FireFlow's lock service. Names and ids are those of Python's `leasehold.flow`, so that both exclude each other.

import { LeaseholdError } from "./asking.js";
import { Locks } from "./locks.js";

const NAMESPACE = "flow:";
const NAME_BYTES = 512;
const HEAD = 100;
const LONGEST = 24 * 3600 * 1000;
const NOT_PLAIN = /^$|^[%#]|^\/\/|[\u0000-\u001f\u007f-\u009f\u2028\u2029]|[\u0020\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]$/u;
const UNRESERVED = /[A-Za-z0-9_.~-]/;

/** Named locks for the critical sections of flows: satisfies FireFlow's `IFlowLockService`. */
export class FlowLockService {
  /** @param {string | Locks} where @param {import("./index.d.ts").Options} [options] */
  constructor(where, options = {}) {
    this.locks = typeof where === "string" ? new Locks(where, options) : where;
    this.holder = undefined;
    this.acquire = this.acquire.bind(this); // the interface has them as properties, so that they can be passed on
    this.release = this.release.bind(this);
  }

  /** The same service for one flow: flows that wait for each other in a circle are then told so at once. */
  of(flow) {
    const service = new FlowLockService(this.locks);
    service.holder = flow;
    return service;
  }

  /** Take a lock, or wait for it. `lockTtlMs` is required, and never 0. */
  async acquire(lockKey, lockTtlMs, waitTimeoutMs) {
    const name = await nameOf(lockKey);
    const outcome = await this.locks.acquire({
      resources: name,
      ttl_seconds: seconds(lockTtlMs, "lockTtlMs", 1),
      wait_seconds: seconds(waitTimeoutMs, "waitTimeoutMs", 0),
      // One service is shared by many flows, which are not one and the same holder.
      holder: this.holder ?? `${this.locks.holder ?? "flow"}/${crypto.randomUUID().slice(-12)}`,
    });
    if (outcome.ok) return { acquired: true, lockId: `${outcome.lease.id}.${outcome.token}.${await mark(name)}` };
    if (["held", "timeout", "deadlock"].includes(outcome.code)) return { acquired: false, lockId: "" };
    throw new LeaseholdError(outcome.code, outcome.detail, { status: outcome.status });
  }

  /** Give exactly this lock back; `released` is false if it had expired, or was released before. */
  async release(lockKey, lockId) {
    const parts = typeof lockId === "string" ? lockId.split(".") : [];
    const [lease, token, marked] = parts;
    const isOne = parts.length === 3 && /^l\d+-[0-9a-f]{32}$/.test(lease) && token;
    if (!isOne || marked !== (await mark(await nameOf(lockKey)))) return { released: false };
    const outcome = await this.locks.release({ lease, token });
    return { released: outcome.ok && outcome.released };
  }
}

function seconds(value, field, least) {
  if (typeof value !== "number" || !Number.isFinite(value) || value < least || value > LONGEST) {
    const allowed = least ? "10 ms to 24 h: a lock always expires" : "0 to 24 h";
    throw new LeaseholdError("invalid", `${field}: must be a number of milliseconds, ${allowed}`, { field });
  }
  return value / 1000;
}

/** The resource of a key. Keys are compared as written, and different ones never share a name. */
export async function nameOf(key) {
  if (typeof key !== "string") throw new LeaseholdError("invalid", "lockKey: must be a string", { field: "lockKey" });
  if (!key) throw new LeaseholdError("invalid", "lockKey: must not be empty", { field: "lockKey" });
  const octets = utf8(key);
  const isPlain = !NOT_PLAIN.test(key) && key.isWellFormed() && octets.length <= NAME_BYTES - NAMESPACE.length;
  if (isPlain) return NAMESPACE + key;
  const escaped = octets.map(escape).join("");
  if (NAMESPACE.length + 1 + escaped.length <= NAME_BYTES) return `${NAMESPACE}%${escaped}`;
  return `${NAMESPACE}#${escaped.slice(0, HEAD)}~${await sha256(octets)}`;
}

function escape(octet) {
  const letter = String.fromCharCode(octet);
  return UNRESERVED.test(letter) ? letter : `%${octet.toString(16).toUpperCase().padStart(2, "0")}`;
}

/** UTF-8, also of lone surrogates, which TextEncoder would all make the same. */
function utf8(text) {
  if (text.isWellFormed()) return [...new TextEncoder().encode(text)];
  return [...text].flatMap((letter) => {
    const code = letter.codePointAt(0);
    const isLone = code >= 0xd800 && code <= 0xdfff;
    return isLone ? [0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63)] : [...new TextEncoder().encode(letter)];
  });
}

async function sha256(octets) {
  const digest = await crypto.subtle.digest("SHA-256", Uint8Array.from(octets));
  return [...new Uint8Array(digest)].map((each) => each.toString(16).padStart(2, "0")).join("");
}

/** What tells for which key an id was given. */
async function mark(name) {
  return (await sha256(utf8(name))).slice(0, 16);
}

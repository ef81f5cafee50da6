// A lease that is kept while work goes on: renewed in the background, and given back with how the work ended.
//
// The server's clock decides when a lease ends, and its holder cannot see that clock. What it can know is that the
// server decided after the request was sent: so the life that an answer gives is counted from before that.

import { LeaseholdError } from "./asking.js";

const DRIFT = 1 / 1_000; // so much of a life is not counted on: the server's clock may run a little faster than ours
const RENEWALS = 3; // so many tries has a life
const SHORTEST_PART = 30; // the end of a session cuts a lease short: even then it is not renewed more often than this,
const LATEST_PART = 2; // but at half of its life at the latest: the session, and so the lease, may have got a heartbeat
const SHORTEST_RETRY = 5;
const LONGEST_RETRY = 1_000;
const ERROR_LONGEST = 4_096;

/** Run `work` under a lease: see `Locks.withLock`. `kept` counts the blocks that each lease is held by. */
export async function hold(locks, kept, asked, work, signal) {
  const held = await take(locks, asked, signal);
  kept.set(held.id, (kept.get(held.id) ?? 0) + 1);
  const lost = new AbortController();
  const stopped = new AbortController();
  void keep(locks, held, lost, stopped.signal);
  const either = signal ? AbortSignal.any([signal, lost.signal]) : lost.signal;
  const ended = await settled(() => work(held.lease, either, held.proof.token));
  stopped.abort();
  const others = kept.get(held.id) - 1;
  others ? kept.set(held.id, others) : kept.delete(held.id);
  if (!others) await leave(locks, held, ended, lost, signal);
  if (lost.signal.aborted) throw lost.signal.reason;
  if ("error" in ended) throw ended.error;
  return ended.result;
}

/** What came of it, as a value. */
async function settled(work) {
  try {
    return { result: await work() };
  } catch (error) {
    return { error };
  }
}

/** How long the holder may count on its lease, and when to renew it. */
class Tenure {
  constructor(granted, sent) {
    this.id = granted.lease.id;
    this.proof = { lease: this.id, token: granted.token };
    this.learn(granted.lease, sent);
  }

  /** What an answer to a request that was sent then is worth. */
  learn(lease, sent) {
    const life = lease.expires_in_seconds * 1000 * (1 - DRIFT);
    const part = (lease.ttl_seconds * 1000) / SHORTEST_PART;
    this.lease = lease;
    this.deadline = sent + life; // from then on it may be another's
    this.renewAt = sent + Math.max(life / RENEWALS, Math.min(part, life / LATEST_PART));
    this.retry = Math.min(Math.max(part, SHORTEST_RETRY), LONGEST_RETRY);
  }
}

/** Acquire; throws if the answer is no. */
async function take(locks, asked, signal) {
  const sent = performance.now();
  const granted = await locks.acquire(asked, { signal });
  if (!granted.ok) throw new LeaseholdError(granted.code, granted.detail, { status: granted.status });
  const held = new Tenure(granted, sent);
  try {
    if (held.renewAt <= performance.now()) await confirm(locks, held, granted.lease, signal);
  } catch (error) {
    const why = { status: "cancelled", error: `never handed out: ${described(error)}` };
    await settled(() => locks.release({ ...held.proof, ...why })); // what went wrong first is told
    throw error;
  }
  return held;
}

/** Much of its life may have passed when the answer came, as in a queue: it is renewed before it is handed out. */
async function confirm(locks, held, lease, signal) {
  held.deadline = performance.now() + lease.expires_in_seconds * 1000; // until then it is worth a try
  for (;;) {
    const tried = await renew(locks, held, signal);
    signal?.throwIfAborted();
    if (tried.renewed) return;
    if (tried.lost) throw lostBy(tried.lost);
    if (performance.now() >= held.deadline) throw tried.error;
    await sleep(held.retry, signal);
  }
}

/** Renew at a third of its life, until somebody stops it or it is lost. */
async function keep(locks, held, lost, stopped) {
  let trouble = "";
  while (!stopped.aborted) {
    await sleep(Math.min(held.renewAt, held.deadline) - performance.now(), stopped);
    if (stopped.aborted) return;
    if (performance.now() >= held.deadline) return lost.abort(lostBy(`not renewed in time${trouble}`));
    const tried = await renew(locks, held, stopped);
    if (stopped.aborted) return;
    if (tried.lost) return lost.abort(lostBy(tried.lost));
    trouble = tried.error ? trouble || `: ${tried.error.message}` : ""; // what went wrong first is told
    if (tried.error) held.renewAt = performance.now() + held.retry;
  }
}

/** One renewal, no longer than the lease lives: `renewed`, why it is `lost`, or the `error` that may pass. */
async function renew(locks, held, stopped) {
  const sent = performance.now();
  const limit = new AbortController();
  const stop = () => limit.abort(stopped.reason);
  const timer = setTimeout(() => limit.abort(new Error("no answer")), Math.max(1, held.deadline - sent));
  stopped?.addEventListener("abort", stop);
  if (stopped?.aborted) stop();
  try {
    const answer = await locks.renew(held.proof, { signal: limit.signal });
    if (!answer.ok) return { lost: answer.reason ?? answer.detail };
    held.learn(answer.lease, sent);
    return { renewed: true };
  } catch (error) {
    const isFinal = error instanceof LeaseholdError && error.status < 500 && error.code !== "rate_limited";
    return isFinal ? { lost: `it cannot be renewed: ${error.message}` } : { error };
  } finally {
    clearTimeout(timer);
    stopped?.removeEventListener("abort", stop);
  }
}

/** Give it back, unless it is lost. If it had been gone before, or cannot be given back, that is told; but not instead of
 * what the work itself threw. */
async function leave(locks, held, ended, lost, signal) {
  if (lost.signal.aborted) return;
  const told = await settled(() => locks.release({ ...held.proof, ...ending(ended, signal) }));
  if ("error" in ended) return;
  if ("error" in told) {
    const { code = "error", message = String(told.error), status } = told.error ?? {};
    const why = `the work is done, but the lease ${held.id} was not released, and will expire by itself: ${message}`;
    throw new LeaseholdError(code, why, { status, cause: told.error });
  }
  if (!told.result.ok || !told.result.released) lost.abort(lostBy(told.result.reason ?? told.result.detail));
}

/** How the work ended, for the history. */
function ending(ended, signal) {
  if (!("error" in ended)) return { status: "completed" };
  return { status: signal?.aborted ? "cancelled" : "failed", error: described(ended.error) };
}

function described(error) {
  return String(error).toWellFormed().slice(0, ERROR_LONGEST).toWellFormed();
}

function lostBy(reason) {
  return new LeaseholdError("lost", `the lease is gone (${reason})`);
}

/** No longer than until it is stopped. */
function sleep(milliseconds, stopped) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      stopped?.removeEventListener("abort", end);
      resolve(undefined);
    };
    const timer = setTimeout(end, Math.max(0, milliseconds));
    stopped?.addEventListener("abort", end);
    if (stopped?.aborted) end();
  });
}

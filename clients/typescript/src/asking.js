// One request to a server until it has its answer: safe retries, fail-over, waiting with a ticket. It knows no verb.

const PORT = 7420;
const TRIES = 6;
const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 2_000;
const LONGEST_RETRY_AFTER = 30_000;
const KEPT_OPEN = 50; // seconds that a server keeps a waiting request, usually: then it hands back a ticket
const SLACK = 15; // seconds that an answer may take beyond that
const LONG = 5_000; // who waits longer first asks whether anybody is there: silence is no queue
const HEARD = 30_000; // but not if somebody was heard of no longer ago than this
const SILENCES = 2; // how often in a row nothing may come in time; with more servers, once for each of them
const TOO_MUCH = 429;
const GOING_AWAY = 503; // another server may do better
const UNSENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]);

/** Something broke; a refusal is a value, not one of these. */
export class LeaseholdError extends Error {
  /** @param {string} code @param {string} message @param {{ status?: number, field?: string, cause?: unknown }} [more] */
  constructor(code, message, { status, field, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "LeaseholdError";
    this.code = code;
    this.status = status;
    this.field = field;
  }
}

/** What a server knows us by and where it is. */
export class Asking {
  constructor(url, { apiKey, fetch: using } = {}) {
    this.bases = String(url).split(",").map(baseOf);
    this.first = 0; // the server that answered last: the next call begins there
    this.heardAt = -Infinity;
    this.fetch = using ?? ((...asked) => globalThis.fetch(...asked));
    this.headers = { accept: "application/json", ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}) };
  }

  /**
   * The answer's status and JSON, whether it took more than one request, and whether an answer was lost on the way.
   * `once`: what happens anew each time, and is asked again only if it did not happen for certain.
   */
  async ask(method, path, { body, query, signal, once = false } = {}) {
    const deadline = body?.wait_seconds ? performance.now() + body.wait_seconds * 1000 : 0;
    let asked = body;
    let again = false;
    let silences = 0;
    let lost = false;
    let isThere = performance.now() - this.heardAt < HEARD;
    for (let tries = 0; ; again = true) {
      const server = this.first;
      const base = this.bases[server % this.bases.length];
      let reply;
      let isAsked = false;
      try {
        if (!isThere && deadline - performance.now() > LONG) {
          await this.#exchange(base, "GET", "/healthz", undefined, undefined, signal); // whatever it says, somebody is
        }
        isAsked = true;
        reply = await this.#exchange(base, method, path, shortened(asked, deadline), query, signal);
      } catch (cause) {
        if (signal?.aborted) throw signal.reason;
        isThere = false;
        const wasSent = isAsked && !UNSENT.has(cause?.cause?.code);
        if (once && wasSent) throw unknown(method, path, cause);
        lost ||= wasSent;
        silences = cause?.name === "TimeoutError" ? silences + 1 : 0;
        this.#turnFrom(server);
        if (++tries > TRIES || silences >= Math.max(SILENCES, this.bases.length)) throw unreachable(base, cause);
        await pause(backoff(tries), signal);
        continue;
      }
      silences = 0;
      this.heardAt = performance.now();
      isThere = reply.status !== GOING_AWAY; // then the next server is asked, if there is one
      if (reply.status === 202) {
        asked = { ...asked, request_id: reply.told.ticket };
        tries = 0; // it got on: what went wrong before does not count any more
      } else if (mayDoBetter(reply, once) && ++tries <= TRIES) {
        lost ||= reply.told.code === "outcome_unknown";
        if (reply.status === GOING_AWAY) this.#turnFrom(server);
        await pause((reply.retryAfter ?? 0) + backoff(tries), signal); // so that not everybody comes back at once
      } else {
        return { status: reply.status, told: reply.told, again, lost };
      }
    }
  }

  /** To the next server, unless another call has turned from this one already. */
  #turnFrom(server) {
    if (this.first === server) this.first += 1;
  }

  async #exchange(base, method, path, body, query, signal) {
    const limit = new AbortController();
    const exchanged = async () => {
      const reply = await this.fetch(`${base}${path}${search(query)}`, {
        method,
        headers: body === undefined ? this.headers : { ...this.headers, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: limit.signal,
        redirect: "error", // a key is for this server only
      });
      const after = Number(reply.headers.get("retry-after"));
      const retryAfter = after > 0 ? Math.min(after * 1000, LONGEST_RETRY_AFTER) : undefined;
      return { status: reply.status, told: read(await reply.text(), reply), retryAfter };
    };
    return within(exchanged, limit, (Math.min(body?.wait_seconds ?? 0, KEPT_OPEN) + SLACK) * 1000, signal);
  }
}

/** Where a server is; without a port, over http, at Leasehold's own, as for every other client. */
function baseOf(url) {
  const base = URL.canParse(url) ? new URL(url) : undefined;
  if (base?.protocol !== "http:" && base?.protocol !== "https:") {
    throw new LeaseholdError("invalid", `url: must be http://HOST or https://HOST, not ${url}`, { field: "url" });
  }
  // Port 80 is not told by a URL that was parsed, as it is that of http.
  if (base.protocol === "http:" && !base.port && !/^[^/]*\/\/[^/]*:80(\/|$)/.test(url.trim())) base.port = PORT;
  return base.href.replace(/\/$/, "");
}

/** Whether the same request may be answered otherwise soon. Of what there is too much, nothing goes by itself. */
function mayDoBetter({ status, told }, once) {
  if (once && told.code === "outcome_unknown") return false;
  return status === GOING_AWAY || (status === TOO_MUCH && told.code !== "too_many");
}

/** What this gives, unless it takes too long or is called off: also where the body of an answer never ends. */
async function within(work, limit, milliseconds, signal) {
  const stop = () => limit.abort(signal.reason);
  const timer = setTimeout(
    () => limit.abort(new DOMException("nothing came in time", "TimeoutError")), Math.ceil(milliseconds),
  );
  signal?.addEventListener("abort", stop);
  if (signal?.aborted) stop();
  const over = new Promise((_, reject) => {
    if (limit.signal.aborted) reject(limit.signal.reason);
    limit.signal.addEventListener("abort", () => reject(limit.signal.reason));
  });
  over.catch(() => {}); // the work itself may end first, by the same signal
  try {
    return await Promise.race([work(), over]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
  }
}

/** JSON; or, of a route that answers in other words, the text. */
function read(text, { ok, status }) {
  try {
    return JSON.parse(text);
  } catch {
    if (ok) return text;
    if (![502, 503, 504].includes(status)) {
      throw new Error(`what answers there is not a Leasehold server: its answer is not JSON (status ${status})`);
    }
    throw new Error(
      `a proxy answered ${status} instead of the server: is that running, and may requests stay open there as long as ` +
      "the server keeps those that wait (serve --keep-open)?",
    );
  }
}

function shortened(body, deadline) {
  return deadline ? { ...body, wait_seconds: Math.max(0, (deadline - performance.now()) / 1000) } : body;
}

export function search(query) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null) given.append(name, String(each));
    }
  }
  return given.size ? `?${given}` : "";
}

export function backoff(tries) {
  const longest = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** tries);
  return longest / 2 + (Math.random() * longest) / 2;
}

export function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(end, milliseconds, resolve);
    const stop = () => end(() => reject(signal.reason));
    function end(settle) {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
      settle();
    }
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop);
  });
}

function reasonOf(cause) {
  return cause?.cause?.message || cause?.message || String(cause);
}

export function unreachable(base, cause) {
  return new LeaseholdError("unreachable", `no answer from the server at ${base}: ${reasonOf(cause)}`, { cause });
}

function unknown(method, path, cause) {
  const why = `the answer to ${method} ${path} was lost (${reasonOf(cause)}): look whether it happened`;
  return new LeaseholdError("outcome_unknown", why, { cause });
}

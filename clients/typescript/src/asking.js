// One request to a server until it has its answer: safe retries, waiting with a ticket. It knows no verb.

const TRIES = 6;
const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 2_000;
const LONGEST_RETRY_AFTER = 30_000;
const KEPT_OPEN = 50; // seconds that a server keeps a waiting request, usually: then it hands back a ticket
const SLACK = 15; // seconds that an answer may take beyond that
const SILENCES = 2; // how often in a row nothing may come in time
const BUSY = new Set([429, 503]);

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
    const base = new URL(url);
    if (base.protocol !== "http:" && base.protocol !== "https:") {
      throw new LeaseholdError("invalid", `url: must begin with http: or https:, not ${base.protocol}`, { field: "url" });
    }
    this.base = base.href.replace(/\/$/, "");
    this.fetch = using ?? ((...asked) => globalThis.fetch(...asked));
    this.headers = { accept: "application/json", ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}) };
  }

  /** The answer's status and JSON, whether it took more than one request, and whether an answer was lost on the way. */
  async ask(method, path, { body, query, signal } = {}) {
    const deadline = body?.wait_seconds ? performance.now() + body.wait_seconds * 1000 : 0;
    let asked = body;
    let tickets = 0;
    let silences = 0;
    let lost = false;
    for (let tries = 0; ; ) {
      const now = shortened(asked, deadline);
      let reply;
      try {
        reply = await this.#exchange(method, path, now, query, signal);
      } catch (cause) {
        if (signal?.aborted) throw signal.reason;
        lost = true;
        silences = cause?.name === "TimeoutError" ? silences + 1 : 0;
        if (++tries > TRIES || silences >= SILENCES) throw unreachable(this.base, cause);
        await pause(backoff(tries), signal);
        continue;
      }
      silences = 0;
      if (reply.status === 202) {
        asked = { ...asked, request_id: reply.told.ticket };
        tickets += 1;
      } else if (BUSY.has(reply.status) && reply.told.code !== "too_many" && ++tries <= TRIES) {
        lost ||= reply.told.code === "outcome_unknown";
        await pause(reply.retryAfter ?? backoff(tries), signal);
      } else {
        return { status: reply.status, told: reply.told, again: tries + tickets > 0, lost };
      }
    }
  }

  async #exchange(method, path, body, query, signal) {
    const limit = new AbortController();
    const exchanged = async () => {
      const reply = await this.fetch(`${this.base}${path}${search(query)}`, {
        method,
        headers: body === undefined ? this.headers : { ...this.headers, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: limit.signal,
        redirect: "error", // a key is for this server only
      });
      const after = Number(reply.headers.get("retry-after"));
      const retryAfter = after > 0 ? Math.min(after * 1000, LONGEST_RETRY_AFTER) : undefined;
      return { status: reply.status, told: read(await reply.text(), reply.ok), retryAfter };
    };
    return within(exchanged, limit, (Math.min(body?.wait_seconds ?? 0, KEPT_OPEN) + SLACK) * 1000, signal);
  }
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
function read(text, isOk) {
  try {
    return JSON.parse(text);
  } catch {
    if (isOk) return text;
    throw new Error("what answers there is not a Leasehold server: its answer is not JSON");
  }
}

function shortened(body, deadline) {
  return deadline ? { ...body, wait_seconds: Math.max(0, (deadline - performance.now()) / 1000) } : body;
}

function search(query) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null) given.append(name, String(each));
    }
  }
  return given.size ? `?${given}` : "";
}

function backoff(tries) {
  const longest = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** tries);
  return longest / 2 + (Math.random() * longest) / 2;
}

function pause(milliseconds, signal) {
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

function unreachable(base, cause) {
  const why = cause?.cause?.message ?? cause?.message ?? String(cause);
  return new LeaseholdError("unreachable", `no answer from the server at ${base}: ${why}`, { cause });
}

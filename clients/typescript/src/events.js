// The server's stream of events, by `fetch`: an `EventSource` can send no key.

import { backoff, LeaseholdError, pause, search, unreachable } from "./asking.js";

const TRIES = 6;

/** Yield every event from now on, or behind the one with this number. Ends with `signal`, which it throws. */
export async function* follow(asking, query, lastEventId, signal) {
  let last = lastEventId;
  for (let tries = 0; ; ) {
    const base = asking.bases[asking.first % asking.bases.length];
    try {
      for await (const { id, kind, data } of opened(asking, base, query, last, signal)) {
        tries = 0;
        last = id || last;
        if (data) yield { kind, ...JSON.parse(data) };
      }
    } catch (cause) {
      if (signal?.aborted) throw signal.reason;
      if (cause instanceof LeaseholdError && cause.status < 500) throw cause;
      if (++tries > TRIES) throw unreachable(base, cause);
      asking.first += 1;
    }
    await pause(backoff(tries), signal);
  }
}

async function* opened(asking, base, query, last, signal) {
  const headers = { ...asking.headers, accept: "text/event-stream", ...(last ? { "last-event-id": String(last) } : {}) };
  const reply = await asking.fetch(`${base}/v1/events${search(query)}`, { headers, signal, redirect: "error" });
  if (!reply.ok) {
    const body = await reply.json().catch(() => ({}));
    throw new LeaseholdError(body.code ?? "error", body.detail ?? `the server answered ${reply.status}`, { status: reply.status });
  }
  let text = "";
  for await (const piece of reply.body.pipeThrough(new TextDecoderStream())) {
    const parts = `${text}${piece}`.split("\n\n");
    text = parts.pop();
    yield* parts.map(parsed);
  }
}

/** One event of the stream; a comment alone has no data. */
function parsed(part) {
  const fields = { event: "", id: "", data: [] };
  for (const line of part.split("\n")) {
    const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (name === "data") fields.data.push(value);
    else if (name === "id" || name === "event") fields[name] = value;
  }
  return { id: fields.id, kind: fields.event, data: fields.data.join("\n") };
}

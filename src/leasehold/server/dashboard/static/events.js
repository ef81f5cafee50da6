// Events as lines of text: when, what, who, and the rest of what the history says.

import { get } from "./api.js";
import { el } from "./dom.js";
import { moment, span } from "./times.js";

const NAMES_MOST = 8; // so many names of one lease are asked about
const EVENTS_MOST = 30;

// Over git, the commits keep only the whole reason.
const byWhom = (d) => (d.by ? `by ${d.by}: ${d.why}` : (d.reason ?? "").replace(/^forced /, ""));
const REMARKS = {
  forced: byWhom, cleared: byWhom, extended: byWhom, refused: (d) => `behind ${(d.by ?? []).join(", ")}`,
  planned: (d) => d.name ?? "", plan_ended: (d) => d.reason, noted: (d) => d.note ?? "removed the note", trespass: (d) => `${d.by} changed ${(d.paths ?? []).join(", ")}`,
  deadlock: (d) => (d.cycle ?? []).join(" → "), released: (d) => [d.status, d.error].filter(Boolean).join(": "),
  granted: (d) => (d.waited_seconds ? `after ${span(d.waited_seconds * 1000)}` : ""), queued: (d) => `place ${d.position}`,
  key_created: (d) => [d.role, d.by && byWhom(d)].filter(Boolean).join(", "), key_revoked: (d) => (d.by ? byWhom(d) : ""), session_ended: (d) => (d.by ? byWhom(d) : ""),
};

export const remarkOf = (event) => REMARKS[event.kind]?.(event.detail) ?? "";

export function eventLine(event) {
  const remark = remarkOf(event);
  return el("li", {}, el("time", { datetime: event.at, title: event.at }, moment(Date.parse(event.at))),
    el("b", { class: `kind ${event.kind}` }, event.kind.replace("_", " ")), el("span", {}, event.holder, remark && ` · ${remark}`));
}

export const newestFirst = (a, b) => (a.at === b.at ? b.seq - a.seq : a.at < b.at ? 1 : -1);

export function eventList(events) {
  const lines = events.slice(0, EVENTS_MOST).map(eventLine);
  return el("ol", { class: "events" }, ...(lines.length ? lines : [el("li", {}, "The history has no event of it.")]));
}

// The events of these names, the newest first, as lines; or why they cannot be fetched.
export async function lately(resources, space) {
  try {
    const told = await Promise.all(resources.slice(0, NAMES_MOST).map((resource) => get("/v1/history", { resource, space, limit: EVENTS_MOST })));
    const events = new Map(told.flatMap((each) => each.events).map((event) => [event.seq, event]));
    const lines = [...events.values()].sort(newestFirst).slice(0, EVENTS_MOST).map(eventLine);
    return lines.length ? lines : [el("li", {}, "The history has no event of it.")];
  } catch (error) {
    return [el("li", { class: "trouble" }, error.message)];
  }
}

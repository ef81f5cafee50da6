// The details of one lease or one run: its work, its context, its queue, and the latest events there.

import { keep } from "./address.js";
import { get } from "./api.js";
import { extend, forceRelease, steal } from "./acts.js";
import { toast } from "./dialog.js";
import { byId, el, say } from "./dom.js";
import { lately } from "./events.js";
import { holderLink, keyLink, named, resourceLinks, sessionLink, traceOf } from "./naming.js";
import { left, moment, now, span } from "./times.js";

let opened = null; // the lease or run that is shown
let from = null; // the element that had the focus

// The address names what the panel shows, unless it has another view already.
export function closePanel(forgets = true) {
  if (!opened) return;
  opened = null;
  if (forgets) keep({ lease: "" });
  byId("panel").hidden = true;
  document.body.classList.remove("with-panel");
  from?.focus?.();
}

function open(lease, title, ...parts) {
  opened = lease;
  keep({ lease });
  const panel = byId("panel");
  if (panel.hidden) from = document.activeElement;
  const close = el("button", { type: "button", class: "quiet close", "aria-label": "Close the details", onclick: () => closePanel() }, "✕");
  const heading = el("h2", { tabindex: "-1" }, title);
  panel.replaceChildren(el("div", { class: "panel-head" }, heading, close), ...parts);
  panel.hidden = false;
  document.body.classList.add("with-panel");
  heading.focus({ preventScroll: true });
  panel.scrollTop = 0;
}

export function facts(pairs) {
  return el("dl", { class: "facts" }, ...pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value.length !== 0)
    .flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, ...[value].flat())]));
}

export function contextOf(context) {
  if (context === null || context === undefined) return null;
  // Only the indentation makes newlines: those inside of values are spelled \n by then.
  const lines = JSON.stringify(context, null, 2).split("\n").map((line, number) => [number > 0 && document.createTextNode("\n"), line]);
  return [el("h3", {}, "Context"), el("pre", { class: "context", tabindex: "0" }, ...lines.flat())];
}

const NAMES_MOST = 8; // so many names of one lease, or of its queue, are fetched
const WAITERS_MOST = 50;

// True if one of its names has an event that came after this one.
const hasHappened = ({ latest }, lease, last) => latest.slice(0, latest.indexOf(last) + 1 || latest.length).some((event) =>
  event !== last && event.space === lease.space && event.resources.some((name) => lease.resources.includes(name)));

// The state of every name that it covers, and requests that wait for it for a name that overlaps with it.
async function lookAt(app, lease) {
  const behind = (app.live?.graph?.waits ?? []).filter((wait) => wait.leases.includes(lease.id));
  const places = new Set(behind.map((wait) => wait.id)), own = new Set(lease.resources);
  const wanted = behind.flatMap((wait) => wait.resources); // before names without a queue, of which there may be many
  const names = [...new Set([lease.resources[0], ...wanted, ...own])].slice(0, NAMES_MOST);
  const seen = await Promise.all(names.map((resource) => get("/v1/inspect", { resource, space: lease.space })));
  const found = seen.flatMap((each, place) => each.waiting.filter((waiter) => own.has(names[place]) || places.has(waiter.id)));
  const waiting = [...new Map(found.map((waiter) => [waiter.id, waiter])).values()];
  waiting.sort((a, b) => a.position - b.position || (a.since < b.since ? -1 : 1));
  return { held: seen.flatMap((each) => each.leases).find((each) => each.id === lease.id), waiting };
}

// A lease that is held: it is updated whenever something happens, and its times run.
export function openLease(app, lease) {
  const remaining = el("span"), since = el("span"), queue = el("div", { class: "queue" }), context = el("div");
  const events = el("ol", { class: "events" }, el("li", {}, "Loading …"));
  let waiters = [], known = null, last, isLooking = false;
  const buttons = app.me.can.includes("force_release") && el("p", { class: "buttons" },
    el("button", { type: "button", class: "danger", onclick: () => forceRelease(lease) }, "Force-release"),
    el("button", { type: "button", onclick: () => steal(lease) }, "Steal"),
    el("button", { type: "button", onclick: () => extend(lease) }, "Extend"));
  open(lease.id, named(lease.resources, lease.space), facts([
    ["Page", resourceLinks(lease.resources, lease.space)], ["Holder", holderLink(lease.holder, lease.space)], ["Host", lease.host], ["Work", lease.name], ["Reason", lease.reason], ["Left", remaining],
    ["Held for", since], ["Mode", lease.mode === "slots" ? `slots, ${lease.slots}` : lease.mode],
    ["Fence", String(lease.fence)], ["Lease", lease.id], ["Session", sessionLink(lease.session, lease.space)], ["Principal", lease.principal], ["Key", keyLink(lease.key)], ["Trace", traceOf(lease.trace)], ["Space", lease.space],
  ]), buttons, queue, context, el("h3", {}, "Lately"), events);
  const draw = () => {
    const live = app.state.leases.get(lease.id);
    say(remaining, live ? `${left(live.expires - now())} of ${span(live.ttl)}` : "it is over");
    say(since, `${span(now() - lease.acquired)}, since ${moment(lease.acquired)}`);
    for (const [node, from] of waiters) say(node, ` for ${span(now() - from)}`);
    if (buttons) buttons.hidden = !live; // a lease that is over cannot be ended
    if (hasHappened(app.state, lease, last)) look();
  };
  const look = async () => {
    if (isLooking) return;
    isLooking = true;
    last = app.state.latest[0];
    try {
      const [seen, lines] = await Promise.all([lookAt(app, lease), lately(lease.resources, lease.space)]);
      if (opened !== lease.id) return;
      const told = JSON.stringify(seen.held?.context ?? null);
      if (seen.held && told !== known) context.replaceChildren(...(contextOf(seen.held.context) ?? []));
      known = seen.held ? told : known;
      waiters = showQueue(queue, seen.waiting);
      events.replaceChildren(...lines);
    } catch (error) {
      queue.replaceChildren(el("p", { class: "trouble" }, error.message));
    } finally {
      isLooking = false;
    }
  };
  app.panel = { tick: () => opened === lease.id && draw(), look: () => opened === lease.id && look() };
  look();
  draw();
}

// Returns the elements that show how long each request has waited.
function showQueue(queue, waiting) {
  const shown = waiting.slice(0, WAITERS_MOST).map((each) => [el("span", {}, ` for ${span(now() - Date.parse(each.since))}`), each]);
  const more = waiting.length - shown.length;
  queue.replaceChildren(el("h3", {}, waiting.length ? `Queue (${waiting.length})` : "Queue"), waiting.length
    ? el("ol", { class: "waiters" }, ...shown.map(([time, each]) => el("li", {}, el("b", {}, each.holder), time, each.name && ` · ${each.name}`)))
    : el("p", { class: "hint" }, "No request waits."), more > 0 ? el("p", { class: "hint" }, `and ${more} more`) : "");
  return shown.map(([time, each]) => [time, Date.parse(each.since)]);
}

// What the address names: a lease that is held, or what the history knows of one that is over.
export async function openLeaseById(app, id) {
  const live = app.state.leases.get(id);
  if (live) return openLease(app, live);
  try {
    const told = await get("/dashboard/runs", { lease: id });
    if (told.runs.length) openRun(app, told.runs[0]);
    else toast(`The history has no lease ${id}`, "bad");
  } catch (error) {
    toast(error.message, "bad");
  }
}

export function openRun(app, run) {
  app.panel = null;
  const ended = run.ended ? Date.parse(run.ended) : null;
  const events = el("ol", { class: "events" }, el("li", {}, "Loading …"));
  open(run.lease, named(run.resources, run.space), facts([
    ["Page", resourceLinks(run.resources, run.space)],
    ["Status", el("span", { class: `status ${run.outcome}` }, run.outcome)], ["Error", run.error], ["Holder", holderLink(run.holder, run.space)], ["Work", run.name],
    ["Reason", run.reason], ["Began", moment(Date.parse(run.began))], ["Ended", ended && moment(ended)],
    ["Took", span((ended ?? now()) - Date.parse(run.began))], ["Waited", run.waited_seconds ? span(run.waited_seconds * 1000) : null],
    ["Mode", run.mode], ["Fence", String(run.fence)], ["Lease", run.lease], ["Session", sessionLink(run.session, run.space)], ["Space", run.space],
  ]), ...(contextOf(run.context) ?? []), el("h3", {}, "Lately"), events);
  lately(run.resources, run.space).then((lines) => events.replaceChildren(...lines));
}

// The details of one lease or one run: what it is about, its context, who waits, and what happened there lately.

import { get } from "./api.js";
import { forceRelease, steal } from "./acts.js";
import { byId, el, say } from "./dom.js";
import { ago, left, moment, now, span } from "./times.js";

let opened = null; // what is shown now
let from = null; // where the focus was

export function closePanel() {
  if (!opened) return;
  opened = null;
  byId("panel").hidden = true;
  document.body.classList.remove("with-panel");
  from?.focus?.();
}

function open(title, ...parts) {
  const panel = byId("panel");
  if (panel.hidden) from = document.activeElement;
  const close = el("button", { type: "button", class: "quiet close", "aria-label": "Close the details", onclick: closePanel }, "✕");
  const heading = el("h2", { tabindex: "-1" }, title);
  panel.replaceChildren(el("div", { class: "panel-head" }, heading, close), ...parts);
  panel.hidden = false;
  document.body.classList.add("with-panel");
  heading.focus({ preventScroll: true });
  panel.scrollTop = 0;
}

function facts(pairs) {
  return el("dl", { class: "facts" }, ...pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function contextOf(context) {
  if (context === null || context === undefined) return null;
  // A real newline is one that the indenting made: those inside of values are spelled \n by then.
  const lines = JSON.stringify(context, null, 2).split("\n").map((line, number) => [number > 0 && document.createTextNode("\n"), line]);
  return [el("h3", {}, "Context"), el("pre", { class: "context", tabindex: "0" }, ...lines.flat())];
}

const REMARKS = {
  forced: (d) => `by ${d.by}: ${d.why}`, cleared: (d) => `by ${d.by}: ${d.why}`, refused: (d) => `behind ${(d.by ?? []).join(", ")}`,
  deadlock: (d) => (d.cycle ?? []).join(" → "), released: (d) => [d.status, d.error].filter(Boolean).join(": "),
  granted: (d) => (d.waited_seconds ? `after ${span(d.waited_seconds * 1000)}` : ""), queued: (d) => `place ${d.position}`,
};

function eventLine(event) {
  const remark = REMARKS[event.kind]?.(event.detail) ?? "";
  return el("li", {}, el("time", { datetime: event.at, title: event.at }, moment(Date.parse(event.at))),
    el("b", { class: `kind ${event.kind}` }, event.kind), el("span", {}, event.holder, remark && ` · ${remark}`));
}

async function lately(app, resource, space) {
  const list = el("ol", { class: "events" }, el("li", {}, "Looking …"));
  get("/v1/history", { resource, space, limit: 30 }).then(
    (told) => list.replaceChildren(...(told.events.length ? told.events.map(eventLine) : [el("li", {}, "Nothing yet.")])),
    (error) => list.replaceChildren(el("li", { class: "trouble" }, error.message)));
  return [el("h3", {}, "Lately"), list];
}

// A lease that is held: it is looked at anew whenever something happens.
export async function openLease(app, lease) {
  opened = lease.id;
  const remaining = el("span");
  const queue = el("div", { class: "queue" });
  const context = el("div");
  const resource = lease.resources[0];
  const buttons = app.me.can.includes("force_release") && el("p", { class: "buttons" },
    el("button", { type: "button", class: "danger", onclick: () => forceRelease(lease) }, "Force-release"),
    el("button", { type: "button", onclick: () => steal(lease) }, "Steal"));
  open(lease.resources.join(" + "), facts([
    ["Holder", lease.holder], ["Work", lease.name], ["Reason", lease.reason], ["Left", remaining],
    ["Since", `${moment(lease.acquired)} (${ago(lease.acquired)})`], ["Mode", lease.mode === "slots" ? `slots, ${lease.slots}` : lease.mode],
    ["Fence", String(lease.fence)], ["Lease", lease.id], ["Session", lease.session], ["Space", lease.space],
  ]), buttons, queue, context, ...(await lately(app, resource, lease.space)));
  const draw = () => {
    const known = app.state.leases.get(lease.id);
    say(remaining, known ? `${left(known.expires - now())} of ${span(known.ttl)}` : "it is over");
    if (buttons) buttons.hidden = !known; // of a lease that is over there is nothing left to end
  };
  const look = async () => {
    try {
      const seen = await get("/v1/inspect", { resource, space: lease.space });
      if (opened !== lease.id) return;
      const held = seen.leases.find((each) => each.id === lease.id);
      if (held) context.replaceChildren(...(contextOf(held.context) ?? []));
      queue.replaceChildren(...queueOf(seen.waiting));
    } catch (error) {
      queue.replaceChildren(el("p", { class: "trouble" }, error.message));
    }
  };
  app.panel = { tick: () => opened === lease.id && draw(), look: () => opened === lease.id && look() };
  draw();
  look();
}

function queueOf(waiting) {
  const heading = el("h3", {}, waiting.length ? `Queue (${waiting.length})` : "Queue");
  if (!waiting.length) return [heading, el("p", { class: "hint" }, "Nobody waits.")];
  return [heading, el("ol", { class: "waiters" }, ...waiting.slice(0, 50).map((each) =>
    el("li", {}, el("b", {}, each.holder), ` for ${span(now() - Date.parse(each.since))}`, each.name && ` · ${each.name}`)))];
}

export async function openRun(app, run) {
  opened = run.lease;
  app.panel = null;
  const ended = run.ended ? Date.parse(run.ended) : null;
  open(run.resources.join(" + "), facts([
    ["Status", el("span", { class: `status ${run.outcome}` }, run.outcome)], ["Error", run.error], ["Holder", run.holder], ["Work", run.name],
    ["Reason", run.reason], ["Began", moment(Date.parse(run.began))], ["Ended", ended && moment(ended)],
    ["Took", span((ended ?? now()) - Date.parse(run.began))], ["Waited", run.waited_seconds ? span(run.waited_seconds * 1000) : null],
    ["Mode", run.mode], ["Fence", String(run.fence)], ["Lease", run.lease], ["Session", run.session], ["Space", run.space],
  ]), ...(contextOf(run.context) ?? []), ...(await lately(app, run.resources[0], run.space)));
}

// Waiting: requests in queues, and those before them; the wait-for graph; and the cycles that were refused.

import { drawCycle, drawGraph } from "./drawing.js";
import { byId, el, say } from "./dom.js";
import { nobodyWaits } from "./empty.js";
import { named } from "./naming.js";
import { openLeaseById } from "./panel.js";
import { Rows } from "./rows.js";
import { Sorting, compare } from "./sorting.js";
import { ago, left, now, span } from "./times.js";

const COLUMNS = [["holder", "Holder"], ["resource", "Resource"], ["long", "Waiting for"], ["behind", "Behind"], ["until", "Place kept for"]];
const ORDERS = {
  holder: (a, b) => compare(a.holder, b.holder),
  resource: (a, b) => compare(a.resources[0], b.resources[0]) || compare(a.since, b.since),
  long: (a, b) => compare(a.since, b.since), // the longest first
  until: (a, b) => compare(a.until, b.until),
};
const CYCLES_MOST = 6;

export class Waiting {
  constructor(app) {
    this.app = app;
    this.rows = new Rows({ label: "Who waits", make: makeRow, show: (row, wait) => this.#show(row, wait), open: (wait) => wait.leases.length && openLeaseById(app, wait.leases[0]), empty: nobodyWaits(), fit: true });
    this.sorting = new Sorting(COLUMNS, ORDERS, "long", () => this.#list());
    this.rows.head(this.sorting.heads);
    this.picture = el("div", { class: "picture", tabindex: "0", role: "group", "aria-label": "The wait-for graph; scroll to see all of it" });
    this.note = el("p", { class: "hint" });
    this.cycles = el("div", { class: "cycles" });
    this.element = el("section", { class: "view waiting", "aria-labelledby": "waiting-title" },
      el("h1", { id: "waiting-title" }, "Waiting requests"),
      el("p", { class: "legend" }, el("span", { class: "key agent" }, "agent"), el("span", { class: "key resource" }, "resource"),
        el("span", { class: "key waits" }, "waits for"), el("span", { class: "key held" }, "held by"), el("span", { class: "key polls" }, "polls for")),
      this.picture, this.note, this.rows.element,
      el("h2", {}, "Deadlocks that were refused"), this.cycles);
  }

  show({ given }) {
    this.sorting.read(given);
    this.graph();
    if (given.lease) openLeaseById(this.app, given.lease);
  }

  hide() {}
  update() {}

  graph() {
    const graph = this.app.live?.graph;
    if (!graph) return;
    this.#list();
    const same = JSON.stringify(graph.drawing);
    if (same !== this.drawn) {
      this.drawn = same;
      this.picture.replaceChildren(graph.drawing.nodes.length ? drawGraph(graph.drawing) : el("p", { class: "empty" }, "No request waits: there is nothing to draw."));
    }
    say(this.note, graph.drawing.complete ? "" : "There are more: the longest waits are drawn.");
    this.#drawCycles(graph.deadlocks);
  }

  #list() {
    this.rows.set(this.sorting.sorted(this.app.live?.graph?.waits ?? []), nobodyWaits);
  }

  #drawCycles(deadlocks) {
    const key = deadlocks.map((event) => event.seq).join();
    if (key === this.known && this.cycles.childElementCount) return;
    this.known = key;
    this.cycles.replaceChildren(...(deadlocks.length ? deadlocks.slice(0, CYCLES_MOST).map(cycleCard) : [el("p", { class: "hint" }, "None in the history.")]));
  }

  tick() {
    this.rows.refresh();
    for (const node of this.cycles.querySelectorAll("time")) say(node, ago(Date.parse(node.dateTime)));
  }

  #show(row, wait) {
    const [holder, resource, long, behind, until] = row.cells;
    say(holder, wait.holder);
    say(resource, named(wait.resources, wait.space));
    say(long, span(now() - Date.parse(wait.since)));
    say(behind, behindWhom(wait));
    say(until, wait.polls ? "polls" : left(Date.parse(wait.until) - now()));
  }
}

const behindWhom = (wait) => [...wait.behind.map((each) => `${each.holder} (${each.state === "held" ? "holds it" : "waits before"})`),
  ...(wait.behind_more ? [`and ${wait.behind_more} more`] : [])].join(", ");

function cycleCard(event) {
  const cycle = event.detail.cycle ?? [];
  return el("article", { class: "card cycle-card", "data-seq": String(event.seq) },
    el("p", {}, el("b", {}, event.holder), " was refused ", el("b", {}, named(event.resources, event.space)), " ", el("time", { datetime: event.at }, ago(Date.parse(event.at))),
      ": waiting would never have ended."),
    drawCycle(cycle),
    el("p", { class: "path" }, [...cycle, cycle[0]].join(" → ")));
}

function makeRow() {
  const cells = COLUMNS.map(([name]) => el("div", { class: `cell ${name}`, role: "gridcell" }));
  return Object.assign(el("div", { class: "wait" }, ...cells), { cells });
}

export const waitingIn = (graph) => (graph?.waits ?? []).filter((wait) => !wait.polls).length;

export function showCount(graph) {
  const count = waitingIn(graph);
  const badge = byId("count-waiting");
  say(badge, count > 999 ? "999+" : `${count}${graph.complete ? "" : "+"}`);
  badge.hidden = count === 0;
}

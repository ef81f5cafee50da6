// Now: every lease, with its holder, its work, the time left, and its queue.

import { el, say } from "./dom.js";
import { openLease } from "./panel.js";
import { Rows } from "./rows.js";
import { left, now } from "./times.js";
import { waitingIn } from "./waiting.js";

const REORDER = 250;
const COLUMNS = [
  ["resource", "Resource"], ["holder", "Holder"], ["name", "Work"], ["mode", "Mode"], ["fence", "Fence"], ["left", "Left"], ["queue", "Queue"],
];
const ORDERS = {
  resource: (a, b) => compare(a.resources[0], b.resources[0]) || a.fence - b.fence,
  holder: (a, b) => compare(a.holder, b.holder) || compare(a.resources[0], b.resources[0]),
  name: (a, b) => compare(a.name ?? "\uffff", b.name ?? "\uffff") || a.fence - b.fence,
  mode: (a, b) => compare(a.mode, b.mode) || a.fence - b.fence,
  fence: (a, b) => b.fence - a.fence,
  left: (a, b) => a.expires - b.expires || a.fence - b.fence,
};
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

export class Now {
  constructor(app) {
    this.app = app;
    this.order = "resource";
    this.queues = new Map();
    this.drawn = -1;
    this.search = el("input", { type: "search", id: "search", placeholder: "Resource, holder or work", autocomplete: "off", spellcheck: "false", oninput: () => this.update(true), onkeydown: (event) => this.rows.take(event, { up: false }) });
    this.space = el("select", { id: "space", onchange: () => this.update(true) }, el("option", { value: "" }, "All spaces"));
    this.told = el("p", { class: "hint grow", id: "told", role: "status" });
    this.tiles = Object.fromEntries(["Held", "Waiting", "Events / s", "Deadlocks"].map((name) => [name, el("b", {}, "0")]));
    this.rows = new Rows({ label: "Leases", make: makeRow, show: (row, lease) => this.#show(row, lease), open: (lease) => openLease(app, lease), empty: "Nothing is held." });
    this.heads = COLUMNS.map(([name, text]) => el("div", { class: `cell ${name}`, role: "columnheader", "aria-sort": "none" },
      name === "queue" ? text : el("button", { type: "button", class: "sort", onclick: () => this.#sort(name) }, text)));
    this.rows.head(this.heads);
    this.element = el("section", { class: "view now", "aria-labelledby": "now-title" },
      el("h1", { id: "now-title", class: "unseen" }, "Held now"),
      el("dl", { class: "tiles" }, ...Object.entries(this.tiles).map(([name, value]) => el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, value)))),
      el("div", { class: "tools" }, el("label", { for: "search" }, "Search"), this.search, el("label", { for: "space" }, "Space"), this.space, this.told),
      this.rows.element);
    this.#sort("resource");
  }

  show() { this.update(true); }
  hide() {}
  key(event) { this.rows.take(event); }

  #sort(name) {
    this.order = name;
    COLUMNS.forEach(([each], place) => this.heads[place].setAttribute("aria-sort", each === name ? "ascending" : "none"));
    this.update(true);
  }

  graph() {
    const graph = this.app.live?.graph;
    this.queues = queuesOf(graph);
    this.waiting = waitingIn(graph);
    this.more = graph && !graph.complete ? "+" : ""; // of a very long queue the server sends only a part
    this.deadlocks = (graph?.deadlocks ?? []).filter((event) => Date.parse(event.at) > now() - 3_600_000).length;
    this.rows.refresh();
  }

  // Sorting thousands of leases takes time: do it no more often than people can read.
  update(at_once = false) {
    const time = performance.now();
    if (!at_once && (this.app.state.version === this.drawn || time < (this.again ?? 0))) return;
    this.again = time + REORDER;
    this.drawn = this.app.state.version;
    const wanted = this.search.value.trim().toLowerCase();
    const space = this.space.value;
    const all = [...this.app.state.leases.values()];
    const found = all.filter((lease) => (!wanted || lease.text.includes(wanted)) && (!space || lease.space === space));
    this.#offerSpaces(all);
    this.rows.set(found.sort(ORDERS[this.order]), all.length ? "No lease matches." : "Nothing is held.");
    say(this.told, found.length === all.length ? "" : `${found.length} of ${all.length}`);
    say(this.tiles.Held, all.length.toLocaleString());
  }

  #offerSpaces(all) {
    const chosen = this.space.value; // stays, also once nothing is held there
    const spaces = [...new Set(all.map((lease) => lease.space).concat(chosen || []))].sort();
    this.isOneSpace = spaces.length < 2 || chosen !== "";
    const key = spaces.join("\n");
    if (key === this.offered) return;
    this.offered = key;
    this.space.replaceChildren(el("option", { value: "" }, "All spaces"), ...spaces.map((each) => el("option", { value: each, selected: each === chosen }, each)));
  }

  tick() {
    this.update();
    this.rows.refresh();
    say(this.tiles.Waiting, (this.waiting ?? 0).toLocaleString() + (this.more ?? ""));
    say(this.tiles["Events / s"], this.app.state.perSecond().toLocaleString(undefined, { maximumFractionDigits: 1 }));
    say(this.tiles.Deadlocks, (this.deadlocks ?? 0).toLocaleString());
  }

  #show(row, lease) {
    const [resource, holder, work, mode, fence, time, queue] = row.cells;
    const more = lease.resources.length > 1 ? `  +${lease.resources.length - 1}` : "";
    say(resource, `${lease.resources[0]}${more}${this.isOneSpace || lease.space === "default" ? "" : ` · ${lease.space}`}`);
    say(holder, lease.holder);
    say(work, lease.name ?? "");
    say(mode, lease.mode === "slots" ? `slots ${lease.slots}` : lease.mode);
    say(fence, String(lease.fence));
    const remaining = lease.expires - now();
    say(row.time, remaining > 0 ? left(remaining) : "over");
    const part = Math.max(0, Math.min(1, remaining / lease.ttl));
    row.bar.style.transform = `scaleX(${part.toFixed(3)})`;
    const level = part > 0.4 ? "high" : part > 0.15 ? "middle" : "low";
    if (time.dataset.level !== level) time.dataset.level = level;
    const waiting = new Set([lease.id, ...lease.resources.map((name) => `${lease.space} ${name}`)].flatMap((key) => this.queues.get(key) ?? [])).size;
    say(queue, waiting ? `${waiting}${this.more ?? ""} waiting` : "");
    row.dataset.lease = lease.id;
    row.title = lease.resources.length > 1 ? lease.resources.slice(0, 20).join("\n") : "";
  }
}

// The queue of each name and of each lease: a wanted name may merely overlap with a held one.
function queuesOf(graph) {
  const queues = new Map();
  for (const wait of (graph?.waits ?? []).filter((each) => !each.polls)) {
    for (const key of [...wait.leases, ...wait.resources.map((name) => `${wait.space} ${name}`)]) {
      if (!queues.has(key)) queues.set(key, []);
      queues.get(key).push(wait.id);
    }
  }
  return queues;
}

function makeRow() {
  const bar = el("i");
  const time = el("span");
  const cells = COLUMNS.map(([name]) => el("div", { class: `cell ${name}`, role: "gridcell" }));
  cells[5].append(el("div", { class: "meter", "aria-hidden": "true" }, bar), time);
  const row = el("div", { class: "lease" }, ...cells);
  return Object.assign(row, { cells, bar, time });
}

// Now: every lease, with its holder, its work, how long it is held, the time left, and its queue.

import { keep } from "./address.js";
import { el, say } from "./dom.js";
import { nothingHeld } from "./empty.js";
import { openLease, openLeaseById } from "./panel.js";
import { Rows } from "./rows.js";
import { Sorting, compare } from "./sorting.js";
import { left, now, span } from "./times.js";
import { waitingIn } from "./waiting.js";

const REORDER = 250;
const COLUMNS = [
  ["resource", "Resource"], ["holder", "Holder"], ["name", "Work"], ["mode", "Mode"], ["fence", "Fence"], ["held", "Held for"], ["left", "Left"],
  ["queue", "Queue"], ["longest", "Longest wait"],
];

export class Now {
  constructor(app) {
    this.app = app;
    this.queues = new Map();
    this.drawn = -1;
    this.search = el("input", { type: "search", id: "search", placeholder: "Resource, holder or work", autocomplete: "off", spellcheck: "false", oninput: () => this.#filtered(), onkeydown: (event) => this.rows.take(event, { up: false }) });
    this.space = el("select", { id: "space", onchange: () => this.#filtered() }, el("option", { value: "" }, "All spaces"));
    this.told = el("p", { class: "hint grow", id: "told", role: "status" });
    this.tiles = Object.fromEntries(["Held", "Waiting", "Events / s", "Deadlocks"].map((name) => [name, el("b", {}, "0")]));
    this.rows = new Rows({ label: "Leases", make: makeRow, show: (row, lease) => this.#show(row, lease), open: (lease) => openLease(app, lease), empty: nothingHeld() });
    this.sorting = new Sorting(COLUMNS, this.#orders(), "resource", () => this.update(true));
    this.rows.head(this.sorting.heads);
    this.element = el("section", { class: "view now", "aria-labelledby": "now-title" },
      el("h1", { id: "now-title", class: "unseen" }, "Held now"),
      el("dl", { class: "tiles" }, ...Object.entries(this.tiles).map(([name, value]) => el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, value)))),
      el("div", { class: "tools" }, el("label", { for: "search" }, "Search"), this.search, el("label", { for: "space" }, "Space"), this.space, this.told),
      this.rows.element);
  }

  #orders() {
    return {
      resource: (a, b) => compare(a.resources[0], b.resources[0]) || a.fence - b.fence,
      holder: (a, b) => compare(a.holder, b.holder) || compare(a.resources[0], b.resources[0]),
      name: (a, b) => compare(a.name ?? "\uffff", b.name ?? "\uffff") || a.fence - b.fence,
      mode: (a, b) => compare(a.mode, b.mode) || a.fence - b.fence,
      fence: (a, b) => b.fence - a.fence,
      held: (a, b) => a.acquired - b.acquired || a.fence - b.fence, // the longest first
      left: (a, b) => a.expires - b.expires || a.fence - b.fence,
      queue: (a, b) => this.#queueOf(b).length - this.#queueOf(a).length || a.fence - b.fence,
      longest: (a, b) => longest(this.#queueOf(a)) - longest(this.#queueOf(b)) || a.fence - b.fence,
    };
  }

  show({ given }) {
    this.search.value = given.q ?? "";
    this.wantedSpace = given.space ?? "";
    this.sorting.read(given);
    this.update(true);
    if (given.lease) openLeaseById(this.app, given.lease);
  }

  hide() {}
  key(event) { this.rows.take(event); }

  #filtered() {
    this.wantedSpace = this.space.value;
    keep({ q: this.search.value.trim(), space: this.wantedSpace });
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

  #queueOf(lease) {
    const keys = [lease.id, ...lease.resources.map((name) => `${lease.space} ${name}`)];
    return [...new Set(keys.flatMap((key) => this.queues.get(key) ?? []))];
  }

  // Sorting thousands of leases takes time: do it no more often than people can read.
  update(at_once = false) {
    const time = performance.now();
    if (!at_once && (this.app.state.version === this.drawn || time < (this.again ?? 0))) return;
    this.again = time + REORDER;
    this.drawn = this.app.state.version;
    const wanted = this.search.value.trim().toLowerCase();
    const all = [...this.app.state.leases.values()];
    this.#offerSpaces(all);
    const space = this.space.value;
    const found = all.filter((lease) => (!wanted || lease.text.includes(wanted)) && (!space || lease.space === space));
    this.rows.set(this.sorting.sorted(found), all.length ? "No lease matches." : nothingHeld);
    say(this.told, found.length === all.length ? "" : `${found.length} of ${all.length}`);
    say(this.tiles.Held, all.length.toLocaleString());
  }

  #offerSpaces(all) {
    const chosen = this.wantedSpace ?? ""; // stays, also once nothing is held there
    const spaces = [...new Set(all.map((lease) => lease.space).concat(chosen || []))].sort();
    this.isOneSpace = spaces.length < 2 || chosen !== "";
    const key = `${chosen}\n${spaces.join("\n")}`;
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
    const [resource, holder, work, mode, fence, held, time, queue, wait] = row.cells;
    const more = lease.resources.length > 1 ? `  +${lease.resources.length - 1}` : "";
    say(resource, `${lease.resources[0]}${more}${this.isOneSpace || lease.space === "default" ? "" : ` · ${lease.space}`}`);
    say(holder, lease.holder);
    say(work, lease.name ?? "");
    say(mode, lease.mode === "slots" ? `slots ${lease.slots}` : lease.mode);
    say(fence, String(lease.fence));
    say(held, span(now() - lease.acquired));
    const remaining = lease.expires - now();
    say(row.time, remaining > 0 ? left(remaining) : "over");
    const part = Math.max(0, Math.min(1, remaining / lease.ttl));
    row.bar.style.transform = `scaleX(${part.toFixed(3)})`;
    const level = part > 0.4 ? "high" : part > 0.15 ? "middle" : "low";
    if (time.dataset.level !== level) time.dataset.level = level;
    const waiting = this.#queueOf(lease);
    say(queue, waiting.length ? `${waiting.length}${this.more ?? ""} waiting` : "");
    say(wait, waiting.length ? span(now() - longest(waiting)) : "");
    row.dataset.lease = lease.id;
    row.title = lease.resources.length > 1 ? lease.resources.slice(0, 20).join("\n") : "";
  }
}

// Since when the first of these requests waits; for ever after, if none does.
const longest = (waits) => waits.reduce((first, wait) => Math.min(first, wait.since), Number.MAX_SAFE_INTEGER);

// The queue of each name and of each lease: a wanted name may merely overlap with a held one.
function queuesOf(graph) {
  const queues = new Map();
  for (const wait of (graph?.waits ?? []).filter((each) => !each.polls)) {
    const known = { id: wait.id, since: Date.parse(wait.since) };
    for (const key of [...wait.leases, ...wait.resources.map((name) => `${wait.space} ${name}`)]) {
      if (!queues.has(key)) queues.set(key, []);
      queues.get(key).push(known);
    }
  }
  return queues;
}

function makeRow() {
  const bar = el("i");
  const time = el("span");
  const cells = COLUMNS.map(([name]) => el("div", { class: `cell ${name}`, role: "gridcell", data: { label: name === "held" ? "held" : "" } }));
  cells[6].append(el("div", { class: "meter", "aria-hidden": "true" }, bar), time);
  const row = el("div", { class: "lease" }, ...cells);
  return Object.assign(row, { cells, bar, time });
}

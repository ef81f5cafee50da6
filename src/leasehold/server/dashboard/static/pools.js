// Pools: which members are held, free or closed, and who waits for one.

import { keep } from "./address.js";
import { get } from "./api.js";
import { el, say } from "./dom.js";
import { noPools } from "./empty.js";
import { holderLink, resourceLink, spaced } from "./naming.js";
import { table } from "./table.js";
import { left, now, running, span } from "./times.js";

const PREFIX = "pool://";
const HEADS = ["Member", "State", "Holder", "Work", { text: "Held for", number: true }, { text: "Time left", number: true }];
const WAITS = ["Waits", "For", { text: "Waiting for", number: true }];
const EVERY = 3000;

export class Pools {
  constructor(app) {
    this.app = app;
    this.declared = [];
    this.closed = [];
    this.choice = el("select", { id: "pool", onchange: () => this.#choose(this.choice.value) });
    this.note = el("p", { class: "hint grow", role: "status" });
    this.members = el("div");
    this.waits = el("div");
    this.element = el("section", { class: "view pools", "aria-labelledby": "pools-title" },
      el("h1", { id: "pools-title" }, "Pools"),
      el("div", { class: "tools" }, el("div", { class: "pair" }, el("label", { for: "pool" }, "Pool"), this.choice), this.note),
      this.members, el("h2", {}, "Requests that wait for a member"), this.waits);
  }

  show({ given }) {
    this.visible = true;
    this.chosen = given.pool ?? "";
    this.known = null;
    this.look();
  }

  hide() { this.visible = false; }
  update() { if (this.visible) this.#draw(); }
  graph() { this.update(); }

  tick() {
    if (!this.visible) return;
    if (performance.now() > (this.again ?? 0)) this.look();
    for (const node of this.element.querySelectorAll("[data-runs]")) say(node, node.running());
  }

  #choose(pool) {
    this.chosen = pool;
    keep({ pool });
    this.#draw();
  }

  async look() {
    this.again = Infinity;
    try {
      const [{ pools }, { closed }] = await Promise.all([get("/dashboard/pools"), get("/dashboard/closed")]);
      this.declared = pools;
      this.closed = closed.filter((each) => each.resource.startsWith(PREFIX));
      this.#draw();
    } catch (error) {
      say(this.note, error.message);
    } finally {
      this.again = performance.now() + EVERY;
    }
  }

  // Links are not replaced under the finger: only when something is held, closed or waited for that was not.
  #draw() {
    const held = [...this.app.state.leases.values()].filter((it) => it.resources[0].startsWith(PREFIX));
    const waits = (this.app.live?.graph?.waits ?? []).filter((it) => it.resources[0].startsWith(PREFIX));
    const rows = membersOf(held, this.closed, this.declared);
    const pools = [...new Set([...rows, ...waits.map((it) => ({ pool: poolOf(it.resources[0], it.space) }))].map((row) => row.pool))].sort();
    const isShown = (pool) => !this.chosen || pool === this.chosen;
    const shown = rows.filter((row) => isShown(row.pool));
    const waiting = waits.filter((it) => isShown(poolOf(it.resources[0], it.space)));
    const known = JSON.stringify([this.chosen, pools, shown.map((row) => [row.name, row.state, row.lease?.id]), waiting.map((it) => [it.holder, it.resources, it.since])]);
    if (known === this.known) return;
    this.known = known;
    this.choice.replaceChildren(el("option", { value: "" }, "all pools"), ...[...new Set([...pools, this.chosen].filter(Boolean))].map((pool) => el("option", { value: pool, selected: pool === this.chosen }, pool)));
    say(this.note, `${shown.filter((row) => row.state === "held").length} held, ${shown.filter((row) => row.state === "free").length} free, ${waiting.length} waiting`);
    this.members.replaceChildren(table("Members of pools", HEADS, shown.map(line), noPools()));
    this.waits.replaceChildren(table("Requests that wait", WAITS, waiting.map(waitLine), "No request waits for a member."));
  }
}

const poolOf = (name, space) => spaced(PREFIX + name.slice(PREFIX.length).split(/[/?]/, 1)[0], space);
const memberOf = (name) => name.slice(PREFIX.length).split("/").slice(1).join("/");

// One row for each member that is held, closed or declared.
function membersOf(held, closed, declared) {
  const rows = new Map();
  const add = (row) => rows.has(`${row.space} ${row.name}`) || rows.set(`${row.space} ${row.name}`, { ...row, pool: poolOf(row.name, row.space) });
  for (const lease of held) add({ name: lease.resources[0], space: lease.space, state: "held", lease });
  for (const each of closed) add({ name: each.resource, space: each.space, state: "quarantined" });
  for (const { pool, space, members } of declared) for (const member of members) add({ name: `${pool}/${member}`, space, state: "free" });
  return [...rows.values()].sort((a, b) => a.pool.localeCompare(b.pool) || memberOf(a.name).localeCompare(memberOf(b.name), undefined, { numeric: true }));
}

function line({ name, space, state, lease }) {
  const member = resourceLink(name, space);
  if (!lease) return [member, state, "", "", "", ""];
  return [member, state, holderLink(lease.holder, space), lease.name ?? "", running(() => span(now() - lease.acquired)), running(() => left(lease.expires - now()))];
}

const waitLine = (it) => [holderLink(it.holder, it.space), resourceLink(it.resources[0], it.space), running(() => span(now() - Date.parse(it.since)))];

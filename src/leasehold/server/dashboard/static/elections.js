// Elections: who leads in which term, who is next, and the terms before. A term is a lease whose work is called "leader".

import { keep } from "./address.js";
import { get } from "./api.js";
import { el, say } from "./dom.js";
import { noElections } from "./empty.js";
import { holderLink, resourceLink } from "./naming.js";
import { table } from "./table.js";
import { left, moment, now, running, span } from "./times.js";

const LEADER = "leader";
const HEADS = ["Election", "Leader", { text: "Term", number: true }, { text: "Leads for", number: true }, { text: "Time left", number: true }, "Next", ""];
const TERMS = [{ text: "Term" }, "Leader", "From", { text: "Led for", number: true }, "End"];
const TERMS_MOST = 50;
const NEXT_MOST = 5;

export class Elections {
  constructor(app) {
    this.app = app;
    this.note = el("p", { class: "hint", role: "status" });
    this.list = el("div");
    this.heading = el("h2", {}, "Terms");
    this.terms = el("div");
    this.element = el("section", { class: "view elections", "aria-labelledby": "elections-title" },
      el("h1", { id: "elections-title" }, "Elections"), this.note, this.list, this.heading, this.terms);
  }

  show({ given }) {
    this.visible = true;
    this.chosen = given.election ? { name: given.election, space: given.space || "default" } : null;
    this.known = null;
    this.looked = undefined;
    this.update();
  }

  hide() { this.visible = false; }
  graph() { this.update(); }

  tick() {
    if (!this.visible) return;
    this.update();
    for (const node of this.element.querySelectorAll("[data-runs]")) say(node, node.running());
  }

  update() {
    if (!this.visible) return;
    const held = [...this.app.state.leases.values()].filter((it) => it.name === LEADER && it.mode === "exclusive")
      .sort((a, b) => a.resources[0].localeCompare(b.resources[0]));
    const waits = this.app.live?.graph?.waits ?? [];
    const rows = held.map((lease) => ({ lease, next: waits.filter((it) => !it.polls && it.space === lease.space && it.resources[0] === lease.resources[0]).map((it) => it.holder) }));
    this.#look(this.chosen ?? (held.length ? { name: held[0].resources[0], space: held[0].space } : null));
    const known = JSON.stringify(rows.map(({ lease, next }) => [lease.id, next]));
    if (known === this.known) return;
    this.known = known;
    const candidates = rows.reduce((sum, { next }) => sum + next.length, 0);
    say(this.note, `${rows.length} ${rows.length === 1 ? "election" : "elections"}, ${candidates} ${candidates === 1 ? "candidate waits" : "candidates wait"}`);
    this.list.replaceChildren(table("Elections", HEADS, rows.map((row) => this.#line(row)), noElections()));
  }

  #line({ lease, next }) {
    const { space, resources: [name] } = lease;
    const more = next.length > NEXT_MOST ? `, and ${next.length - NEXT_MOST} more` : "";
    return [resourceLink(name, space), holderLink(lease.holder, space), String(lease.fence), running(() => span(now() - lease.acquired)), running(() => left(lease.expires - now())),
      [...next.slice(0, NEXT_MOST).flatMap((holder, place) => [place > 0 && ", ", holderLink(holder, space)]), more],
      el("button", { type: "button", "aria-label": `Terms of ${name}`, onclick: () => this.#choose(name, space) }, "Terms")];
  }

  #choose(name, space) {
    keep({ election: name, space: space === "default" ? "" : space });
    this.chosen = { name, space };
    this.looked = undefined;
    this.again = 0;
    this.update();
  }

  // The terms change with the leases: they are asked for again when a lease has come or gone.
  async #look(chosen) {
    const key = chosen && JSON.stringify([chosen, this.app.state.version]);
    if (key === this.looked || performance.now() < (this.again ?? 0)) return;
    this.looked = key;
    this.heading.hidden = this.terms.hidden = !chosen;
    if (!chosen) return;
    this.again = performance.now() + 1000;
    say(this.heading, `Terms of ${chosen.name}`);
    try {
      const { runs } = await get("/dashboard/runs", { resource: chosen.name, space: chosen.space, limit: TERMS_MOST });
      const drawn = JSON.stringify(runs.map((run) => [run.lease, run.outcome]));
      if (drawn === this.drawn) return;
      this.drawn = drawn;
      this.terms.replaceChildren(table("Terms", TERMS, runs.map(termLine), "No term is in the history."));
    } catch (error) {
      say(this.note, error.message);
    }
  }
}

function termLine(run) {
  const began = Date.parse(run.began);
  const led = run.ended ? span(Date.parse(run.ended) - began) : running(() => span(now() - began));
  return [String(run.fence), holderLink(run.holder, run.space), moment(began), led, run.ended ? [run.outcome, run.error ? `: ${run.error}` : ""] : "leads"];
}

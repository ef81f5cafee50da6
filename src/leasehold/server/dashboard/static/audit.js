// Audit: what admins did, and what was done to keys: who, by which key, to what, and why.

import { keep } from "./address.js";
import { get } from "./api.js";
import { el, say } from "./dom.js";
import { remarkOf } from "./events.js";
import { holderLink, keyLink, resourceLinks } from "./naming.js";
import { table } from "./table.js";
import { moment } from "./times.js";

const KINDS = {
  forced: "forced or stolen", cleared: "cleared", extended: "extended", quarantined: "quarantined", session_ended: "session ended by an admin",
  key_created: "key created", key_revoked: "key revoked", noted: "noted", trespass: "trespass",
};
const OF_THE_LEASE = new Set(["noted", "forced", "extended"]); // the same key acquired the lease, or it is a note: then it is told once
const HEADS = ["When", "What", "On", "Holder", "By", "Key", "Why"];
const LIMIT = 1000;

export class Audit {
  constructor(app) {
    this.app = app;
    this.events = [];
    this.kind = el("select", { id: "audit-kind", onchange: () => this.#filtered() }, el("option", { value: "" }, "Everything"), ...Object.entries(KINDS).map(([value, text]) => el("option", { value }, text)));
    this.text = el("input", { type: "search", id: "audit-text", placeholder: "Name, person, key or reason", autocomplete: "off", spellcheck: "false", oninput: () => this.#filtered() });
    this.note = el("p", { class: "hint grow", role: "status" });
    this.list = el("div");
    this.element = el("section", { class: "view audit", "aria-labelledby": "audit-title" },
      el("h1", { id: "audit-title" }, "Who did what, by which key, and why"),
      el("div", { class: "tools" }, el("span", { class: "pair" }, el("label", { for: "audit-kind" }, "What"), this.kind), el("span", { class: "pair" }, el("label", { for: "audit-text" }, "Containing"), this.text), this.note),
      this.list);
  }

  show({ given }) {
    this.visible = true;
    this.kind.value = given.kind in KINDS ? given.kind : "";
    this.text.value = given.text ?? "";
    this.look();
  }

  hide() { this.visible = false; }
  update() {}
  graph() {}

  tick() {
    if (this.visible && this.app.state.version !== this.drawn && performance.now() > (this.again ?? 0)) this.look();
  }

  #filtered() {
    keep({ kind: this.kind.value, text: this.text.value.trim() });
    this.#draw();
  }

  async look() {
    this.drawn = this.app.state.version;
    this.again = Infinity;
    try {
      const query = new URLSearchParams([...Object.keys(KINDS).map((kind) => ["kind", kind]), ["limit", String(LIMIT)]]);
      this.events = (await get(`/v1/history?${query}`)).events.filter((event) => event.kind !== "session_ended" || event.detail.by);
      this.#draw();
    } catch (error) {
      say(this.note, error.message);
    } finally {
      this.again = performance.now() + 3000;
    }
  }

  #draw() {
    const wanted = this.text.value.trim().toLowerCase();
    const shown = this.events.filter((event) => (!this.kind.value || event.kind === this.kind.value) && (!wanted || textOf(event).includes(wanted)));
    const key = JSON.stringify([shown.length, shown[0]?.seq, shown.at(-1)?.seq]);
    say(this.note, `${shown.length} of the latest ${this.events.length}`);
    if (key === this.known) return;
    this.known = key;
    this.list.replaceChildren(table("Audit", HEADS, shown.map(lineOf), "No admin has acted, and no key was created or revoked, as far as the history goes."));
  }
}

const textOf = (event) => [event.kind, ...event.resources, event.space, event.holder, JSON.stringify(event.detail)].join(" ").toLowerCase();
const whatOf = (event) => (event.kind === "forced" && event.detail.stolen ? "stolen" : KINDS[event.kind].replace(" or stolen", ""));

function lineOf(event) {
  const { detail } = event;
  const byKey = detail.by_key ?? (OF_THE_LEASE.has(event.kind) ? detail.key : null);
  const why = detail.why ?? detail.reason ?? (event.kind === "quarantined" ? "it ended uncleanly" : remarkOf(event));
  const on = event.resources.length ? resourceLinks(event.resources, event.space) : event.kind.startsWith("key_") ? keyLink(detail.id ?? detail.key, event.holder) ?? event.holder : event.session ?? "";
  return [el("time", { datetime: event.at, title: event.at }, moment(Date.parse(event.at))), el("b", { class: `kind ${event.kind}` }, whatOf(event)), on,
    event.resources.length ? holderLink(event.holder, event.space) : "", detail.by ?? "", keyLink(byKey) ?? "", why ?? ""];
}

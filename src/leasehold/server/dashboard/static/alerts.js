// The strip of alerts above every view: what an operator should look at, and since when.
// A hold counts as long after an hour and a wait after five minutes; `?long_hold=600&long_wait=60` in the address changes that.

import { link, read } from "./address.js";
import { get } from "./api.js";
import { byId, el, say } from "./dom.js";
import { named } from "./naming.js";
import { ago, now } from "./times.js";

const LONG_HOLD = 3600, LONG_WAIT = 300; // seconds
const RECENT = 3_600_000; // deadlocks and trespasses of this time, in milliseconds
const EVERY = 1000, FETCH = 5000, AT_REST = 30_000;
const SHOWN = 3;

const pageOf = (name, space) => link("resource", name, { space: space === "default" ? "" : space });

export class Alerts {
  constructor(app) {
    this.app = app;
    this.fetched = { closed: [], trespasses: [], store: null };
    this.place = byId("alerts");
    this.all = false;
  }

  tick() {
    const time = performance.now();
    if (time > (this.fetchAt ?? 0) && (this.app.state.version !== this.seen || time > (this.restUntil ?? 0))) this.#fetch();
    if (time < (this.again ?? 0)) return;
    this.again = time + EVERY;
    this.#draw(this.#found());
  }

  async #fetch() {
    this.seen = this.app.state.version;
    this.fetchAt = Infinity;
    try {
      const [closed, told] = await Promise.all([get("/dashboard/closed"), get("/v1/history", { kind: "trespass", since: Math.max(0, Math.round((now() - RECENT) * 1000)), limit: 20 })]);
      this.fetched = { closed: closed.closed, trespasses: told.events, store: null };
    } catch (error) {
      const since = this.fetched.store?.since ?? now();
      this.fetched.store = this.app.live?.link === "live" ? { since, text: error.message } : null; // otherwise the page is disconnected, which it says
    } finally {
      this.fetchAt = performance.now() + FETCH;
      this.restUntil = performance.now() + AT_REST;
    }
  }

  #found() {
    const { given } = read();
    const graph = this.app.live?.graph;
    return [
      ...storeTrouble(this.fetched.store), ...this.fetched.closed.map(quarantine), ...longHolds(this.app.state, Number(given.long_hold) || LONG_HOLD),
      ...longWaits(graph, Number(given.long_wait) || LONG_WAIT), ...deadlocks(graph), ...this.fetched.trespasses.map(trespass),
    ];
  }

  #draw(found) {
    const key = JSON.stringify([found.map(({ text, since }) => [text, since]), this.all]);
    this.place.hidden = !found.length;
    if (key !== this.drawn) {
      this.drawn = key;
      const more = found.length - SHOWN;
      this.place.replaceChildren(
        el("ul", {}, ...(this.all ? found : found.slice(0, SHOWN)).map(line)),
        more > 0 ? el("button", { type: "button", class: "quiet", "aria-expanded": String(this.all), onclick: () => { this.all = !this.all; this.#draw(found); } }, this.all ? "Fewer" : `${more} more`) : "");
    }
    for (const node of this.place.querySelectorAll("time")) say(node, ago(Date.parse(node.dateTime)));
  }
}

const line = ({ kind, text, since, href }) => el("li", { class: `alert ${kind}` }, el("b", {}, kind), " ", href ? el("a", { href }, text) : el("span", {}, text), " ",
  el("time", { datetime: new Date(since).toISOString() }));

const storeTrouble = (store) => (store ? [{ kind: "store", text: store.text, since: store.since }] : []);

const quarantine = (it) => ({ kind: "quarantine", text: `${named([it.resource], it.space)} is closed after ${it.holder}`, since: Date.parse(it.since), href: pageOf(it.resource, it.space) });

function longHolds(state, limit) {
  const found = [...state.leases.values()].filter((lease) => now() - lease.acquired > limit * 1000).sort((a, b) => a.acquired - b.acquired);
  return found.map((lease) => ({ kind: "long hold", text: `${lease.holder} holds ${named(lease.resources, lease.space)}`, since: lease.acquired, href: pageOf(lease.resources[0], lease.space) }));
}

function longWaits(graph, limit) {
  const found = (graph?.waits ?? []).filter((wait) => !wait.polls && now() - Date.parse(wait.since) > limit * 1000);
  return found.map((wait) => ({ kind: "long wait", text: `${wait.holder} waits for ${named(wait.resources, wait.space)}`, since: Date.parse(wait.since), href: pageOf(wait.resources[0], wait.space) }));
}

function deadlocks(graph) {
  const found = (graph?.deadlocks ?? []).filter((event) => now() - Date.parse(event.at) < RECENT);
  if (!found.length) return [];
  const since = Math.min(...found.map((event) => Date.parse(event.at)));
  return [{ kind: "deadlock", text: `${found.length} refused, the latest of ${found[0].holder} for ${named(found[0].resources, found[0].space)}`, since, href: link("waiting") }];
}

const trespass = (event) => ({ kind: "trespass", text: `${event.detail.by} changed what ${event.holder} holds: ${named(event.resources, event.space)}`, since: Date.parse(event.at), href: pageOf(event.resources[0], event.space) });

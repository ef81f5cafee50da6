// Contention: the resources with the longest waits, and how busy they are.

import { get } from "./api.js";
import { el, say } from "./dom.js";
import { moment, span } from "./times.js";

const WINDOWS = ["hour", "day", "week"];
const HEADS = ["Resource", "Median wait", "Worst wait", "Waited", "Grants", "Refused", "Held for"];

export class Contention {
  constructor(app) {
    this.app = app;
    this.window = "hour";
    this.buttons = WINDOWS.map((each) => el("button", { type: "button", "aria-pressed": String(each === this.window), onclick: () => this.#choose(each) }, `Last ${each}`));
    this.note = el("p", { class: "hint grow", role: "status" });
    this.body = el("tbody");
    this.element = el("section", { class: "view contention", "aria-labelledby": "contention-title" },
      el("h1", { id: "contention-title" }, "Most waited for"),
      el("div", { class: "tools" }, el("div", { class: "segments", role: "group", "aria-label": "How far back" }, ...this.buttons), this.note),
      el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Contention; scroll to see all of it" },
        el("table", {}, el("thead", {}, el("tr", {}, ...HEADS.map((each) => el("th", { scope: "col" }, each)))), this.body)));
  }

  show() { this.visible = true; this.look(); }
  hide() { this.visible = false; }
  update() {}
  graph() {}

  tick() {
    if (this.visible && this.app.state.version !== this.drawn && performance.now() > (this.again ?? 0)) this.look();
  }

  #choose(window) {
    this.window = window;
    this.buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(WINDOWS[place] === window)));
    this.look();
  }

  async look() {
    this.drawn = this.app.state.version;
    this.again = Infinity;
    const asked = this.window;
    try {
      const told = await get("/dashboard/contention", { window: asked }, 60_000);
      if (asked !== this.window) return;
      this.body.replaceChildren(...(told.resources.length ? told.resources.map(line) : [el("tr", {}, el("td", { colspan: String(HEADS.length), class: "empty" }, "Nothing was held or waited for in this time."))]));
      say(this.note, told.complete ? `Since ${moment(Date.parse(told.since))}` : `Much happened: only since ${moment(Date.parse(told.since))}`);
    } catch (error) {
      say(this.note, error.message);
    } finally {
      this.again = performance.now() + 3000;
    }
  }
}

const wait = (seconds) => (seconds ? span(seconds * 1000) : "–");

function line(it) {
  const bar = el("i");
  bar.style.transform = `scaleX(${Math.min(1, it.utilisation)})`;
  const part = (it.utilisation * 100).toLocaleString(undefined, { maximumFractionDigits: it.utilisation < 0.1 ? 1 : 0 });
  return el("tr", {}, el("th", { scope: "row" }, it.resource, it.space === "default" ? null : el("small", {}, ` ${it.space}`)),
    el("td", {}, wait(it.median_wait_seconds)), el("td", {}, wait(it.worst_wait_seconds)), el("td", {}, String(it.waits)), el("td", {}, String(it.grants)), el("td", {}, String(it.refused)),
    el("td", { class: "busy" }, el("div", { class: "meter", "aria-hidden": "true" }, bar), `${part} %`));
}

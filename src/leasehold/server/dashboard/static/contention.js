// Contention: the resources with the longest waits, and how busy they are.

import { keep } from "./address.js";
import { get } from "./api.js";
import { el, say } from "./dom.js";
import { resourceLink } from "./naming.js";
import { table } from "./table.js";
import { moment, span } from "./times.js";

const WINDOWS = ["hour", "day", "week"];
const HEADS = ["Resource", ...["Median wait", "Worst wait", "Waited", "Grants", "Refused", "Held"].map((text) => ({ text, number: true }))];

export class Contention {
  constructor(app) {
    this.app = app;
    this.buttons = WINDOWS.map((each) => el("button", { type: "button", onclick: () => this.#choose(each) }, `Last ${each}`));
    this.note = el("p", { class: "hint grow", role: "status" });
    this.body = el("div");
    this.element = el("section", { class: "view contention", "aria-labelledby": "contention-title" },
      el("h1", { id: "contention-title" }, "Most waited for"),
      el("div", { class: "tools" }, el("div", { class: "segments", role: "group", "aria-label": "How far back" }, ...this.buttons), this.note),
      this.body);
  }

  show({ given }) {
    this.visible = true;
    this.#set(WINDOWS.includes(given.window) ? given.window : "hour");
  }

  hide() { this.visible = false; }
  update() {}
  graph() {}

  tick() {
    if (this.visible && this.app.state.version !== this.drawn && performance.now() > (this.again ?? 0)) this.look();
  }

  #choose(window) {
    keep({ window });
    this.#set(window);
  }

  #set(window) {
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
      this.body.replaceChildren(table("Contention", HEADS, told.resources.map(line), "No lease was held and no request waited in this time. Choose a longer one."));
      say(this.note, told.complete ? `Since ${moment(Date.parse(told.since))}` : `Many events: only since ${moment(Date.parse(told.since))}`);
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
  return [resourceLink(it.resource, it.space), wait(it.median_wait_seconds), wait(it.worst_wait_seconds), String(it.waits), String(it.grants), String(it.refused),
    [el("div", { class: "meter", "aria-hidden": "true" }, bar), `${part} %`]];
}

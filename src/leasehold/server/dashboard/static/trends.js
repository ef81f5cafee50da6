// Trends: how many leases were held and requests waited, grants a second, and waits, over a time.

import { keep } from "./address.js";
import { get } from "./api.js";
import { el, say, svg } from "./dom.js";
import { clock, moment, span } from "./times.js";

const WINDOWS = { "15 minutes": 900, "1 hour": 3600, "6 hours": 21_600, "1 day": 86_400, "7 days": 604_800 };
const round = (value) => value.toLocaleString(undefined, { maximumFractionDigits: 2 });
const CHARTS = [
  ["held", "Held", (value) => value.toLocaleString()], ["waiting", "Waiting", (value) => value.toLocaleString()],
  ["grants", "Grants a second", round], ["wait", "Wait, 95th percentile", (value) => (value ? span(value * 1000) : "0s")],
];
const WIDTH = 600, HEIGHT = 138, FLOOR = 112, TOP = 10;

export class Trends {
  constructor(app) {
    this.app = app;
    this.buttons = Object.keys(WINDOWS).map((each) => el("button", { type: "button", onclick: () => this.#choose(each) }, each));
    this.note = el("p", { class: "hint grow", role: "status" });
    this.charts = el("div", { class: "charts" });
    this.element = el("section", { class: "view trends", "aria-labelledby": "trends-title" },
      el("h1", { id: "trends-title" }, "Trends"),
      el("div", { class: "tools" }, el("div", { class: "segments", role: "group", "aria-label": "How far back" }, ...this.buttons), this.note),
      this.charts);
  }

  show({ given }) {
    this.visible = true;
    this.span = given.span in WINDOWS ? given.span : "1 hour";
    this.#press();
    this.look();
  }

  hide() { this.visible = false; }
  update() {}
  graph() {}

  tick() {
    if (this.visible && this.app.state.version !== this.drawn && performance.now() > (this.again ?? 0)) this.look();
  }

  #choose(name) {
    this.span = name;
    keep({ span: name });
    this.#press();
    this.look();
  }

  #press() {
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.textContent === this.span));
  }

  async look() {
    this.drawn = this.app.state.version;
    this.again = Infinity;
    const asked = this.span;
    try {
      const told = await get("/dashboard/trends", { window: WINDOWS[asked] }, 60_000);
      if (asked !== this.span) return;
      this.charts.replaceChildren(...CHARTS.map((chart) => draw(chart, told)));
      say(this.note, told.complete ? `Since ${moment(Date.parse(told.since))}` : `Many events: only since ${moment(Date.parse(told.since))}`);
    } catch (error) {
      say(this.note, error.message);
    } finally {
      this.again = performance.now() + 3000;
    }
  }
}

function draw([name, title, shown], told) {
  const begin = Date.parse(told.since), end = Date.parse(told.until);
  const values = told.points.map((point) => point[name]);
  const most = Math.max(...values, 0);
  const x = (place) => (place / Math.max(1, values.length - 1)) * WIDTH;
  const y = (value) => FLOOR - (value / (most || 1)) * (FLOOR - TOP);
  const line = values.map((value, place) => `${place ? "L" : "M"}${x(place).toFixed(1)},${y(value).toFixed(1)}`).join("");
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${shown(values.at(-1) ?? 0)} now, at most ${shown(most)} since ${moment(begin)}` },
    svg("line", { class: "tick", x1: 0, x2: WIDTH, y1: FLOOR, y2: FLOOR }), svg("line", { class: "tick", x1: 0, x2: WIDTH, y1: TOP, y2: TOP }),
    values.length > 0 && svg("path", { class: "area", d: `${line}L${WIDTH},${FLOOR}L0,${FLOOR}Z` }), values.length > 0 && svg("path", { class: "line", d: line }),
    svg("text", { class: "tick", x: 0, y: HEIGHT - 3 }, end - begin > 86_400_000 ? moment(begin) : clock(begin)), svg("text", { class: "tick", x: WIDTH, y: HEIGHT - 3, "text-anchor": "end" }, clock(end)));
  return el("figure", { class: "card chart", data: { chart: name } }, el("figcaption", {}, el("b", {}, title), el("span", { class: "grow" }), el("b", { class: "latest" }, shown(values.at(-1) ?? 0)), el("small", {}, `at most ${shown(most)}`)), picture);
}

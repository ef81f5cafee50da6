// Plans: what agents are about to touch, and where two of them meet (the conflict matrix).

import { get } from "./api.js";
import { el, say } from "./dom.js";
import { noPlans } from "./empty.js";
import { holderLink, resourceLinks } from "./naming.js";
import { table } from "./table.js";
import { ago } from "./times.js";

const HEADS = ["Plan", "Holder", "Since", "Work", { text: "Overlaps", number: true }];
const CELLS = ["Planned", "By", "Overlaps", "With", "Since", "Work"];

export class Plans {
  constructor(app) {
    this.app = app;
    this.note = el("p", { class: "hint", role: "status" });
    this.list = el("div");
    this.matrix = el("div");
    this.element = el("section", { class: "view plans", "aria-labelledby": "plans-title" },
      el("h1", { id: "plans-title" }, "What agents are about to touch"), this.note, this.list,
      el("h2", {}, "Where plans meet"), this.matrix);
  }

  show() {
    this.visible = true;
    this.look();
  }

  hide() { this.visible = false; }
  update() {}
  graph() {}

  tick() {
    if (this.visible && performance.now() > (this.again ?? 0)) this.look();
  }

  async look() {
    this.again = Infinity;
    try {
      const { plans } = await get("/v1/plans");
      const cells = cellsOf(plans);
      say(this.note, `${plans.length} ${plans.length === 1 ? "plan" : "plans"}, ${cells.length} ${cells.length === 1 ? "overlap" : "overlaps"}`);
      this.list.replaceChildren(table("Plans", HEADS, plans.map(lineOf), noPlans()));
      this.matrix.replaceChildren(table("Conflict matrix", CELLS, cells.map(([plan, cell]) => cellLine(plan, cell)), "Nothing overlaps."));
    } catch (error) {
      say(this.note, error.message);
    } finally {
      this.again = performance.now() + 3000;
    }
  }
}

// Two plans that meet tell it both: it is shown once.
function cellsOf(plans) {
  const known = new Set();
  return plans.flatMap((plan) => plan.overlaps.map((cell) => [plan, cell])).filter(([plan, cell]) => {
    const pair = [`${plan.id} ${cell.resource}`, `${cell.id} ${cell.other}`].sort().join("\n");
    return !known.has(pair) && known.add(pair);
  });
}

const since = (at) => el("time", { datetime: at, title: at }, ago(Date.parse(at)));
const lineOf = (plan) => [resourceLinks(plan.resources, plan.space), holderLink(plan.holder, plan.space), since(plan.since), plan.name ?? "", String(plan.overlaps.length)];
const cellLine = (plan, cell) => [resourceLinks([cell.resource], plan.space), holderLink(plan.holder, plan.space), resourceLinks([cell.other], plan.space),
  el("span", {}, `${cell.state} by `, holderLink(cell.holder, plan.space)), since(cell.since), cell.name ?? ""];

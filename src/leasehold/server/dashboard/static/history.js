// History: the timeline, its table, and both as a file.

import { keep } from "./address.js";
import { get } from "./api.js";
import { el, say } from "./dom.js";
import { noRuns } from "./empty.js";
import { exportCsv, exportJson } from "./exporting.js";
import { named } from "./naming.js";
import { openLeaseById, openRun } from "./panel.js";
import { Rows } from "./rows.js";
import { moment, now, span } from "./times.js";
import { OUTCOMES, Timeline } from "./timeline.js";

const SPANS = { "15 minutes": 900, "1 hour": 3600, "1 day": 86_400, "1 week": 604_800, Everything: null };
const COLUMNS = [["began", "Began"], ["resource", "Resource"], ["holder", "Holder"], ["name", "Work"], ["took", "Took"], ["waited", "Waited"], ["status", "Status"], ["error", "Error"]];
const MATCHES = { exact: "is", prefix: "begins with", contains: "contains" };
const LIMIT = 2000;
const EVERY = 2000;

export class History {
  constructor(app) {
    this.app = app;
    this.runs = [];
    const choice = (id, label, input) => el("span", { class: "pair" }, el("label", { for: id }, label), input);
    const changed = () => this.#chosen();
    this.span = el("select", { id: "span", onchange: changed }, ...Object.keys(SPANS).map((each) => el("option", { value: each, selected: each === "1 hour" }, each)));
    this.resource = el("input", { type: "search", id: "of-resource", placeholder: "Any", autocomplete: "off", spellcheck: "false", onchange: changed });
    this.holder = el("input", { type: "search", id: "of-holder", placeholder: "Any", autocomplete: "off", spellcheck: "false", onchange: changed });
    this.match = el("select", { id: "match", onchange: changed }, ...Object.entries(MATCHES).map(([value, text]) => el("option", { value }, text)));
    this.outcome = el("select", { id: "outcome", onchange: () => { this.#keep(); this.#draw(); } }, el("option", { value: "" }, "Any"), ...OUTCOMES.map((each) => el("option", { value: each }, each)));
    this.note = el("p", { class: "hint grow", role: "status" });
    this.older = el("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.#page() }, "Older ones");
    this.timeline = new Timeline((run) => openRun(app, run));
    this.rows = new Rows({ label: "Runs", key: (run) => run.lease, make: makeRow, show: showRun, open: (run) => openRun(app, run), empty: noRuns() });
    this.rows.head(COLUMNS.map(([name, text]) => el("div", { class: `cell ${name}`, role: "columnheader" }, text)));
    this.element = el("section", { class: "view history", "aria-labelledby": "history-title" },
      el("h1", { id: "history-title" }, "What happened"),
      el("div", { class: "tools" }, choice("span", "The last", this.span), choice("match", "Name", this.match), choice("of-resource", "Resource", this.resource), choice("of-holder", "Holder", this.holder), choice("outcome", "Status", this.outcome),
        el("span", { class: "grow" }),
        el("span", { class: "pair" }, el("button", { type: "button", onclick: () => exportJson(this.shown) }, "Export JSON"), el("button", { type: "button", onclick: () => exportCsv(this.shown) }, "Export CSV"))),
      this.timeline.element, this.note, this.rows.element, this.older);
  }

  show({ given }) {
    this.visible = true;
    this.span.value = given.span in SPANS ? given.span : "1 hour";
    this.match.value = given.match in MATCHES ? given.match : "exact";
    this.resource.value = given.resource ?? "";
    this.holder.value = given.holder ?? "";
    this.outcome.value = OUTCOMES.includes(given.outcome) ? given.outcome : "";
    this.look();
    if (given.lease) openLeaseById(this.app, given.lease);
  }

  #chosen() {
    this.#keep();
    this.look();
  }

  #keep() {
    keep({ span: this.span.value === "1 hour" ? "" : this.span.value, match: this.match.value === "exact" ? "" : this.match.value,
      resource: this.resource.value.trim(), holder: this.holder.value.trim(), outcome: this.outcome.value });
  }

  hide() { this.visible = false; }
  graph() {}

  // It is fetched seldom while much happens, and not at all while nothing does.
  update() {
    if (!this.visible || this.app.state.version === this.drawn || performance.now() < (this.again ?? 0) || this.paged) return;
    this.look();
  }

  tick() { this.update(); }

  #query() {
    const seconds = SPANS[this.span.value];
    this.since = seconds === null ? null : now() - seconds * 1000;
    return { resource: this.resource.value.trim(), holder: this.holder.value.trim(), match: this.match.value, since: this.since === null ? null : Math.max(0, Math.round(this.since * 1000)), limit: LIMIT };
  }

  async look() {
    const number = (this.number = (this.number ?? 0) + 1);
    this.drawn = this.app.state.version;
    this.again = Infinity;
    const begun = performance.now();
    try {
      const told = await get("/dashboard/runs", this.#query());
      if (number !== this.number) return;
      this.runs = told.runs;
      this.before = told.more_before;
      this.paged = false;
      this.#draw();
    } catch (error) {
      say(this.note, error.message);
    } finally {
      this.again = performance.now() + Math.max(EVERY, (performance.now() - begun) * 8);
    }
  }

  async #page() {
    let told;
    try {
      told = await get("/dashboard/runs", { ...this.#query(), before: this.before });
    } catch (error) {
      return say(this.note, error.message);
    }
    const known = new Map(told.runs.map((run) => [run.lease, run]));
    // A run whose end is on one page and whose grant is on the next is one run: the newer page has its outcome.
    for (const run of this.runs) known.set(run.lease, { ...known.get(run.lease), ...run, waited_seconds: known.get(run.lease)?.waited_seconds || run.waited_seconds });
    this.runs = [...known.values()].sort((a, b) => (a.began < b.began ? 1 : -1));
    this.before = told.more_before;
    this.paged = now(); // live again after another choice
    this.#draw();
  }

  #draw() {
    const outcome = this.outcome.value;
    this.shown = outcome ? this.runs.filter((run) => run.outcome === outcome) : this.runs;
    this.timeline.set(this.shown, this.since);
    this.rows.set(this.shown, noRuns);
    this.older.hidden = !this.before;
    const count = `${this.shown.length.toLocaleString()} run${this.shown.length === 1 ? "" : "s"}`;
    const more = this.before ? ", the latest of more; the picture shows those" : "";
    say(this.note, count + more + (this.paged ? `; as of ${moment(this.paged)}: newer runs are not added to older ones` : ""));
  }
}

function makeRow() {
  const cells = COLUMNS.map(([name]) => el("div", { class: `cell ${name}`, role: "gridcell" }));
  const status = el("span");
  cells[6].append(status);
  return Object.assign(el("div", { class: "run" }, ...cells), { cells, status });
}

function showRun(row, run) {
  const [began, resource, holder, name, took, waited, , error] = row.cells;
  const start = Date.parse(run.began);
  say(began, moment(start));
  say(resource, named(run.resources, run.space));
  say(holder, run.holder);
  say(name, run.name ?? "");
  say(took, span((run.ended ? Date.parse(run.ended) : now()) - start));
  say(waited, run.waited_seconds ? span(run.waited_seconds * 1000) : "");
  say(row.status, run.outcome);
  row.status.className = `status ${run.outcome}`;
  say(error, run.error ?? "");
}

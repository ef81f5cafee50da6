// The timeline: one lane for each resource, a bar for each lease, coloured by how it ended.

import { cut, el, svg } from "./dom.js";
import { clock, moment, now, span } from "./times.js";

const LANE = 26, TOP = 24, LANES = 30, BARS_MOST = 3000, TRACKS = 4;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 604800].map((s) => s * 1000);
export const OUTCOMES = ["held", "completed", "failed", "cancelled", "expired", "forced"];

// Leases that share a resource lie below each other: in which track each one is, from 1 on.
function tracksOf(runs, end) {
  const tracks = new Map(), until = [];
  for (const run of [...runs].sort((a, b) => (a.began < b.began ? -1 : 1))) {
    let track = until.findIndex((each) => each <= Date.parse(run.began));
    if (track < 0) track = until.length < TRACKS ? until.length : TRACKS - 1;
    until[track] = run.ended ? Date.parse(run.ended) : end;
    tracks.set(run, track + 1);
  }
  return tracks;
}

const PADDING = 16; // of the frame, both sides together: a wider picture would be cut off at the right

export class Timeline {
  constructor(open) {
    this.open = open;
    this.most = LANES;
    this.picture = el("div", { class: "timeline", tabindex: "0", role: "group", "aria-label": "Timeline; the table below has the same content" });
    this.more = el("button", { type: "button", class: "quiet", hidden: true, onclick: () => { this.most *= 2; this.draw(); } }, "More lanes");
    this.element = el("div", {}, el("p", { class: "legend" }, ...OUTCOMES.map((each) => el("span", { class: `key outcome ${each}` }, each))), this.picture, this.more);
    new ResizeObserver(() => this.draw()).observe(this.picture);
    this.runs = [];
  }

  set(runs, since) {
    this.runs = runs;
    this.since = since;
    this.draw();
  }

  draw() {
    const width = this.picture.clientWidth - PADDING;
    if (width <= 0) return;
    const lanes = this.#lanes();
    const names = [...lanes.keys()].slice(0, this.most);
    this.more.hidden = lanes.size <= names.length;
    this.more.textContent = `More lanes (${lanes.size - names.length})`;
    const labels = width < 600 ? 110 : 240;
    const end = now();
    const first = this.runs.reduce((least, run) => Math.min(least, Date.parse(run.began)), end);
    const begin = Math.min(Math.max(first, this.since ?? 0), end - 10_000);
    const x = (ms) => labels + ((Math.max(begin, ms) - begin) / (end - begin)) * (width - labels - 12);
    const height = TOP + Math.max(1, names.length) * LANE + 4;
    const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${this.runs.length} leases on ${lanes.size} resources, from ${moment(begin)} to ${moment(end)}` });
    this.#ticks(picture, begin, end, x, height, width - labels);
    names.forEach((name, place) => this.#lane(picture, name, lanes.get(name), TOP + place * LANE, x, width, labels, end));
    this.picture.replaceChildren(names.length ? picture : el("p", { class: "empty" }, "Nothing happened in this time."));
  }

  // The same name in two spaces is two resources.
  #lanes() {
    const lanes = new Map();
    const isOneSpace = new Set(this.runs.map((run) => run.space)).size < 2;
    for (const run of this.runs.slice(0, BARS_MOST)) {
      for (const resource of run.resources) {
        const name = isOneSpace || run.space === "default" ? resource : `${resource} · ${run.space}`;
        if (!lanes.has(name)) lanes.set(name, []);
        lanes.get(name).push(run);
      }
    }
    return lanes;
  }

  #ticks(picture, begin, end, x, height, room) {
    const step = STEPS.find((each) => (end - begin) / each <= room / 110) ?? STEPS.at(-1);
    const rightmost = x(end) - 30; // a time is some 60 wide: the last one must not be cut off
    for (let at = Math.ceil(begin / step) * step; at <= end; at += step) {
      const text = step >= 86_400_000 ? moment(at).split(" ").slice(0, 2).join(" ") : clock(at).slice(0, step < 60_000 ? 8 : 5);
      picture.append(svg("line", { class: "tick", x1: x(at), x2: x(at), y1: TOP - 6, y2: height }), svg("text", { class: "tick", x: x(at) > rightmost ? x(end) + 10 : x(at), y: 12, "text-anchor": x(at) > rightmost ? "end" : "middle" }, text));
    }
  }

  #lane(picture, name, runs, y, x, width, labels, end) {
    picture.append(svg("text", { class: "lane", x: labels - 10, y: y + LANE / 2, "dominant-baseline": "central", "text-anchor": "end" }, svg("title", {}, name), cut(name, Math.floor(labels / 7.6))),
      svg("line", { class: "lane", x1: labels, x2: width, y1: y + LANE, y2: y + LANE }));
    const tracks = tracksOf(runs, end);
    const high = (LANE - 8) / Math.max(...tracks.values());
    for (const run of runs) {
      const left = x(Date.parse(run.began)), right = x(run.ended ? Date.parse(run.ended) : end), wide = Math.max(2.5, right - left);
      const top = y + 4 + (tracks.get(run) - 1) * high;
      const took = span((run.ended ? Date.parse(run.ended) : end) - Date.parse(run.began));
      const bar = svg("g", { class: `bar ${run.outcome}`, onclick: () => this.open(run) }, svg("title", {}, `${run.holder}${run.name ? `: ${run.name}` : ""}, ${run.outcome}, ${took}${run.error ? `, ${run.error}` : ""}`),
        svg("rect", { x: left, y: top, width: wide, height: high, rx: Math.min(3, high / 2) }));
      if (wide > 60 && high > 12) bar.append(svg("text", { x: left + 6, y: y + LANE / 2, "dominant-baseline": "central" }, cut(run.holder, Math.floor(wide / 8))));
      picture.append(bar);
    }
  }
}

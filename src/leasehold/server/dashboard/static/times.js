// Times and durations as people read them. The store's clock decides: `skew` is how far it is from the browser's.

import { el } from "./dom.js";

let skew = 0;

export function setClock(rfc3339) {
  skew = Date.parse(rfc3339) - Date.now();
}

export const now = () => Date.now() + skew;

export function span(ms) {
  if (!(ms > 0)) return "0s";
  const seconds = ms / 1000;
  if (seconds < 1) return `${Math.max(1, Math.round(ms))}ms`;
  if (seconds < 10) return `${(Math.floor(seconds * 10) / 10).toFixed(1)}s`;
  if (seconds < 60) return `${Math.floor(seconds)}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m ${String(Math.floor(seconds % 60)).padStart(2, "0")}s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}h ${String(minutes % 60).padStart(2, "0")}m`;
  return `${Math.floor(hours / 24)}d ${hours % 24}h`;
}

// A countdown does not flicker between tenths: whole seconds are enough.
export function left(ms) {
  return ms > 0 && ms < 60_000 ? `${Math.ceil(ms / 1000)}s` : span(ms);
}

const clockOf = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const dayOf = new Intl.DateTimeFormat(undefined, { month: "short", day: "2-digit" });

export function clock(ms) {
  return clockOf.format(ms);
}

export function moment(ms) {
  const today = new Date().toDateString() === new Date(ms).toDateString();
  return today ? clockOf.format(ms) : `${dayOf.format(ms)} ${clockOf.format(ms)}`;
}

// A time that runs: a view updates it at each tick.
export function running(text) {
  return Object.assign(el("span", { data: { runs: "" } }, text()), { running: text });
}

export function ago(ms) {
  const since = now() - ms;
  return since < 1500 ? "just now" : `${span(since)} ago`;
}

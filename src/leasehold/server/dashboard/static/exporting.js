// Exports what the view shows: JSON for programs, CSV for spreadsheets.

import { el } from "./dom.js";

const COLUMNS = ["began", "ended", "space", "resources", "holder", "name", "outcome", "error", "waited_seconds", "mode", "fence", "lease", "session", "reason", "context"];

function give(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// A spreadsheet takes text that begins like this for a formula. Names come from other users, so they are marked as text.
export function cell(value) {
  const text = value === null || value === undefined ? "" : Array.isArray(value) ? value.join(" ") : typeof value === "object" ? JSON.stringify(value) : String(value);
  const safe = typeof value !== "number" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function asCsv(runs) {
  return [COLUMNS.join(","), ...runs.map((run) => COLUMNS.map((name) => cell(run[name])).join(","))].join("\r\n") + "\r\n";
}

const stamp = () => new Date().toISOString().slice(0, 19).replaceAll(":", "");

export const exportJson = (runs) => give(`leasehold-runs-${stamp()}.json`, "application/json", JSON.stringify({ runs }, null, 2));
export const exportCsv = (runs) => give(`leasehold-runs-${stamp()}.csv`, "text/csv", asCsv(runs));

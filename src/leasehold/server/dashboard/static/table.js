// A table with a head; on a phone each row is a card whose lines say what they are.

import { el } from "./dom.js";

const MOST = 500;

// `heads`: texts, or { text, number } for columns of numbers, which are aligned at the right. `rows`: arrays of cells.
// A column without any content is left out: most servers have no traces, and most leases no reason.
export function table(label, heads, rows, empty = "None.") {
  if (!rows.length) return el("p", { class: "empty" }, ...[empty].flat());
  const used = heads.map((_, place) => place === 0 || rows.some((cells) => !isEmpty(cells[place])));
  const kept = (items) => items.filter((_, place) => used[place]);
  const columns = kept(heads).map((head) => (typeof head === "string" ? { text: head } : head));
  const top = el("tr", {}, ...columns.map(({ text, number }) => (text ? el("th", { scope: "col", class: number && "number" }, text) : el("td"))));
  const body = rows.slice(0, MOST).map((cells) => el("tr", {}, ...kept(cells).map((cell, place) => line(cell, place, columns[place]))));
  const whole = el("table", { class: "cards" }, el("thead", {}, top), el("tbody", {}, ...body));
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `${label}; scroll to see all of it` }, whole);
}

const isEmpty = (cell) => cell === "" || cell === null || cell === undefined || cell === false || (Array.isArray(cell) && cell.length === 0);

function line(cell, place, { text, number }) {
  const parts = [cell].flat();
  if (place === 0) return el("th", { scope: "row" }, ...parts);
  return el("td", { class: number && "number", data: { label: text } }, ...parts);
}

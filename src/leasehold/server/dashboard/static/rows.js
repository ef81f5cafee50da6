// A list of any length with elements only for visible rows, which are of one height and reused while scrolling.

import { el, say } from "./dom.js";

export class Rows {
  // make() returns an empty row; show(row, item) fills it; open(item) is called when the user chooses one.
  constructor({ label, make, show, open, key = (item) => item.id, empty = "Nothing here.", fit = false }) {
    this.make = make;
    this.show = show;
    this.open = open;
    this.key = key;
    this.fit = fit; // no higher than its content
    this.items = [];
    this.active = null;
    this.pool = [];
    this.body = el("div", { class: "rows-body", role: "rowgroup" });
    this.empty = el("p", { class: "empty", hidden: true }, ...[empty].flat());
    this.view = el("div", { class: "rows", tabindex: "0", role: "grid", "aria-label": label, "aria-rowcount": "1" }, this.body);
    this.element = el("div", { class: "rows-frame" }, this.view, this.empty);
    this.view.addEventListener("scroll", () => this.#draw(), { passive: true });
    this.view.addEventListener("keydown", (event) => this.#key(event));
    this.view.addEventListener("focus", () => this.#draw());
    new ResizeObserver(() => this.#draw()).observe(this.view);
  }

  head(cells) {
    this.view.prepend(el("div", { class: "rows-head", role: "rowgroup" }, el("div", { class: "row head", role: "row", "aria-rowindex": "1" }, ...cells)));
    this.headed = true;
    return this;
  }

  // `empty`: the text without items, or what makes its parts.
  set(items, empty) {
    this.items = items;
    if (empty && empty !== this.emptied) this.#setEmpty(empty);
    this.view.setAttribute("aria-rowcount", String(items.length + (this.headed ? 1 : 0)));
    this.empty.hidden = items.length > 0;
    this.#draw();
  }

  #setEmpty(empty) {
    this.emptied = empty;
    if (typeof empty === "string") say(this.empty, empty);
    else this.empty.replaceChildren(...empty());
  }

  // Fill the visible rows again: the time left has changed, the items have not.
  refresh() {
    for (const row of this.pool) if (row.item !== undefined && !row.hidden) this.show(row, row.item);
  }

  get height() {
    return this.rowHeight ||= parseFloat(getComputedStyle(this.view).getPropertyValue("--row")) || 44;
  }

  #draw() {
    this.rowHeight = 0;
    const height = this.height;
    const head = this.headed ? this.view.firstElementChild.offsetHeight : 0;
    const total = `${this.items.length * height}px`;
    if (this.body.style.height !== total) {
      this.body.style.height = total;
      if (this.fit) this.element.style.height = `clamp(${head + height * 2}px, ${head + this.items.length * height + 4}px, 36vh)`;
    }
    const first = Math.max(0, Math.floor((this.view.scrollTop - head) / height) - 2);
    const count = Math.min(this.items.length - first, Math.ceil(this.view.clientHeight / height) + 5);
    for (let place = 0; place < Math.max(count, this.pool.length); place++) this.#put(place, first, count, height);
    if (!this.items.some((item) => this.key(item) === this.active)) this.active = null;
    this.#mark();
  }

  #put(place, first, count, height) {
    let row = this.pool[place];
    if (place >= count) {
      if (row) { row.hidden = true; row.item = undefined; }
      return;
    }
    if (!row) {
      row = this.make();
      row.classList.add("row");
      row.setAttribute("role", "row");
      row.id = `row-${Math.random().toString(36).slice(2)}`;
      row.addEventListener("click", () => { this.active = this.key(row.item); this.#mark(); this.open?.(row.item); });
      this.pool.push(row);
      this.body.append(row);
    }
    const index = first + place;
    row.hidden = false;
    row.item = this.items[index];
    row.style.transform = `translateY(${index * height}px)`;
    row.setAttribute("aria-rowindex", String(index + 1 + (this.headed ? 1 : 0)));
    this.show(row, row.item);
  }

  #mark() {
    let active = null;
    for (const row of this.pool) {
      const is = !row.hidden && this.active !== null && this.key(row.item) === this.active;
      row.classList.toggle("active", is);
      row.setAttribute("aria-selected", String(is));
      if (is) active = row.id;
    }
    if (active) this.view.setAttribute("aria-activedescendant", active);
    else this.view.removeAttribute("aria-activedescendant");
  }

  // Arrow keys enter the list from where they are not needed, and Enter opens the chosen row.
  take(event, { up = true } = {}) {
    if (!this.items.length || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.isComposing) return;
    if (event.key === "ArrowDown" || (up && event.key === "ArrowUp")) this.view.focus({ preventScroll: true });
    else if (event.key !== "Enter" || this.active === null) return;
    this.#move(event);
  }

  #key(event) {
    if (event.target === this.view && this.items.length) this.#move(event);
  }

  #move(event) {
    const page = Math.max(1, Math.floor(this.view.clientHeight / this.height) - 1);
    const at = this.items.findIndex((item) => this.key(item) === this.active);
    const moves = { ArrowDown: at + 1, ArrowUp: at < 0 ? 0 : at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.items.length - 1 };
    if (event.key === "Enter" || event.key === " ") {
      if (at >= 0) this.open?.(this.items[at]);
    } else if (event.key in moves) this.#go(Math.min(this.items.length - 1, Math.max(0, moves[event.key])));
    else return;
    event.preventDefault();
  }

  #go(index) {
    this.active = this.key(this.items[index]);
    const head = this.headed ? this.view.firstElementChild.offsetHeight : 0;
    const top = index * this.height;
    const room = this.view.clientHeight - head - this.height;
    if (top < this.view.scrollTop) this.view.scrollTop = top;
    else if (top > this.view.scrollTop + room) this.view.scrollTop = top - room;
    this.#draw();
  }
}

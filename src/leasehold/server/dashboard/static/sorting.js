// The heads of a list, with a button for each order. The address names the chosen one.

import { keep } from "./address.js";
import { el } from "./dom.js";

// `columns`: [name, text]; `orders`: by name, how to compare two items. Columns without an order have no button.
export class Sorting {
  constructor(columns, orders, usual, changed) {
    this.columns = columns;
    this.orders = orders;
    this.usual = usual;
    this.changed = changed;
    this.heads = columns.map(([name, text]) => el("div", { class: `cell ${name}`, role: "columnheader", "aria-sort": "none" },
      name in orders ? el("button", { type: "button", class: "sort", onclick: () => this.#choose(name) }, text) : text));
    this.read({});
  }

  read({ sort }) {
    this.name = sort in this.orders ? sort : this.usual;
    this.columns.forEach(([each], place) => this.heads[place].setAttribute("aria-sort", each === this.name ? "ascending" : "none"));
  }

  #choose(name) {
    keep({ sort: name === this.usual ? "" : name });
    this.read({ sort: name });
    this.changed();
  }

  sorted(items) {
    const order = this.orders[this.name];
    return order ? [...items].sort(order) : items;
  }
}

export const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

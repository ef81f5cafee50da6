// The command palette (Ctrl-K or ⌘K): every view, resource, holder and session, and what you may do, by a few letters.

import { link } from "./address.js";
import { forceRelease, note, reserve } from "./acts.js";
import { el } from "./dom.js";
import { named, spaced } from "./naming.js";

const SHOWN = 12;
const VIEWS = [["now", "Now: what is held"], ["waiting", "Waiting: queues and the graph"], ["plans", "Plans: what agents are about to touch"],
  ["pools", "Pools: members, held and free"], ["elections", "Elections: who leads"], ["history", "History: what happened"], ["contention", "Contention: most waited for"],
  ["trends", "Trends: over time"], ["audit", "Audit: what admins did"], ["act", "Act: keys, sessions, closed resources"]];

let open = null;

export function openPalette(app, more) {
  if (open || document.querySelector("dialog[open]")) return;
  const all = [...views(app), ...more, ...places(app), ...acts(app)];
  const list = el("ul", { id: "palette-list", role: "listbox", "aria-label": "Commands" });
  const input = el("input", { type: "text", role: "combobox", "aria-label": "Command or name", "aria-expanded": "true", "aria-controls": "palette-list", autocomplete: "off", spellcheck: "false", placeholder: "Go to a view or a name, or do something" });
  const dialog = el("dialog", { class: "palette", "aria-label": "Commands" }, input, list);
  const state = { found: [], at: 0 };
  const run = (command) => { dialog.close(); command.run(); };
  const draw = () => {
    list.replaceChildren(...state.found.map((command, place) => el("li", { id: `palette-${place}`, role: "option", "aria-selected": String(place === state.at), onclick: () => run(command) },
      el("small", {}, command.kind), " ", command.text)));
    if (!state.found.length) list.replaceChildren(el("li", { class: "hint", role: "option", "aria-disabled": "true" }, "No command and no name has these letters."));
    input.setAttribute("aria-activedescendant", state.found.length ? `palette-${state.at}` : "");
  };
  const look = () => { Object.assign(state, { found: matching(all, typed(input.value, app)), at: 0 }); draw(); };
  input.addEventListener("input", look);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" && state.found[state.at]) run(state.found[state.at]);
    else if (step && state.found.length) { state.at = (state.at + step + state.found.length) % state.found.length; draw(); }
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("close", () => { dialog.remove(); open = null; });
  document.body.append(dialog);
  open = dialog;
  look();
  dialog.showModal();
  input.focus();
}

const go = (href) => () => { location.hash = href; };

function views(app) {
  const may = (view) => view !== "act" || app.me.can.includes("force_release");
  return VIEWS.filter(([view]) => may(view)).map(([view, text]) => ({ kind: "view", text, run: go(link(view)) }));
}

// The names that are held or waited for now.
function places(app) {
  const found = new Map();
  const add = (kind, name, space) => name && found.set(`${kind} ${space} ${name}`, { kind, text: spaced(name, space), run: go(link(kind, name, { space: space === "default" ? "" : space })) });
  for (const it of [...app.state.leases.values(), ...(app.live?.graph?.waits ?? [])]) {
    for (const name of it.resources) add("resource", name, it.space);
    add("holder", it.holder, it.space);
    add("session", it.session, it.space);
  }
  return [...found.values()];
}

function acts(app) {
  if (!app.me.can.includes("force_release")) return [];
  return [...app.state.leases.values()].map((lease) => ({ kind: "do", text: `Force-release ${named(lease.resources, lease.space)} of ${lease.holder}`, run: () => forceRelease(lease) }));
}

// A name that nothing holds can still be opened, reserved or noted.
function typed(text, app) {
  const name = text.trim();
  const space = app.me.space ?? "default";
  const extra = name && [{ kind: "resource", text: name, run: go(link("resource", name)) },
    app.me.can.includes("acquire") && { kind: "do", text: `Reserve ${name}`, run: () => reserve(app.me, name, space) },
    app.me.can.includes("note") && { kind: "do", text: `Note on ${name}`, run: () => note(name, space) }].filter(Boolean);
  return { words: name.toLowerCase().split(/\s+/).filter(Boolean), extra: extra || [] };
}

function matching(all, { words, extra }) {
  const fits = (command) => words.every((word) => `${command.kind} ${command.text}`.toLowerCase().includes(word));
  const found = all.filter(fits).slice(0, SHOWN);
  return [...found, ...extra.filter((command) => !found.some((each) => each.kind === command.kind && each.text === command.text))];
}

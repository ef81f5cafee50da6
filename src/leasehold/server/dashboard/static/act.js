// Act: only admins see it. Every action asks for a reason and for confirmation.

import { get } from "./api.js";
import { clear, createKey, endSession, forceRelease, revokeKey, steal } from "./acts.js";
import { el, say } from "./dom.js";
import { ago, left, moment, now } from "./times.js";

const TOLD_MOST = 5;
const OLD = 10_000; // refresh the time left of sessions, though nothing happens

export class Act {
  constructor(app) {
    this.app = app;
    this.closed = el("div");
    this.sessions = el("div");
    this.keys = el("div");
    this.name = el("input", { id: "act-name", type: "text", autocomplete: "off", spellcheck: "false", placeholder: "deploy://api-prod", list: undefined });
    const of = (run) => async () => {
      const name = this.name.value.trim();
      const found = [...app.state.leases.values()].filter((each) => each.id === name || each.resources.includes(name));
      if (!found.length) return this.#say(name ? `Nobody holds ${name}.` : "Which resource, or which lease?");
      if (found.length > 1) return this.#say(whichOf(name, found));
      this.#say("");
      await run(found[0]);
    };
    this.trouble = el("p", { class: "trouble", role: "alert", hidden: true });
    this.element = el("section", { class: "view act", "aria-labelledby": "act-title" },
      el("h1", { id: "act-title" }, "Act"),
      el("p", { class: "hint" }, `You are ${app.me.name}. What you do is in the history under this name, with your reason.`),
      card("A lease", "End a lease of another holder, or take it over. Choose it under Now, or name it here.",
        el("div", { class: "tools" }, el("label", { for: "act-name" }, "Resource or lease"), this.name,
          el("button", { type: "button", class: "danger", onclick: of(forceRelease) }, "Force-release …"), el("button", { type: "button", onclick: of(steal) }, "Steal …")), this.trouble),
      card("Closed after an accident", "No one can acquire these until an admin has checked and cleared them.", this.closed),
      card("Sessions", "The live runs of agents. Ending one releases all that it holds.", this.sessions),
      card("Keys", "The callers of this server and their roles.", this.keys, el("p", { class: "buttons" }, el("button", { type: "button", class: "primary", onclick: () => createKey(app.me.open).finally(() => this.look()) }, "Create a key …"))));
  }

  #say(text) {
    say(this.trouble, text);
    this.trouble.hidden = !text;
  }

  show() { this.visible = true; this.look(); }
  hide() { this.visible = false; }
  graph() {}
  update() {}

  tick() {
    const time = performance.now();
    if (this.visible && time > (this.again ?? 0) && (this.app.state.version !== this.drawn || time > this.again + OLD)) this.look();
  }

  async look() {
    this.drawn = this.app.state.version;
    this.again = performance.now() + 3000;
    const again = () => this.look();
    await Promise.all([
      fill(this.closed, "/dashboard/closed", (told) => told.closed, ["Resource", "Space", "Who left it", "Since", ""], (each) => [
        each.resource, each.space, `${each.holder}${each.name ? ` (${each.name})` : ""}`, ago(Date.parse(each.since)), button("Clear …", () => clear(each).finally(again))]),
      fill(this.sessions, "/v1/sessions", (told) => told.sessions, ["Holder", "Space", "Name", "Began", "Left", ""], (each) => [
        each.holder, each.space, each.name ?? "", moment(Date.parse(each.started_at)), left(Date.parse(each.expires_at) - now()), button("End …", () => endSession(each).finally(again))]),
      fill(this.keys, "/v1/keys", (told) => told.keys, ["Whose", "Role", "Space", "Names", "Created", ""], (each) => [
        each.name, each.role, each.space, each.prefixes.join(" ") || "all", moment(Date.parse(each.created_at)), button("Revoke …", () => revokeKey(each).finally(again))]),
    ]);
  }
}

// A name may have several holders, in several spaces: the admin says which lease ends.
function whichOf(name, found) {
  const told = found.slice(0, TOLD_MOST).map((each) => `${each.holder} in ${each.space}: ${each.id}`);
  const more = found.length > TOLD_MOST ? `; and ${found.length - TOLD_MOST} more` : "";
  return `${found.length} leases are on ${name}. Which one? Name it by its id: ${told.join("; ")}${more}.`;
}

const button = (text, onclick) => el("button", { type: "button", class: "danger", onclick }, text);

function card(title, says, ...parts) {
  return el("section", { class: "card" }, el("h2", {}, title), el("p", { class: "hint" }, says), ...parts);
}

async function fill(place, path, pick, heads, cells) {
  try {
    const found = pick(await get(path));
    const key = JSON.stringify(found);
    if (place.known === key && document.activeElement && place.contains(document.activeElement)) return; // do not replace a button that has the focus
    place.known = key;
    if (!found.length) return place.replaceChildren(el("p", { class: "empty" }, "None."));
    const rows = found.slice(0, 500).map((each) => el("tr", {}, ...cells(each).map((cell, number) => el(number ? "td" : "th", number ? {} : { scope: "row" }, cell))));
    place.replaceChildren(el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table; scroll to see all of it" }, el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((head) => (head ? el("th", { scope: "col" }, head) : el("td"))))), el("tbody", {}, ...rows))));
  } catch (error) {
    place.replaceChildren(el("p", { class: "trouble" }, error.message));
  }
}

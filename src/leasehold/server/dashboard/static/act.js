// Act: only admins see it. Every action asks for a reason and for confirmation.

import { get } from "./api.js";
import { clear, createKey, endSession, extend, forceRelease, reserve, revokeKey, steal } from "./acts.js";
import { el, say } from "./dom.js";
import { holderLink, keyLink, resourceLink } from "./naming.js";
import { table } from "./table.js";
import { ago, left, moment, now, span } from "./times.js";

const TOLD_MOST = 5;
const NAMES_MOST = 300;
const OLD = 10_000; // refresh the time left of sessions, though nothing happens

export class Act {
  constructor(app) {
    this.app = app;
    this.closed = el("div");
    this.sessions = el("div");
    this.keys = el("div");
    this.name = el("input", { id: "act-name", type: "text", autocomplete: "off", spellcheck: "false", placeholder: "deploy://api-prod", list: "act-names", oninput: () => this.#offer() });
    this.names = el("datalist", { id: "act-names" });
    this.choices = el("div", { class: "choices", role: "group", "aria-label": "Which lease?", hidden: true });
    const of = (run) => async () => {
      const name = this.name.value.trim();
      const found = [...app.state.leases.values()].filter((each) => each.id === name || each.resources.includes(name));
      this.#choose(found.length > 1 ? found : [], run);
      if (!found.length) return this.#say(name ? `Nobody holds ${name}.` : "Which resource, or which lease?");
      if (found.length > 1) return this.#say(`${found.length} leases are on ${name}. Which one? ${toldOf(found)}.`);
      this.#say("");
      await run(found[0]);
    };
    this.trouble = el("p", { class: "trouble", role: "alert", hidden: true });
    this.element = el("section", { class: "view act", "aria-labelledby": "act-title" },
      el("h1", { id: "act-title" }, "Act"),
      el("p", { class: "hint" }, `You are ${app.me.name}. What you do is in the history under this name, with your reason.`),
      card("A lease", "End a lease of another holder, or take it over. Choose it under Now, or name it here.",
        el("div", { class: "tools" }, el("label", { for: "act-name" }, "Resource or lease"), this.name, this.names,
          el("button", { type: "button", class: "danger", onclick: of(forceRelease) }, "Force-release …"), el("button", { type: "button", onclick: of(steal) }, "Steal …"),
          el("button", { type: "button", onclick: of(extend) }, "Extend …"), el("button", { type: "button", onclick: () => this.#reserve() }, "Reserve for me …")), this.trouble, this.choices),
      card("Closed after an accident", "No one can acquire these until an admin has checked and cleared them.", this.closed),
      card("Sessions", "The live runs of agents. Ending one releases all that it holds.", this.sessions),
      card("Keys", "The callers of this server and their roles.", this.keys, el("p", { class: "buttons" }, el("button", { type: "button", class: "primary", onclick: () => createKey(app.me.open).finally(() => this.look()) }, "Create a key …"))));
  }

  #say(text) {
    say(this.trouble, text);
    this.trouble.hidden = !text;
  }

  // The names that are held, for the pick list of the field.
  #offer() {
    const held = [...new Set([...this.app.state.leases.values()].flatMap((lease) => lease.resources))].sort().slice(0, NAMES_MOST);
    if (held.join("\n") === this.offered) return;
    this.offered = held.join("\n");
    this.names.replaceChildren(...held.map((value) => el("option", { value })));
  }

  // A name may have several holders, in several spaces: the admin picks the lease.
  #choose(found, run) {
    this.choices.hidden = !found.length;
    this.choices.replaceChildren(...found.slice(0, TOLD_MOST * 4).map((lease) => el("button", { type: "button", onclick: async () => { this.#choose([], run); this.#say(""); await run(lease); } },
      `${lease.holder} in ${lease.space}${lease.name ? `, ${lease.name}` : ""}, for ${span(now() - lease.acquired)}`)));
  }

  #reserve() {
    const name = this.name.value.trim();
    if (!name) return this.#say("Which resource?");
    this.#say("");
    reserve(this.app.me, name, this.app.me.space ?? "default");
  }

  show() { this.visible = true; this.#offer(); this.look(); }
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
        resourceLink(each.resource, each.space, each.resource), each.space, `${each.holder}${each.name ? ` (${each.name})` : ""}`, ago(Date.parse(each.since)), button("Clear …", () => clear(each).finally(again))]),
      fill(this.sessions, "/v1/sessions", (told) => told.sessions, ["Holder", "Space", "Name", "Began", "Left", ""], (each) => [
        holderLink(each.holder, each.space), each.space, each.name ?? "", moment(Date.parse(each.started_at)), left(Date.parse(each.expires_at) - now()), button("End …", () => endSession(each).finally(again))]),
      fill(this.keys, "/v1/keys", (told) => told.keys, ["Whose", "Role", "Space", "Names", "Created", ""], (each) => [
        keyLink(each.id, each.name), each.role, each.space, each.prefixes.join(" ") || "all", moment(Date.parse(each.created_at)), button("Revoke …", () => revokeKey(each).finally(again))]),
    ]);
  }
}

function toldOf(found) {
  const told = found.slice(0, TOLD_MOST).map((each) => `${each.holder} in ${each.space}: ${each.id}`);
  return `${told.join("; ")}${found.length > TOLD_MOST ? `; and ${found.length - TOLD_MOST} more` : ""}`;
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
    place.replaceChildren(table(heads[0], heads, found.map(cells)));
  } catch (error) {
    place.replaceChildren(el("p", { class: "trouble" }, error.message));
  }
}

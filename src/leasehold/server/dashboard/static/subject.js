// A page of its own for a resource, a holder, a session or a key: `subjects.js` says what each of them shows.

import { el, say } from "./dom.js";
import { facts } from "./panel.js";
import { SUBJECTS } from "./subjects.js";

const EVERY = 1500;

export class Subject {
  constructor(app, kind) {
    this.app = app;
    this.kind = kind;
    this.heading = el("h1", { class: "subject-name" });
    this.facts = el("div");
    this.acts = el("p", { class: "buttons acts" });
    this.parts = el("div", { class: "parts" });
    this.trouble = el("p", { class: "trouble", role: "alert", hidden: true });
    this.element = el("section", { class: "view subject", "aria-label": `About this ${kind}` },
      el("p", { class: "hint kind-of" }, `${kind[0].toUpperCase()}${kind.slice(1)}`), this.heading, this.facts, this.acts, this.trouble, this.parts);
  }

  show({ subject, given }) {
    this.visible = true;
    this.subject = subject;
    this.space = given.space || (this.kind === "resource" ? this.app.me.space ?? "default" : undefined);
    this.known = null;
    say(this.heading, subject);
    this.look();
  }

  hide() { this.visible = false; }
  update() {}
  graph() { if (this.visible) this.look(); }

  tick() {
    if (this.visible && this.app.state.version !== this.drawn && performance.now() > (this.again ?? 0)) this.look();
    for (const node of this.parts.querySelectorAll("[data-since]")) say(node, node.since());
  }

  async look() {
    this.drawn = this.app.state.version;
    this.again = Infinity;
    const asked = this.subject;
    try {
      const told = await SUBJECTS[this.kind](this.app, asked, this.space, () => this.look());
      if (asked === this.subject) this.#draw(told);
      this.trouble.hidden = true;
    } catch (error) {
      say(this.trouble, error.message);
      this.trouble.hidden = false;
    } finally {
      this.again = performance.now() + EVERY;
    }
  }

  // A button that has the focus is not replaced under the finger.
  #draw({ title, about, acts, parts, key }) {
    const known = JSON.stringify(key);
    if (known === this.known) return;
    this.known = known;
    say(this.heading, title);
    this.facts.replaceChildren(facts(about));
    this.acts.replaceChildren(...acts.filter(Boolean));
    this.acts.hidden = !this.acts.childElementCount;
    this.parts.replaceChildren(...parts.filter(Boolean).map(([heading, content]) => el("section", { class: "card" }, el("h2", {}, heading), content)));
  }
}

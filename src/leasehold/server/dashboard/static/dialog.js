// Confirmation: what will happen, a reason for the history, and a button that says what it does.

import { Refusal } from "./api.js";
import { byId, el, say } from "./dom.js";

export function toast(text, kind = "good") {
  const node = el("p", { class: `toast ${kind}` }, text);
  byId("toasts").append(node);
  setTimeout(() => node.remove(), kind === "bad" ? 10_000 : 5000);
}

function field({ name, label, hint, value = "", type = "text", options, required = true, pattern }) {
  const id = `field-${name}`;
  const input = options
    ? el("select", { id, name }, ...options.map((each) => el("option", { value: each, selected: each === value }, each)))
    : el("input", { id, name, type, value, required, pattern, autocomplete: "off", maxlength: "512", "aria-describedby": hint ? `${id}-hint` : undefined });
  return el("p", { class: "field" }, el("label", { for: id }, label), input, hint && el("small", { id: `${id}-hint` }, hint));
}

// Resolves to the result of `run(values)`, or to undefined if the user cancels.
export function confirm({ title, says, fields = [], reason = true, action, danger = true, run }) {
  return new Promise((resolve) => {
    const trouble = el("p", { class: "trouble", role: "alert", hidden: true });
    const asked = [...fields, ...(reason ? [{ name: "reason", label: "Reason", hint: "Every user of this server can read it in the history." }] : [])];
    const go = el("button", { type: "submit", class: danger ? "danger" : "primary" }, action);
    const form = el("form", { method: "dialog" },
      el("h2", { id: "dialog-title" }, title),
      ...[says].flat().filter(Boolean).map((line) => el("p", {}, line)),
      ...asked.map(field), trouble,
      el("p", { class: "buttons" }, el("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Cancel"), go));
    const dialog = el("dialog", { class: "asking", "aria-labelledby": "dialog-title" }, form);
    let done;
    dialog.addEventListener("close", () => { dialog.remove(); resolve(done); });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      go.disabled = true;
      try {
        const values = Object.fromEntries(Array.from(new FormData(form), ([name, value]) => [name, value.trim()]));
        if (reason && !values.reason) throw new Refusal(400, { detail: "Say why: it is in the history for others to read." });
        done = (await run(values)) ?? true;
        dialog.close();
      } catch (error) {
        say(trouble, error.message);
        trouble.hidden = false;
        go.disabled = false;
      }
    });
    document.body.append(dialog);
    dialog.showModal();
    form.querySelector("input, select")?.focus();
  });
}

// Signing out closes questions; a secret that is shown once stays until the user closes it.
export function askNothingMore() {
  for (const dialog of document.querySelectorAll("dialog.asking[open]")) dialog.close();
}

// Shows a secret once, and never again.
export function tellOnce({ title, says, secret }) {
  const text = el("output", { class: "secret", id: "secret" }, secret);
  const copy = el("button", { type: "button", onclick: async () => {
    try { await navigator.clipboard.writeText(secret); copy.textContent = "Copied"; } catch { getSelection().selectAllChildren(text); }
  } }, "Copy");
  const dialog = el("dialog", { "aria-labelledby": "secret-title" }, el("form", { method: "dialog" },
    el("h2", { id: "secret-title" }, title), el("p", {}, says), text,
    el("p", { class: "buttons" }, copy, el("button", { type: "submit", class: "primary" }, "Done"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

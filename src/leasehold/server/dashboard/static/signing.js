// Signing in with a key. The key is sent to the server once, which sets it as a cookie that no script can read.

import { get, post, remove } from "./api.js";
import { byId, el } from "./dom.js";

export const whoAmI = () => get("/dashboard/session");

export function signOut() {
  return remove("/dashboard/session").finally(() => location.reload());
}

export function askForKey(then) {
  const input = el("input", { id: "key", name: "key", type: "password", autocomplete: "current-password", required: true, placeholder: "lh_…", spellcheck: "false" });
  const trouble = el("p", { class: "trouble", role: "alert", hidden: true });
  const go = el("button", { type: "submit", class: "primary" }, "Sign in");
  const form = el("form", { class: "sign-in" }, el("h1", {}, "Sign in"),
    el("p", {}, "This server needs a key. This page does not store it, and no script can read it."),
    el("p", { class: "field" }, el("label", { for: "key" }, "Key"), input), trouble, el("p", { class: "buttons" }, go),
    el("p", { class: "hint" }, "No key? An admin creates one: ", el("code", {}, "leasehold keys create NAME --role viewer")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    go.disabled = true;
    trouble.hidden = true;
    try {
      if (!input.value.trim().startsWith("lh_")) throw new Error("A key begins with lh_");
      then(await post("/dashboard/session", { key: input.value.trim() }));
    } catch (error) {
      trouble.textContent = error.message;
      trouble.hidden = false;
      input.setAttribute("aria-invalid", "true");
      input.select();
    } finally {
      go.disabled = false;
    }
  });
  byId("main").replaceChildren(form);
  input.focus();
}

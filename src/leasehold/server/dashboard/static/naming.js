// Names as they are shown everywhere: with their space where it is not the default one, and as links to their pages.

import { link } from "./address.js";
import { el } from "./dom.js";

export const spaced = (text, space) => (space && space !== "default" ? `${text} · ${space}` : text);
export const named = (resources, space) => spaced(resources.join(" + "), space);

const page = (kind, subject, space, text) => el("a", { class: "name", href: link(kind, subject, { space: space === "default" ? "" : space }) }, text ?? spaced(subject, space));

export const resourceLink = (name, space, text) => page("resource", name, space, text);
export const resourceLinks = (names, space) => names.flatMap((name, place) => [place > 0 && " + ", resourceLink(name, space)]);
export const holderLink = (name, space) => page("holder", name, space, name);
export const sessionLink = (id, space) => id && page("session", id, space, id);
export const keyLink = (id, text) => id && page("key", id, "", text ?? id);

// Its id alone, which is what a tool for traces searches for; an id of a request that is no trace as it is.
export function traceOf(trace) {
  const id = /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(trace ?? "")?.[1] ?? trace;
  return id ? el("code", { class: "name trace", title: trace }, id) : "";
}

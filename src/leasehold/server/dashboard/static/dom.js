// Elements without markup: data from the server becomes text, and only text. Nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

// Invisible and control characters (also marks of direction, fillers) are spelled out, as on the terminal.
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/gu;

export function shown(text) {
  return String(text ?? "").replace(UNSEEN, (one) => {
    const code = one.codePointAt(0);
    if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
    return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\u{${code.toString(16)}}`;
  });
}

function fill(node, given, children) {
  for (const [name, value] of Object.entries(given ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(node.dataset, value);
    else if (name === "class") node.setAttribute("class", value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(shown(child)));
  }
  return node;
}

export function el(tag, given, ...children) {
  return fill(document.createElement(tag), given, children);
}

export function svg(tag, given, ...children) {
  return fill(document.createElementNS(SVG, tag), given, children);
}

// Only touches the page if something changed: a live page does this thousands of times.
export function say(node, text) {
  const safe = shown(text);
  if (node.textContent !== safe) node.textContent = safe;
}

export const byId = (id) => document.getElementById(id);

export function cut(text, most) {
  const signs = [...shown(text)]; // one by one: half of an emoji is not a sign
  if (signs.length <= most) return signs.join("");
  const end = Math.floor(most / 3);
  return `${signs.slice(0, most - end - 1).join("")}…${signs.slice(signs.length - end).join("")}`;
}

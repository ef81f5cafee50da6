// The address holds the state of the page, so that every view can be linked, reloaded and found again:
// `#history?resource=deploy%3A%2F%2Fapi&span=1+day`, `#resource/issue%3A42?space=team`.

export function read() {
  const [path, query = ""] = location.hash.slice(1).split("?", 2);
  const [view, ...rest] = path.split("/");
  return { view, subject: decoded(rest.join("/")), given: Object.fromEntries(new URLSearchParams(query)) };
}

// A link that somebody typed by hand may have a stray % in it.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function link(view, subject = "", given = {}) {
  const set = Object.entries(given).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const path = subject === "" ? view : `${view}/${encodeURIComponent(subject)}`;
  return `#${path}${set.length ? `?${new URLSearchParams(set)}` : ""}`;
}

// Changes what the address says of the present view, without a new entry in the browser's list of visited pages.
export function keep(changed) {
  const { view, subject, given } = read();
  const next = link(view, subject, { ...given, ...changed });
  if (next !== location.hash) history.replaceState(history.state, "", next);
}

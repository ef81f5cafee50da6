// Requests to our own server, and to no other. The cookie identifies the user; the header proves that this page sends them.

export class Refusal extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the server answered ${status}`);
    this.status = status;
    this.code = problem.code ?? "unknown";
    this.field = problem.field;
  }
}

async function ask(method, path, body, patience = 20_000) {
  const headers = { "x-leasehold": "page", accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  const response = await fetch(path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    credentials: "same-origin",
    cache: "no-store",
    signal: AbortSignal.timeout(patience),
  });
  const told = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refusal(response.status, told);
  return told;
}

function query(given) {
  const found = Object.entries(given).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return found.length ? `?${new URLSearchParams(found)}` : "";
}

export const get = (path, given = {}, patience) => ask("GET", path + query(given), undefined, patience);
export const post = (path, body) => ask("POST", path, body);
export const remove = (path) => ask("DELETE", path);

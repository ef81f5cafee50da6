// The page: its user, the view that is shown, and the connection to the server. Each view has a module of its own.

import { Act } from "./act.js";
import { read } from "./address.js";
import { Alerts } from "./alerts.js";
import { Audit } from "./audit.js";
import { Contention } from "./contention.js";
import { askNothingMore } from "./dialog.js";
import { byId, el, say } from "./dom.js";
import { Elections } from "./elections.js";
import { History } from "./history.js";
import { Live } from "./live.js";
import { Now } from "./now.js";
import { openPalette } from "./palette.js";
import { closePanel } from "./panel.js";
import { Plans } from "./plans.js";
import { Pools } from "./pools.js";
import { askForKey, signOut, whoAmI } from "./signing.js";
import { State } from "./state.js";
import { Subject } from "./subject.js";
import { ago, clock, now } from "./times.js";
import { Trends } from "./trends.js";
import { Waiting, showCount } from "./waiting.js";

const VIEWS = { now: Now, waiting: Waiting, plans: Plans, pools: Pools, elections: Elections, history: History, contention: Contention, trends: Trends, audit: Audit, act: Act };
const SUBJECTS = ["resource", "holder", "session", "key"]; // each has a page of its own
const TICK = 250;
const WORDS = { connecting: "Connecting", live: "Live", cut: "Disconnected", resting: "Resting" };
const UNSEEN = 20_000; // a page that is hidden for so long disconnects, in milliseconds
const app = { me: null, state: null, live: null, panel: null, alerts: null };
let views = {};
let current = null;
let timer = null;

// ---------------------------------------------------------------------------------------------- colours

const THEMES = { auto: ["◐", "as in the system settings"], light: ["☀", "light"], dark: ["☾", "dark"] };

function theme(next) {
  let chosen = "auto";
  try {
    chosen = next ?? localStorage.getItem("leasehold-theme") ?? "auto";
    if (next) localStorage.setItem("leasehold-theme", next);
  } catch { /* a browser that stores nothing: the colours of the system are used each time */ }
  if (!(chosen in THEMES)) chosen = "auto";
  document.documentElement.dataset.theme = chosen;
  const [sign, says] = THEMES[chosen];
  byId("theme").textContent = sign;
  byId("theme").setAttribute("aria-label", `Colours: ${says}`);
  byId("theme").onclick = () => theme({ auto: "light", light: "dark", dark: "auto" }[chosen]);
}

// ------------------------------------------------------------------------------------------------ views

function show() {
  if (!app.me) return;
  const address = read();
  const name = viewOf(address);
  if (current && current.name !== name) current.view.hide();
  closePanel(false);
  const view = (views[name] ??= name in VIEWS ? new VIEWS[name](app) : new Subject(app, name));
  if (current?.view !== view) byId("main").replaceChildren(view.element);
  current = { name, view };
  for (const tab of byId("tabs").children) {
    if (tab.dataset.view === name) {
      tab.setAttribute("aria-current", "page");
      tab.scrollIntoView({ block: "nearest", inline: "nearest" }); // on a phone they do not all fit
    } else tab.removeAttribute("aria-current");
  }
  document.title = `${address.subject && SUBJECTS.includes(name) ? address.subject : `${name[0].toUpperCase()}${name.slice(1)}`} · Leasehold`;
  view.show(address);
  view.graph?.();
  view.tick?.();
}

function viewOf({ view, subject }) {
  if (SUBJECTS.includes(view) && subject) return view;
  return view in VIEWS && (view !== "act" || isAdmin()) ? view : "now";
}

const isAdmin = () => app.me?.can.includes("force_release");

let asked = false;
function draw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    current?.view.update();
  });
}

function tick() {
  if (document.hidden) return;
  app.state.dropExpired(now());
  current?.view.tick();
  app.panel?.tick();
  app.alerts?.tick();
  if (app.live.link === "cut") tellSince();
}

// ------------------------------------------------------------------------------------------------- line

function heard(what) {
  if (what === "signed-out") return leave();
  if (what === "link") return tellLink();
  if (what === "graph") {
    showCount(app.live.graph);
    current?.view.graph?.();
    app.panel?.look();
  }
  draw();
}

function tellLink() {
  const { link } = app.live;
  byId("link").dataset.state = link;
  byId("link-text").textContent = WORDS[link];
  const notice = byId("notice");
  notice.hidden = link !== "cut";
  if (link === "cut") tellSince();
  document.body.classList.toggle("stale", link === "cut");
  if (link === "live" && app.live.graph) heard("graph");
}

function tellSince() {
  say(byId("notice"), `Disconnected from the server since ${clock(app.live.since)} (${ago(now() - (Date.now() - app.live.since))}): you see the last known state. The page reconnects by itself.`);
}

function enter(me) {
  app.me = me;
  app.state = new State();
  views = {};
  current = null;
  byId("tabs").hidden = false;
  byId("commands").hidden = false;
  byId("tabs").querySelector("[data-view=act]").hidden = !isAdmin();
  byId("who").replaceChildren(el("b", {}, me.open ? "open server" : me.name), me.open ? "" : ` ${me.role}`);
  byId("sign-out").hidden = me.open;
  app.live = new Live(app.state, heard);
  app.alerts = new Alerts(app);
  show();
  timer = setInterval(tick, TICK);
  app.live.start();
}

function leave() {
  app.live?.stop();
  clearInterval(timer);
  Object.assign(app, { me: null, live: null, panel: null, alerts: null });
  current = null;
  closePanel();
  askNothingMore();
  byId("tabs").hidden = true;
  byId("commands").hidden = true;
  byId("alerts").hidden = true;
  byId("sign-out").hidden = true;
  byId("who").replaceChildren();
  byId("notice").hidden = true;
  byId("link").dataset.state = "out";
  byId("link-text").textContent = "Signed out";
  askForKey(enter);
}

let leaving = null;
function seenOrNot() {
  clearTimeout(leaving);
  if (document.hidden) leaving = setTimeout(() => app.live?.rest(), UNSEEN);
  else app.live?.wake();
}

// ------------------------------------------------------------------------------------------------ begin

async function begin() {
  try {
    const me = await whoAmI();
    if (me.signed_in) enter(me);
    else leave();
  } catch {
    byId("notice").hidden = false;
    byId("notice").textContent = "The server does not answer. Trying again …";
    setTimeout(begin, 1500);
    return;
  }
}

theme();
window.addEventListener("hashchange", () => { show(); byId("main").focus({ preventScroll: true }); });
const settings = () => [
  { kind: "do", text: "Change the colours", run: () => byId("theme").click() },
  ...(app.me.open ? [] : [{ kind: "do", text: "Sign out", run: signOut }]),
];
const commands = () => app.me && openPalette(app, settings());
byId("commands").addEventListener("click", commands);
window.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { event.preventDefault(); commands(); }
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) closePanel();
  const typing = event.target.closest("input, select, textarea, dialog");
  if (event.key === "/" && !typing && byId("search")) { event.preventDefault(); byId("search").focus(); }
  const nowhere = event.target === document.body || event.target === byId("main"); // no element that needs keys has the focus
  if (nowhere && !event.defaultPrevented && !document.querySelector("dialog[open]")) current?.view.key?.(event);
});
document.addEventListener("visibilitychange", seenOrNot);
byId("sign-out").addEventListener("click", signOut);
begin();

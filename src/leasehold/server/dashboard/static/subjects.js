// What the pages of a resource, a holder, a session and a key show, as { title, about, acts, parts, key }.

import { clear, endSession, extend, forceRelease, note, reserve, revokeKey } from "./acts.js";
import { link } from "./address.js";
import { get } from "./api.js";
import { el } from "./dom.js";
import { notHeld } from "./empty.js";
import { eventList } from "./events.js";
import { holderLink, keyLink, resourceLinks, sessionLink, spaced, traceOf } from "./naming.js";
import { table } from "./table.js";
import { left, moment, now, span } from "./times.js";

const EVENTS_OF_A_KEY = 2000; // the latest events among which those of one key are looked for

const button = (text, onclick, danger = false) => el("button", { type: "button", class: danger ? "danger" : undefined, onclick }, text);

// A text that changes as time passes.
function ticking(since) {
  return Object.assign(el("span", { data: { since: "" } }, since()), { since });
}
const heldFor = (at) => ticking(() => span(now() - Date.parse(at)));
const timeLeft = (at) => ticking(() => (Date.parse(at) > now() ? left(Date.parse(at) - now()) : "over"));

const LEASES = ["Resource", "Holder", "Host", "Work", "Reason", { text: "Held for", number: true }, { text: "Left", number: true }, "Mode", { text: "Fence", number: true }, "Trace", "Session", "Key", ""];
const WAITS = ["Holder", "Resource", { text: "Waiting for", number: true }, "Work", "Reason"];

// `own`: whose page it is; a column that would say the same in every row is left out.
function leaseTable(app, leases, empty, own = "") {
  const may = app.me.can.includes("force_release");
  const acts = (lease) => may && [button("Extend", () => extend(lease)), " ", button("Force-release", () => forceRelease(lease), true)];
  return table("Leases", LEASES, leases.map((it) => [
    resourceLinks(it.resources, it.space), own === "holder" || own === "session" ? "" : holderLink(it.holder, it.space), it.host ?? "", it.name ?? "", it.reason ?? "", heldFor(it.acquired_at), timeLeft(it.expires_at),
    it.mode, String(it.fence), traceOf(it.trace), own === "session" ? "" : sessionLink(it.session, it.space) ?? "", own === "key" ? "" : keyLink(it.key) ?? "", acts(it) || ""]), empty);
}

function waitTable(waits) {
  return table("Waiting requests", WAITS, waits.map((it) => [
    holderLink(it.holder, it.space), resourceLinks(it.resources, it.space), heldFor(it.since), it.name ?? "", it.reason ?? ""]), "No request waits.");
}

const waitsOf = (app, fits) => (app.live?.graph?.waits ?? []).filter(fits);
const inSpace = (space) => (it) => !space || it.space === space;
const ids = (items) => items.map((each) => [each.id, each.expires_at]);
const seqs = (events) => events.map((each) => each.seq);

async function resource(app, name, space, again) {
  const [seen, told, noted] = await Promise.all([
    get("/v1/inspect", { resource: name, space }), get("/v1/history", { resource: name, space, limit: 60 }), get("/v1/history", { resource: name, space, kind: "noted", limit: 1 })]);
  const latest = noted.events[0];
  const text = latest?.detail.note ?? null;
  const closed = seen.closed ?? [];
  const waiting = seen.waiting.map((each) => ({ ...each, space }));
  const state = closed.length ? "closed after an unclean end" : seen.leases.length ? "held" : "free";
  return {
    title: spaced(name, space), key: [ids(seen.leases), ids(waiting), closed, seqs(told.events), latest?.seq],
    about: [["State", state], ["Note", text && `${text} (${latest.detail.by}, ${moment(Date.parse(latest.at))})`], ["Space", space],
      ["Look at", [el("a", { href: link("history", "", { resource: name, span: "1 day" }) }, "its history"), ", ", el("a", { href: link("audit", "", { text: name }) }, "what admins did to it")]]],
    acts: [
      app.me.can.includes("acquire") && button("Reserve for me …", () => reserve(app.me, name, space).finally(again)),
      app.me.can.includes("note") && button(text ? "Change the note …" : "Add a note …", () => note(name, space, text).finally(again)),
      app.me.can.includes("clear") && closed.length > 0 && button("Clear …", () => clear({ ...closed[0], space }).finally(again), true)],
    parts: [
      ["Held by", leaseTable(app, seen.leases, notHeld(name, space))],
      [`Queue (${waiting.length})`, waitTable(waiting)],
      closed.length > 0 && ["Closed", table("Closures", ["Left by", "Work", "Since"], closed.map((it) => [holderLink(it.holder, space), it.name ?? "", moment(Date.parse(it.since))]))],
      ["Lately", eventList(told.events)]],
  };
}

async function holder(app, name, space) {
  const [held, sessions, told] = await Promise.all([get("/v1/leases", { holder: name, space }), get("/v1/sessions", { space }), get("/v1/history", { holder: name, space, limit: 60 })]);
  const own = sessions.sessions.filter((each) => each.holder === name);
  const waits = waitsOf(app, (it) => it.holder === name && inSpace(space)(it));
  const keys = [...new Set([...held.leases, ...own].map((each) => each.key).filter(Boolean))];
  return {
    title: name, key: [ids(held.leases), waits.map((each) => each.id), ids(own), seqs(told.events)],
    about: [["Space", space ?? "all"], ["Key", keys.map((each) => keyLink(each))], ["Last seen", told.events[0] && moment(Date.parse(told.events[0].at))],
      ["Look at", el("a", { href: link("history", "", { holder: name, span: "1 day" }) }, "its history")]],
    acts: [],
    parts: [["Holds", leaseTable(app, held.leases, "It holds no lease.", "holder")], [`Waits for (${waits.length})`, waitTable(waits)],
      ["Sessions", sessionTable(own)], ["Lately", eventList(told.events)]],
  };
}

function sessionTable(sessions) {
  return table("Sessions", ["Session", "Holder", "Name", "Began", { text: "Left", number: true }, "Key"], sessions.map((it) => [
    sessionLink(it.id, it.space), holderLink(it.holder, it.space), it.name ?? "", moment(Date.parse(it.started_at)), timeLeft(it.expires_at), keyLink(it.key) ?? ""]), "No session is live.");
}

async function session(app, id, space, again) {
  const [listed, held] = await Promise.all([get("/v1/sessions", { space }), get("/v1/leases", { space })]);
  const own = held.leases.filter((each) => each.session === id);
  const found = listed.sessions.find((each) => each.id === id);
  const name = found?.holder ?? own[0]?.holder;
  const told = (await get("/v1/history", { space, holder: name, limit: 500 })).events.filter((each) => each.session === id);
  return {
    title: id, key: [found?.expires_at, ids(own), seqs(told)],
    about: [["State", found ? "live" : "over"], ["Holder", name && holderLink(name, found?.space ?? space)], ["Name", found?.name], ["Began", found && moment(Date.parse(found.started_at))],
      ["Ends", found && moment(Date.parse(found.expires_at))], ["Principal", found?.principal], ["Key", keyLink(found?.key)], ["Space", found?.space ?? space]],
    acts: [found && app.me.can.includes("force_release") && button("End …", () => endSession(found).finally(again), true)],
    parts: [["Holds", leaseTable(app, own, "It holds no lease.", "session")], ["Lately", eventList(told)]],
  };
}

async function key(app, id, _space, again) {
  const [listed, held, sessions, told] = await Promise.all([get("/v1/keys"), get("/v1/leases"), get("/v1/sessions"), get("/v1/history", { limit: EVENTS_OF_A_KEY })]);
  const found = listed.keys.find((each) => each.id === id);
  const own = held.leases.filter((each) => each.key === id);
  const did = told.events.filter(({ detail }) => detail.key === id || detail.by_key === id || detail.id === id);
  return {
    title: found ? found.name : id, key: [found, ids(own), seqs(did)],
    about: [["Key", id], ["State", found ? "valid" : "revoked or expired"], ["Role", found?.role], ["Space", found?.space], ["Names", found && (found.prefixes.join(" ") || "all")],
      ["Created", found && moment(Date.parse(found.created_at))], ["Until", found?.until && moment(Date.parse(found.until))], ["Principal", found?.principal],
      ["Last used", did[0] && moment(Date.parse(did[0].at))]],
    acts: [found && button("Revoke …", () => revokeKey(found).finally(again), true)],
    parts: [["Holds", leaseTable(app, own, "No lease was acquired with it.", "key")], ["Sessions", sessionTable(sessions.sessions.filter((each) => each.key === id))],
      ["Lately", eventList(did)]],
  };
}

export const SUBJECTS = { resource, holder, session, key };

// Actions of admins, each with a reason and a confirmation. The server decides whether they are allowed.

import { get, post, Refusal } from "./api.js";
import { confirm, tellOnce, toast } from "./dialog.js";
import { named, spaced } from "./naming.js";

const OTHERS_MOST = 5; // so many are named, the rest are counted
const inSpace = (space) => (space === "default" ? "" : ` in ${space}`);
const about = (lease) => `${lease.holder} holds ${lease.resources.join(" + ")}${lease.name ? ` (${lease.name})` : ""}${inSpace(lease.space)}.`;

export function forceRelease(lease) {
  return confirm({
    title: "Force-release this lease?",
    says: [about(lease), "It ends now. Its holder learns it within a second, or with its next call, and may be at work until then."],
    action: "Force-release",
    run: async ({ reason }) => {
      const told = await post("/v1/force-release", { target: lease.id, reason, space: lease.space });
      toast(told.released ? `Released ${named(lease.resources, lease.space)}` : `It was over already: ${told.reason}`);
      return told;
    },
  });
}

// Taking over names the resources: it ends every lease that is in the way there, not only this one.
async function inTheWay(lease) {
  const seen = await Promise.all(lease.resources.map((resource) => get("/v1/inspect", { resource, space: lease.space })));
  return new Map(seen.flatMap((each) => each.leases).map((each) => [each.id, each]));
}

export async function steal(lease) {
  const meant = await inTheWay(lease).catch((error) => toast(error.message, "bad"));
  if (!meant) return;
  if (!meant.has(lease.id)) return toast(`${lease.holder}'s lease is over: there is nothing to take over`, "bad");
  const others = [...meant.values()].filter((each) => each.id !== lease.id);
  const told = await confirm({
    title: "Take over this lease?",
    says: [about(lease), ...others.slice(0, OTHERS_MOST).map((each) => `Ends as well: ${about(each)}`),
      others.length > OTHERS_MOST && `Ends as well: ${others.length - OTHERS_MOST} more leases that are in the way.`,
      "Its lease ends and yours begins, in one step. Waiting requests go on waiting."],
    fields: [{ name: "holder", label: "New holder", hint: "The holder from now on; you, if left empty.", required: false },
      { name: "ttl", label: "For how many seconds", value: "1800", type: "number" }],
    action: "Take over",
    run: async ({ reason, holder, ttl }) => {
      // The server takes over every lease that it finds by then, so check right before: no lease may end that was not named here.
      const found = await inTheWay(lease);
      if (!found.has(lease.id)) throw new Refusal(410, { detail: `${lease.holder}'s lease is over by now. Nothing was done: check again who holds it.` });
      const newcomer = [...found.values()].find((each) => !meant.has(each.id));
      if (newcomer) throw new Refusal(409, { detail: `Meanwhile ${about(newcomer)} Nothing was done: check again.` });
      return post("/v1/steal", { resources: lease.resources, reason, ttl_seconds: Number(ttl), space: lease.space, ...(holder ? { holder } : {}) });
    },
  });
  if (told?.token) {
    tellOnce({ title: "It is yours", says: `Lease ${told.lease.id}, fence ${told.lease.fence}. Its token is shown here and nowhere else:`, secret: told.token });
  }
}

export function extend(lease) {
  return confirm({
    title: "Give this lease more time?",
    says: [about(lease), "From now on it has a full TTL of the length below. Its holder needs to do nothing."],
    fields: [{ name: "ttl", label: "For how many minutes", value: "60", type: "number" }],
    action: "Extend",
    danger: false,
    run: async ({ reason, ttl }) => {
      const told = await post("/v1/extend", { lease: lease.id, ttl_seconds: Number(ttl) * 60, reason });
      toast(`Extended ${named(lease.resources, lease.space)}`);
      return told;
    },
  });
}

// A lease by hand, for a person who needs the thing for a while.
export async function reserve(me, resource, space) {
  const told = await confirm({
    title: `Reserve ${spaced(resource, space)}?`,
    says: ["You hold it until the time is over or somebody releases it. Agents that want it see your name and your reason."],
    fields: [me.open && { name: "holder", label: "Your name" }, { name: "ttl", label: "For how many minutes", value: "60", type: "number" }].filter(Boolean),
    action: "Reserve",
    danger: false,
    run: ({ reason, holder, ttl }) => post("/v1/acquire", { resources: resource, holder: holder ?? me.name, name: "reserved by hand", reason, ttl_seconds: Number(ttl) * 60, space }),
  });
  if (told?.token) tellOnce({ title: `${resource} is yours`, says: `Lease ${told.lease.id}, fence ${told.lease.fence}. To release it from a terminal you need its token, which is shown here and nowhere else:`, secret: told.token });
}

export function note(resource, space, before) {
  return confirm({
    title: `Note on ${spaced(resource, space)}`,
    says: ["Everybody who looks at this resource sees the note, with your name. An empty note removes the one before."],
    fields: [{ name: "text", label: "Note", value: before ?? "", required: false }],
    reason: false,
    action: "Save",
    danger: false,
    run: async ({ text }) => {
      await post("/v1/notes", { resource, space, ...(text ? { text } : {}) });
      toast(text ? "Noted" : "Removed the note");
      return { text };
    },
  });
}

export function clear(closed) {
  return confirm({
    title: "Open this resource again?",
    says: [`${closed.resource}${inSpace(closed.space)} is closed since ${closed.holder} ended uncleanly.`, "Check what was left half-done first: the next holder will not know."],
    action: "Clear it",
    run: async ({ reason }) => {
      const told = await post("/v1/clear", { resource: closed.resource, reason, space: closed.space });
      toast(told.cleared ? `${closed.resource} is open again` : "There was nothing to clear");
    },
  });
}

export function endSession(session) {
  return confirm({
    title: "End this session?",
    says: [`${session.holder}${session.name ? ` (${session.name})` : ""}${inSpace(session.space)}: all that it holds is released, and it leaves every queue.`],
    action: "End it",
    run: async ({ reason }) => {
      const told = await post("/v1/sessions/end", { session: session.id, space: session.space, reason });
      toast(told.ended ? `Ended; released ${told.released.length}` : "It had ended before");
    },
  });
}

const FIRST = "There are no keys yet, and every program on this machine may use this server. From the first key on, every caller needs one, you and every agent too: create an admin's key first.";

export async function createKey(isFirst) {
  const told = await confirm({
    title: "Create a key",
    says: [isFirst && FIRST, "Its owner may do what its role allows."],
    fields: [{ name: "name", label: "Whose", hint: "The history shows the actions of an admin under this name." },
      { name: "role", label: "Role", options: ["viewer", "agent", "admin"], value: isFirst ? "admin" : "viewer" },
      { name: "space", label: "Space", value: "default" },
      { name: "prefixes", label: "Only names that begin with", hint: "Several with blanks between them; empty: every name.", required: false }],
    action: "Create",
    danger: false,
    run: ({ name, role, space, prefixes, reason }) => post("/v1/keys", { name, role, space, prefixes: prefixes.split(/\s+/).filter(Boolean), reason }),
  });
  if (told?.credential) {
    tellOnce({ title: `The key of ${told.key.name}`, says: "It is shown here and never again. Send it to its owner on a secure channel:", secret: told.credential });
  }
}

export function revokeKey(key) {
  return confirm({
    title: "Revoke this key?",
    says: [`${key.name} (${key.role}, ${key.space}) stops working within a second.`],
    action: "Revoke",
    run: async ({ reason }) => {
      const told = await post("/v1/keys/revoke", { id: key.id, reason });
      toast(told.revoked ? `Revoked the key of ${key.name}` : "There was no such key any more");
    },
  });
}

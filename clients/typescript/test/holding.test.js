import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";

import { Locks } from "@leasehold/client";
import { serving, until } from "./serving.js";

let server;
let locks;
before(async () => {
  server = await serving("--rate", "0");
  locks = new Locks(server.url, { holder: "ann" });
});
after(() => server.stop());

/** A client whose connection can be cut, and which remembers what it asked. */
function cuttable(holder) {
  const told = { isCut: false, asked: [] };
  const cutting = (url, given) => {
    told.asked.push(new URL(url).pathname);
    return told.isCut ? Promise.reject(new TypeError("cut")) : fetch(url, given);
  };
  return [new Locks(server.url, { holder, fetch: cutting }), told];
}

/** A client that is granted everything, for a minute; `before` is called before each grant. */
function answered(before) {
  const asked = [];
  const lease = { id: "l1", ttl_seconds: 60, expires_in_seconds: 60 };
  const fetching = async (url) => {
    asked.push(new URL(url).pathname.split("/").at(-1));
    if (asked.at(-1) === "acquire") before();
    return Response.json({ lease, token: "t", released: true });
  };
  return [new Locks(server.url, { fetch: fetching }), asked];
}

async function ends(resource) {
  return (await locks.history({ resource, kind: ["released"] })).map(({ detail }) => [detail.status, detail.error]);
}

test("what a session's end cuts short is renewed in time, and its loss is told", async () => {
  const { credential } = await locks.startSession({ ttl_seconds: 6 });
  const [eve, told] = cuttable("eve");
  let isRenewed = false;
  const working = eve.withLock({ resources: "short", ttl_seconds: 600, session: credential }, async (_lease, signal) => {
    await until(() => told.asked.includes("/v1/renew")); // at a third of 600 s, nobody would wait for it
    isRenewed = true;
    await locks.endSession(credential);
    if (!signal.aborted) await once(signal, "abort");
  });
  await assert.rejects(working, { code: "lost" });
  assert.ok(isRenewed);
});

test("who finds at the end that the lease was gone is not told that all is well", async () => {
  const working = locks.withLock({ resources: "gone", ttl_seconds: 600 }, async () => {
    await locks.request("POST /v1/force-release", { body: { target: "gone", reason: "hotfix", by: "ops" } });
    return "done";
  });
  await assert.rejects(working, (error) => error.code === "lost" && /forced by ops: hotfix/.test(error.message));
});

test("who waited renews before it begins: nobody told it when it was granted", async (t) => {
  const begun = performance.now();
  let waited = 0;
  t.mock.method(performance, "now", () => begun + waited);
  const [bob, asked] = answered(() => { waited += 30_000; });
  assert.equal(await bob.withLock({ resources: "x", wait_seconds: 60 }, () => asked.join(" ")), "healthz acquire renew");
  assert.equal(await answered(() => {})[0].withLock({ resources: "x" }, () => "at once"), "at once");
});

test("the history tells how the work ended", async () => {
  const red = new TypeError("red");
  await assert.rejects(locks.withLock({ resources: "red" }, () => { throw red; }), red);
  assert.deepEqual(await ends("red"), [["failed", "TypeError: red"]]);
  const gone = new AbortController();
  const stopped = locks.withLock({ resources: "stopped" }, async (_lease, signal) => {
    gone.abort(new Error("enough"));
    signal.throwIfAborted();
  }, { signal: gone.signal });
  await assert.rejects(stopped, /enough/);
  assert.deepEqual(await ends("stopped"), [["cancelled", "Error: enough"]]);
  await locks.withLock({ resources: "green" }, () => "done");
  assert.deepEqual(await ends("green"), [["completed", null]]);
});

test("a release that fails does not hide what the work threw, and is told after work that went well", async () => {
  const [cid, told] = cuttable("cid");
  const failing = cid.withLock({ resources: "hidden", ttl_seconds: 600 }, () => {
    told.isCut = true;
    throw new Error("the reason");
  });
  await assert.rejects(failing, /the reason/);
  told.isCut = false;
  const working = cid.withLock({ resources: "unreleased", ttl_seconds: 600 }, () => { told.isCut = true; });
  await assert.rejects(working, (error) => error.code === "unreachable" && /the work is done/.test(error.message));
});

test("of blocks inside each other, the last one gives the lease back", async () => {
  const asked = { resources: "nested", ttl_seconds: 600 };
  await locks.withLock(asked, async (outer, _signal, token) => {
    await locks.withLock({ ...asked, reentrant: true, token }, (inner) => assert.equal(inner.id, outer.id));
    assert.equal((await locks.inspect("nested")).free, false);
  });
  assert.equal((await locks.inspect("nested")).free, true);
});

test("many renewals leave nothing behind", async (t) => {
  const warnings = [];
  const note = (warning) => warnings.push(warning.message);
  process.on("warning", note);
  const later = globalThis.setTimeout;
  t.mock.method(globalThis, "setTimeout", (work, _milliseconds, ...given) => later(work, 1, ...given));
  const [dan, asked] = answered(() => {});
  await dan.withLock({ resources: "x" }, () => until(() => asked.filter((verb) => verb === "renew").length > 12));
  process.off("warning", note);
  assert.deepEqual(warnings, []);
});

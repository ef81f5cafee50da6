import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { LeaseholdError, Locks } from "@leasehold/client";
import { serving, until } from "./serving.js";

let server;
let locks;
before(async () => {
  server = await serving("--keep-open", "200ms", "--rate", "0");
  locks = new Locks(server.url, { holder: "ann" });
});
after(() => server.stop());

test("a lease from acquire to release", async () => {
  const got = await locks.acquire({ resources: "issue:1", ttl_seconds: 60, context: { step: 1 } });
  assert.equal(got.ok, true);
  assert.equal(got.lease.holder, "ann");
  const proof = { lease: got.lease.id, token: got.token };
  assert.equal((await locks.renew({ ...proof, ttl_seconds: 90 })).lease.ttl_seconds, 90);
  assert.deepEqual((await locks.update({ ...proof, context: { b: 2 }, merge: true })).lease.context, { step: 1, b: 2 });
  assert.deepEqual((await locks.inspect("issue:1")).leases.map((lease) => lease.id), [got.lease.id]);
  assert.ok((await locks.list({ resource: "issue:1" })).length === 1);
  assert.equal((await locks.release(proof)).released, true);
  assert.equal((await locks.release(proof)).released, false);
  assert.equal((await locks.renew(proof)).code, "lost");
  assert.ok((await locks.history({ resource: "issue:1", kind: ["granted", "released"] })).length === 2);
});

test("a refusal is a value that says who has it", async () => {
  await locks.acquire({ resources: "held", name: "fix the parser" });
  const no = await locks.acquire({ resources: "held", holder: "bob" });
  assert.equal(no.ok, false);
  assert.equal(no.code, "held");
  assert.equal(no.holders[0].holder, "ann");
  assert.equal(no.holders[0].name, "fix the parser");
  const late = await locks.acquire({ resources: "held", holder: "bob", wait_seconds: 0.05 });
  assert.equal(late.code, "timeout");
});

test("a wait goes on with a ticket, in the same place, until it is served", async () => {
  let tickets = 0;
  const counting = async (...asked) => {
    const reply = await fetch(...asked);
    tickets += reply.status === 202;
    return reply;
  };
  const first = await locks.acquire({ resources: "long", ttl_seconds: 60 });
  const bob = new Locks(server.url, { holder: "bob", fetch: counting });
  const waiting = bob.acquire({ resources: "long", wait_seconds: 60 });
  await until(() => tickets >= 3);
  assert.equal((await locks.inspect("long")).waiting.length, 1);
  await locks.release({ lease: first.lease.id, token: first.token });
  const got = await waiting;
  assert.equal(got.ok, true);
  assert.ok(got.lease.fence > first.lease.fence);
});

test("who is aborted leaves the queue and holds nothing", async () => {
  const first = await locks.acquire({ resources: "aborted" });
  const gone = new AbortController();
  const waiting = locks.acquire({ resources: "aborted", holder: "bob", wait_seconds: 60 }, { signal: gone.signal });
  await until(async () => (await locks.inspect("aborted")).waiting.length === 1);
  gone.abort(new Error("changed my mind"));
  await assert.rejects(waiting, /changed my mind/);
  await until(async () => (await locks.inspect("aborted")).waiting.length === 0);
  await locks.release({ lease: first.lease.id, token: first.token });
  assert.equal((await locks.inspect("aborted")).free, true);
});

test("agents that poll are told of a deadlock", async () => {
  await locks.acquire({ resources: "fork-1", holder: "dan" });
  await locks.acquire({ resources: "fork-2", holder: "eve" });
  await locks.acquire({ resources: "fork-2", holder: "dan", intent: true });
  const no = await locks.acquire({ resources: "fork-1", holder: "eve", intent: true });
  assert.deepEqual(no.cycle, ["eve", "fork-1", "dan", "fork-2"]);
});

test("a broken connection is asked again, and gets the same lease", async () => {
  let broken = 0;
  const flaky = async (...asked) => {
    const reply = await fetch(...asked);
    if (broken++ < 2) throw new TypeError("fetch failed");
    return reply;
  };
  const client = new Locks(server.url, { holder: "flaky", fetch: flaky });
  const got = await client.acquire({ resources: "flaky", ttl_seconds: 60 });
  assert.equal(got.ok, true);
  assert.equal((await locks.history({ resource: "flaky", kind: ["granted"] })).length, 1);
  broken = 1;
  assert.equal((await client.release({ lease: got.lease.id, token: got.token })).released, true);
});

test("a wait whose end was not heard is a timeout all the same", async () => {
  await locks.acquire({ resources: "unheard" });
  let heard = 0;
  const deaf = async (...asked) => {
    const reply = await fetch(...asked);
    if (heard++ === 0) throw new TypeError("fetch failed");
    return reply;
  };
  const bob = new Locks(server.url, { holder: "bob", fetch: deaf });
  const late = await bob.acquire({ resources: "unheard", wait_seconds: 0.05 });
  assert.deepEqual([late.ok, late.code, heard], [false, "timeout", 2]);
});

test("withLock holds, renews and releases", async () => {
  let seen;
  const result = await locks.withLock({ resources: "work", ttl_seconds: 3 }, async (lease, signal) => {
    seen = lease.fence;
    const end = lease.expires_at;
    await until(async () => (await locks.inspect("work")).leases[0].expires_at > end);
    assert.equal(signal.aborted, false);
    return "done";
  });
  assert.equal(result, "done");
  assert.ok(seen > 0);
  assert.equal((await locks.inspect("work")).free, true);
  await assert.rejects(locks.withLock({ resources: "held", holder: "bob" }, () => "never"), { code: "held" });
  await assert.rejects(locks.withLock({ resources: "work" }, () => { throw new Error("red"); }), /red/);
  assert.equal((await locks.inspect("work")).free, true);
});

test("withLock tells the work that the lease was taken away", async () => {
  const working = locks.withLock({ resources: "stolen", ttl_seconds: 3 }, async (_lease, signal) => {
    await locks.request("POST /v1/force-release", { body: { target: "stolen", reason: "hotfix", by: "ops" } });
    await until(() => signal.aborted);
    return "too late";
  });
  await assert.rejects(working, (error) => error.code === "lost" && /forced by ops: hotfix/.test(error.message));
});

test("sessions", async () => {
  const { credential } = await locks.startSession({ ttl_seconds: 60 });
  await locks.acquire({ resources: "of-a-session", session: credential });
  assert.equal((await locks.renewSession(credential)).leases.length, 1);
  assert.deepEqual((await locks.endSession(credential)).released, ["of-a-session"]);
  assert.equal((await locks.renewSession(credential)).code, "lost");
});

test("what cannot be asked, or broke, is thrown with a code", async () => {
  for (const ttl_seconds of ["abc", 0, -1, 1e12]) {
    await assert.rejects(locks.acquire({ resources: "x", ttl_seconds }), { code: "invalid" });
  }
  await assert.rejects(locks.acquire({ resources: "a\nb" }), (error) => error instanceof LeaseholdError && error.code === "invalid");
  await assert.rejects(locks.request("GET /v1/nowhere"), { code: "not_found", status: 404 });
  assert.throws(() => new Locks("ftp://x"), { code: "invalid", field: "url" });
});

test("a server that is not there is unreachable", async () => {
  const nobody = new Locks("http://127.0.0.1:9", { fetch: async () => { throw new TypeError("refused"); } });
  await assert.rejects(nobody.list(), { code: "unreachable" });
});

test("all of a wait is asked for: the server would take a part of it for the whole", async () => {
  const asked = [];
  const listening = async (_url, { body }) => {
    if (body) asked.push(JSON.parse(body).wait_seconds); // before that it asked whether anybody is there
    return Response.json({ code: "deadlock", detail: "no" }, { status: 409 });
  };
  await new Locks(server.url, { fetch: listening }).acquire({ resources: "x", wait_seconds: 3600 });
  assert.equal(Math.round(asked[0]), 3600);
});

test("a server that says nothing is soon given up, by name", async () => {
  let asked = 0;
  const silent = async () => {
    asked += 1;
    throw new DOMException("The operation was aborted due to timeout", "TimeoutError");
  };
  const nobody = new Locks("http://127.0.0.1:9", { fetch: silent });
  await assert.rejects(nobody.list(), { code: "unreachable", message: /127\.0\.0\.1:9.*timeout/ });
  assert.equal(asked, 2);
});

test("who waits long asks first whether anybody is there", async () => {
  const asked = [];
  const silent = async (url) => {
    asked.push(new URL(url).pathname);
    throw new DOMException("The operation was aborted due to timeout", "TimeoutError");
  };
  const waiting = new Locks("http://127.0.0.1:9", { fetch: silent }).acquire({ resources: "x", wait_seconds: 600 });
  await assert.rejects(waiting, { code: "unreachable" });
  assert.deepEqual(asked, ["/healthz", "/healthz"]); // each of them for 15 s, where a wait would be given 65
  const heard = [];
  const answering = async (url) => {
    heard.push(new URL(url).pathname);
    return Response.json({ code: "deadlock", detail: "no" }, { status: 409 });
  };
  const client = new Locks("http://127.0.0.1:9", { fetch: answering });
  for (const wait_seconds of [1, 600]) await client.acquire({ resources: "x", wait_seconds });
  assert.deepEqual(heard, ["/v1/acquire", "/v1/acquire"]); // it was just heard of
});

test("an answer that never ends is given up like silence", async () => {
  const fetching = async () => {
    const stuck = new ReadableStream({ start: (it) => it.enqueue(new TextEncoder().encode('{"lea')) });
    return new Response(stuck, { headers: { "content-type": "application/json" } });
  };
  const locks = new Locks(server.url, { fetch: fetching });
  const stopped = new AbortController();
  const listing = locks.list({}, { signal: stopped.signal });
  setImmediate(() => stopped.abort(new Error("enough")));
  await assert.rejects(listing, /enough/);
});

test("work is told of a loss before the lease may be another's", async () => {
  let isCut = false;
  const cutting = (...asked) => (isCut ? Promise.reject(new TypeError("cut")) : fetch(...asked));
  const locks = new Locks(server.url, { holder: "cut", fetch: cutting });
  let isLate = false;
  const working = locks.withLock({ resources: "cut off", ttl_seconds: 2 }, async (_lease, signal) => {
    isCut = true;
    const timer = setTimeout(() => { isLate = true; }, 2_300); // of two timers, the earlier one comes first
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    clearTimeout(timer);
  });
  await assert.rejects(working, (error) => error.code === "lost");
  assert.equal(isLate, false);
});

test("a release that was only put off is told once", async () => {
  let isBusy = false;
  const putOff = async (...asked) => {
    if (!isBusy) return fetch(...asked);
    isBusy = false;
    return Response.json({ code: "rate_limited", detail: "slow down" }, { status: 429 });
  };
  const locks = new Locks(server.url, { holder: "busy", fetch: putOff });
  const { lease, token } = await locks.acquire({ resources: "put off" });
  assert.equal((await locks.release({ lease: lease.id, token })).released, true);
  isBusy = true;
  assert.equal((await locks.release({ lease: lease.id, token })).released, false);
});

test("what is paused or too much is a value, at once", async () => {
  for (const [code, status] of [["paused", 409], ["too_many", 429]]) {
    const locks = new Locks(server.url, { fetch: async () => Response.json({ code, detail: "not now" }, { status }) });
    assert.equal((await locks.acquire({ resources: "x" })).code, code);
  }
});

test("a route that does not answer in JSON gives its text, and what is no server is told so", async () => {
  assert.match(await new Locks(server.url).request("GET /metrics"), /leasehold_grants_total/);
  for (const [status, why] of [[404, /not JSON/], [502, /a proxy answered 502 instead of the server/]]) {
    const page = new Locks(server.url, { fetch: async () => new Response("<h1>No</h1>", { status }) });
    await assert.rejects(page.list(), (error) => error.code === "unreachable" && why.test(error.message));
  }
});

/** A client that is answered from a list, and remembers where it asked. That somebody is there, it is always told. */
function scripted(url, ...answers) {
  const asked = [];
  const fetching = async (where) => {
    if (new URL(where).pathname === "/healthz") return Response.json({ status: "ok" });
    asked.push(new URL(where).host);
    const answer = answers.shift() ?? Response.json({ leases: [] });
    if (answer instanceof Error) throw answer;
    return answer;
  };
  return [new Locks(url, { fetch: fetching }), asked];
}

const refused = () => new TypeError("fetch failed", { cause: Object.assign(new Error("no"), { code: "ECONNREFUSED" }) });
const cut = () => new TypeError("fetch failed", { cause: new Error("other side closed") });

test("of several servers, the next one is asked when one is not there or goes away", async () => {
  const away = Response.json({ code: "closed", detail: "bye" }, { status: 503 });
  const [client, asked] = scripted("http://a:1,http://b:2", refused(), away);
  assert.deepEqual(await client.list(), []);
  assert.deepEqual(asked, ["a:1", "b:2", "a:1"]);
  await client.list();
  assert.deepEqual(asked.slice(3), ["a:1"]); // it begins where it was answered
  assert.throws(() => new Locks("http://a:1,nonsense"), { code: "invalid", field: "url" });
});

test("a server without a port is where it listens if nobody says otherwise", async () => {
  for (const [url, host] of [
    ["http://a", "a:7420"],
    ["http://a/behind/", "a:7420"],
    ["http://[::1]", "[::1]:7420"],
    ["http://a:80", "a"],
    ["http://a:80/behind", "a"],
    ["http://a:8080", "a:8080"],
    ["https://a", "a"],
  ]) {
    const [client, asked] = scripted(url);
    await client.list();
    assert.deepEqual(asked, [host], url);
  }
});

test("what would happen twice is sent again only if it did not happen", async () => {
  const made = () => Response.json({ key: {}, credential: "lh_x" });
  for (const [route, body] of [
    ["POST /v1/keys", { role: "viewer", name: "x" }],
    ["POST /v1/steal", { resources: "x", reason: "y" }],
    ["POST /v1/force-release", { target: "x", reason: "y" }],
    ["POST /v1/acquire", { resources: "x" }],
  ]) {
    const [lost, askedOnce] = scripted(server.url, cut(), made());
    await assert.rejects(lost.request(route, { body }), { code: "outcome_unknown" });
    assert.equal(askedOnce.length, 1, route);
    const [unsent, asked] = scripted(server.url, refused(), made());
    await unsent.request(route, { body });
    assert.equal(asked.length, 2, route);
  }
  const [safe, asked] = scripted(server.url, cut(), made());
  await safe.request("POST /v1/force-release", { body: { target: `l7-${"0".repeat(32)}`, reason: "y" } });
  assert.equal(asked.length, 2);
});

test("a release that was not sent the first time is told as it is", async () => {
  const gone = () => Response.json({ lease: "l1", released: false, reason: "released", resources: [] });
  const [unsent] = scripted(server.url, refused(), gone());
  assert.equal((await unsent.release({ lease: "l1", token: "t" })).released, false);
  const [lost] = scripted(server.url, cut(), gone());
  assert.equal((await lost.release({ lease: "l1", token: "t" })).released, true);
});

test("a wait that gets on is not given up for what went wrong before", async () => {
  const ticket = () => Response.json({ ticket: "t", queue: {}, holders: [], retry_after_seconds: 0 }, { status: 202 });
  const [client, asked] = scripted(
    server.url, ...Array.from({ length: 9 }, () => [cut(), ticket()]).flat(), Response.json({ lease: {}, token: "t" }),
  );
  assert.equal((await client.acquire({ resources: "x", wait_seconds: 600 })).ok, true);
  assert.equal(asked.length, 19);
});

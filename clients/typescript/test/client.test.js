import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Leasehold, LeaseholdError } from "@leasehold/client";
import { serving, until } from "./serving.js";

let server;
let client;
before(async () => {
  server = await serving("--keep-open", "200ms", "--rate", "0");
  client = new Leasehold(server.url, { holder: "ann" });
});
after(() => server.stop());

test("names are in camelCase, and a context keeps its own", async () => {
  const got = await client.acquire({ resources: "names", ttl: "1m", context: { own_name: { of_it: 1 } }, onExpiry: "free" });
  assert.equal(got.ok, true);
  assert.equal(got.lease.ttlSeconds, 60);
  assert.deepEqual(got.lease.context, { own_name: { of_it: 1 } });
  const no = await client.acquire({ resources: "names", holder: "bob" });
  assert.deepEqual([no.ok, no.code, no.holders[0].holder], [false, "held", "ann"]);
  assert.ok(no.retryAfterSeconds > 0);
  const proof = { lease: got.lease.id, token: got.token };
  assert.equal((await client.renew({ ...proof, ttl: 90 })).lease.ttlSeconds, 90);
  assert.equal((await client.release(proof)).released, true);
});

test("a lock is released at the end of its block, and a failure is in the history", async () => {
  const held = await client.lock("block", { ttl: "10m" });
  held.ensure();
  assert.equal((await client.inspect("block")).leases[0].id, held.lease.id);
  await held[Symbol.asyncDispose]();
  assert.deepEqual((await client.inspect("block")).leases, []);
  await (await client.lock("block", { ttl: "10m" })).fail(new Error("it broke"));
  const [released] = await client.history({ resource: "block", kind: ["released"] });
  assert.deepEqual([released.detail.status, released.detail.error], ["failed", "Error: it broke"]);
});

test("a lock that is refused throws, and one that is lost tells by its signal", async () => {
  const kept = await client.lock("kept", { ttl: "10m" });
  await assert.rejects(client.lock("kept", { holder: "bob" }), { code: "held" });
  await kept.release();
  const held = await client.lock("lost", { ttl: "300ms" });
  const request = { method: "POST", headers: { "content-type": "application/json" } };
  await fetch(`${server.url}/v1/force-release`, { ...request, body: JSON.stringify({ target: "lost", reason: "test" }) });
  await until(() => held.signal.aborted);
  assert.throws(() => held.ensure(), { code: "lost" });
  await assert.rejects(held.release(), LeaseholdError);
});

test("a call that takes too long, or is aborted, is given up and holds nothing", async () => {
  const silent = new Leasehold(server.url, { holder: "bob", timeout: 1, fetch: (_, { signal }) => new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
  }) });
  await assert.rejects(silent.inspect("x"), { name: "TimeoutError" });
  await assert.rejects(silent.lock("x"), { name: "TimeoutError" });
  const first = await client.lock("aborted", { ttl: "10m" });
  const stop = new AbortController();
  const waiting = client.lock("aborted", { wait: "10m", holder: "bob", signal: stop.signal });
  await until(async () => (await client.inspect("aborted")).waiting.length === 1);
  stop.abort(new Error("never mind"));
  await assert.rejects(waiting, { message: "never mind" });
  await until(async () => (await client.inspect("aborted")).waiting.length === 0);
  await first.release();
});

test("events come live, and again from where one was", async () => {
  const stop = new AbortController();
  const seen = [];
  const watching = (async () => {
    for await (const event of client.events({ resource: "watched", signal: stop.signal })) seen.push(event);
  })();
  await until(async () => {
    await (await client.lock("watched")).release();
    return seen.length >= 2;
  });
  stop.abort(new Error("seen enough"));
  await assert.rejects(watching, { message: "seen enough" });
  assert.deepEqual(seen.slice(0, 2).map((event) => event.kind), ["granted", "released"]);
  for await (const event of client.events({ resource: "watched", lastEventId: seen[0].seq })) {
    assert.equal(event.seq, seen[1].seq);
    break;
  }
});

test("a duration that means nothing is refused before anything is sent", async () => {
  for (const ttl of ["", "5", "m", "1x", "-1s"]) await assert.rejects(client.acquire({ resources: "x", ttl }), TypeError);
  await assert.throws(() => client.lock("x", { ttl: "soon" }), TypeError);
});

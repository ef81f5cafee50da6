import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { FlowLockService, Locks } from "@leasehold/client";
import { serving, until } from "./serving.js";

const LONG = 60_000;
let server;
let lockSvc;
before(async () => {
  server = await serving("--rate", "0");
  lockSvc = new FlowLockService(server.url);
});
after(() => server.stop());

test("the example of the interface", async () => {
  const context = { services: { flowLock: lockSvc } };
  const svc = context.services?.flowLock;
  const done = [];
  const { acquired, lockId } = await svc.acquire("my-resource", 5000, 10000);
  if (!acquired) throw new Error("Could not acquire lock — timed out waiting");
  try {
    done.push("critical section");
  } finally {
    assert.deepEqual(await svc.release("my-resource", lockId), { released: true });
  }
  assert.deepEqual(done, ["critical section"]);
});

test("acquire and release can be passed on by themselves", async () => {
  const { acquire, release } = lockSvc;
  const { lockId } = await acquire("passed-on", LONG, 0);
  assert.deepEqual(await release("passed-on", lockId), { released: true });
});

test("a lock that expired is released as false, and its successor's is not touched", async () => {
  const lost = await lockSvc.acquire("entity-7", 50, 0);
  const got = await lockSvc.acquire("entity-7", LONG, LONG);
  assert.equal(got.acquired, true);
  assert.deepEqual(await lockSvc.release("entity-7", lost.lockId), { released: false });
  assert.deepEqual(await lockSvc.release("entity-7", got.lockId), { released: true });
  assert.deepEqual(await lockSvc.release("entity-7", got.lockId), { released: false });
});

test("a wait that is exceeded is not acquired", async () => {
  await lockSvc.acquire("busy", LONG, 0);
  assert.deepEqual(await lockSvc.acquire("busy", LONG, 50), { acquired: false, lockId: "" });
  assert.deepEqual(await lockSvc.acquire("busy", LONG, 0), { acquired: false, lockId: "" });
});

test("an id opens the lock of its own key only", async () => {
  const one = await lockSvc.acquire("one", LONG, 0);
  assert.deepEqual(await lockSvc.release("two", one.lockId), { released: false });
  for (const junk of ["", "x", "..", "l1-0.a.b", undefined, 7]) {
    assert.deepEqual(await lockSvc.release("one", junk), { released: false });
  }
  assert.equal((await lockSvc.acquire("one", LONG, 0)).acquired, false);
});

test("a TTL is required and never 0", async () => {
  for (const ttl of [0, -1, 1e12, Number.NaN, Infinity, "abc", undefined]) {
    await assert.rejects(lockSvc.acquire("k", ttl, 0), { code: "invalid", field: "lockTtlMs" });
  }
  await assert.rejects(lockSvc.acquire("k", LONG, -1), { code: "invalid", field: "waitTimeoutMs" });
  await assert.rejects(lockSvc.acquire(7, LONG, 0), { code: "invalid", field: "lockKey" });
});

test("any string is a key", async () => {
  for (const key of [" ", "a\nb", "path:src", "repo:x", "//Host/x", "\ud800", "x".repeat(5000), "'; DROP TABLE"]) {
    const { acquired, lockId } = await lockSvc.acquire(key, LONG, 0);
    assert.equal(acquired, true);
    assert.equal((await lockSvc.acquire(key, LONG, 0)).acquired, false);
    assert.deepEqual(await lockSvc.release(key, lockId), { released: true });
  }
});

test("flows in a circle are told at once", async () => {
  const [one, two] = [lockSvc.of("flow-1"), lockSvc.of("flow-2")];
  const a = await one.acquire("a", LONG, 0);
  const b = await two.acquire("b", LONG, 0);
  const waiting = one.acquire("b", LONG, LONG);
  const locks = new Locks(server.url);
  await until(async () => (await locks.inspect("flow:b")).waiting.length === 1);
  assert.deepEqual(await two.acquire("a", LONG, 5_000_000), { acquired: false, lockId: "" });
  await two.release("b", b.lockId);
  assert.equal((await waiting).acquired, true);
  await one.release("a", a.lockId);
});

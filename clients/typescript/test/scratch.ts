// A program of somebody who installed the package, compiled under strict settings. `tests/project/test_typescript.py` runs it.

import { Leasehold, LeaseholdError, type Camel, type HeldLease } from "@leasehold/client";
import type { Lease } from "@leasehold/client/openapi";

const client = new Leasehold(process.argv[2] ?? "", { holder: "scratch", timeout: 30_000 });

async function deploy(): Promise<number> {
  await using held: HeldLease = await client.lock("deploy://api", { ttl: "10m", name: "deploy" });
  held.ensure();
  const lease: Camel<Lease> = held.lease;
  const ttl: number = lease.ttlSeconds;
  return ttl;
}

async function main(): Promise<void> {
  const ttl = await deploy();
  const outcome = await client.acquire({ resources: ["deploy://api"], ttl: "10m" });
  if (!outcome.ok) throw new Error(outcome.holders?.[0]?.holder ?? outcome.code);
  const released: boolean = (await client.release({ lease: outcome.lease.id, token: outcome.token })).ok;
  const error: unknown = await client.lock("", {}).catch((thrown: unknown) => thrown);
  console.log(JSON.stringify({ ttl, released, code: error instanceof LeaseholdError ? error.code : "" }));
}

// @ts-expect-error there is no such option
void (() => client.lock("x", { ttlSeconds: 5 }));

void main();

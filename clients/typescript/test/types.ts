// Never run: it only has to type-check, as a program of ours and as one of FireFlow's would be written.

import { FlowLockService, Locks, type Lease } from "@leasehold/client";

/** As the page of FireFlow has it. */
interface IFlowLockService {
  acquire: (lockKey: string, lockTtlMs: number, waitTimeoutMs: number) => Promise<{ acquired: boolean; lockId: string }>;
  release: (lockKey: string, lockId: string) => Promise<{ released: boolean }>;
}

const service: IFlowLockService = new FlowLockService("http://127.0.0.1:7420", { apiKey: "lh_0_0" });
const { acquired, lockId } = await service.acquire("my-resource", 5000, 10000);
const { released }: { released: boolean } = await service.release("my-resource", lockId);

const locks = new Locks("http://127.0.0.1:7420", { holder: "ci-7" });
const outcome = await locks.acquire({ resources: ["path:src", "path:docs"], ttl_seconds: 60 });
if (outcome.ok) {
  const lease: Lease = outcome.lease;
  const fence: number = lease.fence;
  await locks.release({ lease: lease.id, token: outcome.token });
  void fence;
} else {
  const holder: string | undefined = outcome.holders?.[0]?.holder;
  void [outcome.code, holder];
}
const length: number = await locks.withLock({ resources: "x" }, (lease, signal) => (signal.aborted ? 0 : lease.id.length));
const run = await locks.request("POST /v1/workflows", { body: { name: "deploy", work_unit: "7" } });
const status: "running" | "completed" | "failed" | "cancelled" | "expired" = run.workflow.status;

// @ts-expect-error a lease needs something to be a lease on
await locks.acquire({ ttl_seconds: 60 });
// @ts-expect-error there is no such route
await locks.request("GET /v1/nowhere");
// @ts-expect-error a stream has no answer that one could wait for
await locks.request("GET /v1/events");
// @ts-expect-error a refusal has no token
void (await locks.acquire({ resources: "x" })).token;

void [acquired, released, length, status];

"""From Python: one process, so many tasks on one client object, each system by the client that its users have.

``python -m benchmarks.from_python TARGET TASKS SECONDS`` prints what it saw as JSON. Ours is `leasehold.aconnect`, that
of Redis is redis-py's asyncio `Lock`, that of etcd its v3 lock service over grpc.aio. All of them run on uvloop.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import random
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import uvloop

import leasehold
from benchmarks.generator import spread
from benchmarks.wires import TTL, lease_request, lock_request, locked_key, target_of, unlock_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from benchmarks.wires import Target

    Cycle = Callable[[int, str], Awaitable[float]]
    """By a task of this number, on this name; how long the acquire took."""


@asynccontextmanager
async def by_leasehold(target: Target, _tasks: int) -> AsyncIterator[Cycle]:
    os.environ["LEASEHOLD_API_KEY"] = target.key
    async with await leasehold.aconnect(f"http://{target.host}:{target.port}") as locks:

        async def cycle(task: int, name: str) -> float:
            begun = time.perf_counter()
            granted = await locks.acquire(name, ttl=TTL, holder=f"h{task}")
            took = time.perf_counter() - begun
            assert isinstance(granted, leasehold.Granted), granted
            released = await locks.release(granted.lease.id, granted.token)
            assert isinstance(released, leasehold.Released), released
            assert released.released
            return took

        yield cycle


@asynccontextmanager
async def by_redis(target: Target, tasks: int) -> AsyncIterator[Cycle]:
    from redis.asyncio import Redis  # noqa: PLC0415 (each process needs one of these)

    client = Redis(host=target.host, port=target.port, max_connections=tasks)

    async def cycle(_task: int, name: str) -> float:
        begun = time.perf_counter()
        lock = client.lock(name, timeout=TTL, blocking=False)
        assert await lock.acquire()
        took = time.perf_counter() - begun
        await lock.release()
        return took

    yield cycle
    await client.aclose()


@asynccontextmanager
async def by_etcd(target: Target, tasks: int) -> AsyncIterator[Cycle]:
    grpc: Any = importlib.import_module("grpc.aio")  # it has no types

    async with grpc.insecure_channel(f"{target.host}:{target.port}") as channel:
        lock = channel.unary_unary("/v3lockpb.Lock/Lock")
        unlock = channel.unary_unary("/v3lockpb.Lock/Unlock")
        leases = [int.from_bytes(os.urandom(7), "big") | 1 for _ in range(tasks)]
        for lease in leases:
            await channel.unary_unary("/etcdserverpb.Lease/LeaseGrant")(lease_request(lease))

        async def cycle(task: int, name: str) -> float:
            begun = time.perf_counter()
            key = locked_key(await lock(lock_request(name.encode(), leases[task])))
            took = time.perf_counter() - begun
            await unlock(unlock_request(key))
            return took

        yield cycle


WAYS = {"leasehold": by_leasehold, "redis": by_redis, "etcd": by_etcd}


async def cycles(target: Target, tasks: int, seconds: float) -> dict[str, object]:
    """Acquire and release, each task on names of its own."""
    tag = f"{random.getrandbits(32):08x}"
    acquires: list[float] = []
    async with WAYS[target.kind](target, tasks) as cycle:
        begun = time.perf_counter()

        async def one(task: int) -> None:
            count = 0
            while time.perf_counter() - begun < seconds:
                count += 1
                acquires.append(await cycle(task, f"task-{tag}-{task}-{count}"))

        await asyncio.gather(*(one(task) for task in range(tasks)))
        took = time.perf_counter() - begun
    return {"cycles": len(acquires), "seconds": took, "acquire": spread(acquires)}


def main() -> None:
    target, tasks, seconds = sys.argv[1:]
    print(json.dumps(uvloop.run(cycles(target_of(target), int(tasks), float(seconds)))))


if __name__ == "__main__":
    main()

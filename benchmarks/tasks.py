"""One process with so many tasks on `leasehold.aconnect`, straight on a store: beside what else a program could use.

``python -m benchmarks.tasks URL TASKS SECONDS [SPACE …]`` prints what it saw as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import TYPE_CHECKING

import uvloop

import leasehold
from benchmarks.generator import spread

if TYPE_CHECKING:
    from collections.abc import Sequence


async def cycles(url: str, tasks: int, seconds: float, spaces: Sequence[str] = ("default",)) -> dict[str, object]:
    """Acquire and release, each task on names of its own."""
    tag = f"{random.getrandbits(32):08x}"
    acquires: list[float] = []
    async with await leasehold.aconnect(url) as locks:
        begun = time.perf_counter()

        async def one(task: int) -> None:
            count, holder, space = 0, f"h{task}", spaces[task % len(spaces)]
            while time.perf_counter() - begun < seconds:
                count += 1
                asked = time.perf_counter()
                granted = await locks.acquire(f"task-{tag}-{task}-{count}", ttl=60, holder=holder, space=space)
                acquires.append(time.perf_counter() - asked)
                assert isinstance(granted, leasehold.Granted), granted
                released = await locks.release(granted.lease.id, granted.token)
                assert isinstance(released, leasehold.Released)
                assert released.released

        await asyncio.gather(*(one(task) for task in range(tasks)))
        took = time.perf_counter() - begun
    return {"cycles": len(acquires), "seconds": took, "acquire": spread(acquires)}


def main() -> None:
    url, tasks, seconds, *spaces = sys.argv[1:]
    print(json.dumps(uvloop.run(cycles(url, int(tasks), float(seconds), spaces or ("default",)))))


if __name__ == "__main__":
    main()

"""One of many processes that take one name in turn: ``python -m benchmarks.turn_taker URL NUMBER ROUNDS``.

It says `ready`, waits for a line, takes its turns, and prints as JSON when it had the lease and how much processor time
that took, in seconds.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import leasehold
from leasehold.domain.outcomes import Granted

LONG = 600
WARM = 2


def processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def take(locks: leasehold.Locks, name: str) -> tuple[float, float]:
    """Take the name and release it; return when it was granted and when the release began."""
    granted = locks.acquire(name, ttl=LONG, wait=LONG)
    if not isinstance(granted, Granted):
        raise TypeError(f"expected a lease, got {granted!r}")
    had = time.monotonic()
    if name == "warm":
        time.sleep(0.002)  # the others queue meanwhile, and load what waiting needs
    until = time.monotonic()
    locks.release(granted.lease.id, granted.token)
    return had, until


def main(url: str, number: str, rounds: str) -> None:
    with leasehold.connect(url, holder=f"taker-{number}") as locks:
        for _ in range(WARM):
            take(locks, "warm")
        print("ready", flush=True)
        sys.stdin.readline()
        used = processor_time()
        turns = [take(locks, "hot") for _ in range(int(rounds))]
        print(json.dumps({"turns": turns, "processor": processor_time() - used}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

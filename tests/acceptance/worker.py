"""One of the processes that compete: takes leases, works in the critical section, writes down what it saw.

It touches a counter that nothing protects but the lease: two at once, and a count is lost.
"""

from __future__ import annotations

import faulthandler
import json
import random
import sys
import time
from pathlib import Path

import leasehold
from leasehold.domain.outcomes import Granted, Released
from leasehold.stores.sqlite import SqliteStore

PATIENCE = 300
"""A wait that ends only if something is wrong."""


def plan(kind: str, chance: random.Random, number: int) -> tuple[list[str], str]:
    """What the next lease is for: which resources, in which order, and how."""
    if kind == "pairs":
        return (["a", "b"] if (number + chance.randrange(2)) % 2 else ["b", "a"]), "exclusive"
    if kind == "mixed":
        return ["a"], "shared" if chance.random() < 0.6 else "exclusive"
    return ["a"], "exclusive"


def count(folder: Path, resources: list[str], mode: str) -> None:
    """Read, and if we are alone write one more: as unprotected as a counter can be."""
    for resource in resources:
        file = folder / f"counter-{resource}"
        before = int(file.read_text())
        if mode == "exclusive":
            file.write_text(str(before + 1))
        elif int(file.read_text()) != before:
            raise AssertionError("somebody wrote while we were reading")


def work(locks: leasehold.Locks, folder: Path, kind: str, rounds: int, number: int) -> list[dict[str, object]]:
    """So many critical sections, one after the other."""
    chance = random.Random(number)
    seen: list[dict[str, object]] = []
    for _ in range(rounds):
        resources, mode = plan(kind, chance, number)
        granted = locks.acquire(resources, ttl=PATIENCE, wait=PATIENCE, mode=mode)
        if not isinstance(granted, Granted):
            raise TypeError(f"expected a lease, got {granted!r}")
        start = time.monotonic_ns()
        count(folder, resources, mode)
        end = time.monotonic_ns()
        released = locks.release(granted.lease.id, granted.token)
        if not isinstance(released, Released) or not released.released:
            raise AssertionError(f"lost its lease: {released!r}")
        told = {"start": start, "end": end, "fence": granted.lease.fence, "mode": mode}
        seen += [{**told, "resource": resource} for resource in resources]
    return seen


def main(url: str, place: str, kind: str, rounds: str, number: str, poll_ms: str, patience: str) -> None:
    """Get ready, wait for the start, work, and tell; or where each thread stands, if it takes for ever."""
    faulthandler.dump_traceback_later(float(patience), exit=True)
    # How often a process looks whether it was served decides how long this takes, and nothing else.
    SqliteStore.capabilities = SqliteStore.capabilities._replace(poll=int(poll_ms) * 1000)
    with leasehold.connect(url, holder=f"worker {number}") as locks:
        print("ready", flush=True)
        sys.stdin.readline()
        seen = work(locks, Path(place), kind, int(rounds), int(number))
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

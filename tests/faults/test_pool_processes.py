"""Many processes that share a pool: no value twice at once, and none lost after kills."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasehold.locks.sync import Locks

PROVE = bool(os.environ.get("LEASEHOLD_PROVE"))
PROCESSES, VALUES, ROUNDS = (200, 100, 10) if PROVE else (10, 4, 3)
PATIENCE = 900 if PROVE else 120
PROGRAM = Path(__file__).with_name("pool_taker.py")


def test_no_value_is_given_twice_and_none_is_lost(url: str, locks: Locks, tmp_path: Path) -> None:
    pool, folder = f"pool://ports/1-{VALUES}", tmp_path / "values"
    folder.mkdir()
    with ExitStack() as stack:
        words = [sys.executable, str(PROGRAM), url, pool, str(folder), str(ROUNDS)]
        processes = [
            stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, text=True)) for _ in range(PROCESSES)
        ]
        for process in processes:
            stack.callback(process.kill)
        for process in processes[::5]:
            assert process.stdout is not None
            process.stdout.readline()
            process.kill()
        said = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    assert "twice" not in "".join(said)
    fences = [int(line.split()[2]) for each in said for line in each.splitlines()]
    assert len(set(fences)) == len(fences)
    assert all(each.count("took") == ROUNDS for place, each in enumerate(said) if place % 5)
    got = [locks.acquire(pool, ttl=60, wait=60) for _ in range(VALUES)]
    assert all(got), "a value of a killed process comes back with the end of its lease"
    assert not locks.acquire(pool, ttl=60)


def test_a_member_of_a_large_pool_costs_little_more_than_a_name(locks: Locks) -> None:
    """At most three times the processor time, with 900 of 1,000 members held; judged with the long settings only."""
    pool = "pool://large/1-1000"
    for _ in range(900 if PROVE else 30):
        assert locks.acquire(pool, ttl=600)
    took: dict[str, list[float]] = {pool: [], "plain": []}
    for _ in range(200 if PROVE else 10):
        for name, times in took.items():
            begun = time.process_time()
            got = locks.acquire(name, ttl=600)
            times.append(time.process_time() - begun)
            assert got
            locks.release(got)
    if PROVE:
        assert statistics.median(took[pool]) <= 3 * statistics.median(took["plain"]), took

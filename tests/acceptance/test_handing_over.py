"""Hand-over between processes on one SQLite file: by a wake-up alone, in order, and without one by the poll."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import leasehold
from leasehold.domain.leases import Inspection
from leasehold.domain.outcomes import Granted
from leasehold.stores.sqlite import SqliteStore
from leasehold.testing.conformance.asking import until
from leasehold.testing.processes import ProcessLocks, in_a_process

if TYPE_CHECKING:
    from pathlib import Path

    from leasehold.locks.sync import Locks

PATIENCE = 60.0
HOURS = 3_600 * 1_000_000
NEVER = SqliteStore.capabilities._replace(poll=10 * HOURS, beat=10 * HOURS)
"""Neither polls nor heartbeats, which check the queue as well: only a wake-up serves a waiter."""


def deaf_to_time(url: str, holder: str, threaded: bool = True) -> Locks:
    """Locks that learn of their grant by a wake-up, or never."""
    SqliteStore.capabilities = NEVER
    return leasehold.connect(url, holder=holder, threaded=threaded)


def dying(url: str, holder: str) -> Locks:
    """Locks whose process is killed after the commit of a release, before it wakes the next waiter."""

    def die(*_: object) -> None:
        os._exit(9)

    SqliteStore.wake = die  # type: ignore[assignment, method-assign]
    return leasehold.connect(url, holder=holder)


def take(locks: Locks, wait: float = 0) -> Granted:
    outcome = locks.acquire("hot", ttl=3_600, wait=wait)
    assert isinstance(outcome, Granted), outcome
    return outcome


def waiting(locks: Locks) -> int:
    seen = locks.inspect("hot")
    assert isinstance(seen, Inspection)
    return len(seen.waiting)


def served_in_order(url: str, threaded: bool) -> None:
    """One process after the other queues; each is served by the release before it, in that order."""
    with leasehold.connect(url, holder="first") as locks, ThreadPoolExecutor(3) as pool:
        held = take(locks)
        others: list[ProcessLocks] = []
        try:
            answers = []
            for place in range(3):
                others.append(in_a_process(deaf_to_time, url, f"w{place}", threaded))
                answers.append(pool.submit(take, others[place], 3_600))
                until(lambda place=place: waiting(locks) == place + 1, "it waits")  # type: ignore[misc]
            assert locks.release(held.lease.id, held.token)
            for place in range(3):
                served = answers[place].result(PATIENCE)
                assert not any(answer.done() for answer in answers[place + 1 :])
                assert others[place].release(served.lease.id, served.token)
        finally:
            for other in others:
                other.kill()


def test_only_wake_ups_hand_over_and_in_order(tmp_path: Path) -> None:
    served_in_order(f"sqlite://{tmp_path}/locks.db", threaded=True)


def test_one_shot_commands_are_woken_as_well(tmp_path: Path) -> None:
    served_in_order(f"sqlite://{tmp_path}/locks.db", threaded=False)


def test_the_end_of_a_wait_is_told_at_once_as_well(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/locks.db"
    with leasehold.connect(url, holder="first") as locks, ThreadPoolExecutor(1) as pool:
        take(locks)
        other = in_a_process(deaf_to_time, url, "w")
        try:
            answer = pool.submit(other.acquire, "hot", ttl=3_600, wait=3_600, request_id="r")
            until(lambda: waiting(locks) == 1, "it waits")
            killer = in_a_process(leasehold.connect, url, holder="w")
            killer.cancel("r")
            killer.close()
            assert not isinstance(answer.result(PATIENCE), Granted)
        finally:
            other.kill()


def test_a_releaser_that_dies_before_it_wakes_delays_by_a_poll_only(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/locks.db"
    with leasehold.connect(url, holder="waiter") as locks, ThreadPoolExecutor(2) as pool:
        releaser = in_a_process(dying, url, "releaser")
        held = take(releaser)
        answer = pool.submit(take, locks, 3_600)
        until(lambda: waiting(locks) == 1, "it waits")
        gone = pool.submit(releaser.release, held.lease.id, held.token)
        assert answer.result(PATIENCE)
        assert isinstance(gone.exception(PATIENCE), leasehold.Unreachable)
        releaser.kill()


def test_a_killed_waiter_leaves_nothing_that_keeps_the_next_one_waiting(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/locks.db"
    with leasehold.connect(url, holder="first") as locks, ThreadPoolExecutor(2) as pool:
        held = take(locks)
        dead = in_a_process(leasehold.connect, url, holder="dead")
        alive = in_a_process(leasehold.connect, url, holder="alive")
        try:
            pool.submit(take, dead, 3_600)
            until(lambda: waiting(locks) == 1, "the first waits")
            answer = pool.submit(take, alive, 3_600)
            until(lambda: waiting(locks) == 2, "both wait")
            dead.kill()
            assert locks.release(held.lease.id, held.token)
            assert answer.result(PATIENCE)
        finally:
            dead.kill()
            alive.kill()

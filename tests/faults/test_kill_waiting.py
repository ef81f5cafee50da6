"""A process that is killed or stopped while it waits or holds: never two holders, and the queue moves on."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.domain.outcomes import Granted, Held, Lost, Renewed, TimedOut
from leasehold.engine.waiters import BEATS
from leasehold.errors import Unreachable
from leasehold.stores.sqlite import SqliteStore
from leasehold.testing.checker import check
from leasehold.testing.conformance.asking import (
    Asking,
    expect,
    holders_of,
    inspection,
    leases_of,
    queue_of,
    release,
    take,
    until,
    wait_for,
)
from leasehold.testing.processes import ProcessLocks, in_a_process
from tests.faults.scene import history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leasehold.locks.sync import Locks

LIFE = BEATS * SqliteStore.capabilities.beat
"""For so long a process's waiters count as alive after each heartbeat."""


@pytest.fixture
def locks(url: str) -> Iterator[Locks]:
    with leasehold.connect(url, holder="here") as opened:
        yield opened


@pytest.fixture
def process(url: str) -> Iterator[Callable[[str], ProcessLocks]]:
    """Starts processes; each is ended by its id, also if it is stopped."""
    started: list[ProcessLocks] = []

    def start(holder: str) -> ProcessLocks:
        started.append(in_a_process(leasehold.connect, url, holder=holder))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@contextmanager
def stopped(process: ProcessLocks, locks: Locks) -> Iterator[None]:
    """Stopped by SIGSTOP, but not in the middle of a commit: that would stop everybody, and rightly so."""
    os.kill(process.pid, signal.SIGSTOP)
    while not _commits(locks):
        os.kill(process.pid, signal.SIGCONT)
        release(locks, take(locks, "at last", mode="shared"))
        os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def _commits(locks: Locks) -> bool:
    """Whether a commit is possible, or the process that was stopped has the turn."""
    commit = Asking(lambda: release(locks, take(locks, "is a commit possible", mode="shared")))
    commit.wait(2.0)
    return commit.is_over


def _check(locks: Locks, gone: str, since: int) -> None:
    """Nobody was passed but the waiters of this holder's process, from then on; nothing overlapped."""
    events = history(locks)
    engines = {str(event.detail["engine"]) for event in events if event.kind == "queued" and event.holder == gone}
    assert check(events, dead_engines=dict.fromkeys(engines, since)) == []


class TestKilled:
    @pytest.mark.parametrize("at_once", [True, False])
    def test_while_waiting(self, locks: Locks, process: Callable[[str], ProcessLocks], at_once: bool) -> None:
        ghost = process("ghost")
        held = take(locks, "r")
        lost = wait_for(ghost, "r")
        behind = wait_for(locks, "r", holder="behind")
        since = inspection(locks, "r").now_us
        ghost.kill()
        with pytest.raises(Unreachable):
            lost.answer()
        if not at_once:
            until(lambda: queue_of(locks, "r") == ["behind"], "the dead have left the queue")
        release(locks, held)
        granted = expect(Granted, behind.answer())
        assert [lease.id for lease in leases_of(locks)] == [granted.lease.id]
        assert queue_of(locks, "r") == []
        _check(locks, "ghost", since)

    def test_while_holding(self, locks: Locks, process: Callable[[str], ProcessLocks]) -> None:
        ghost = process("ghost")
        lease = take(ghost, "r", ttl=2).lease
        ghost.kill()
        assert expect(Held, locks.acquire("r", ttl=60)).blockers[0].holder == "ghost"
        granted = expect(Granted, locks.acquire("r", ttl=60, wait=60))
        assert granted.lease.fence > lease.fence
        assert granted.lease.acquired_us >= lease.expires_us

    def test_while_waiting_behind_others_that_are_killed_as_well(
        self, locks: Locks, process: Callable[[str], ProcessLocks]
    ) -> None:
        held = take(locks, "r")
        ghosts = [process(f"ghost {place}") for place in range(3)]
        for ghost in ghosts:
            wait_for(ghost, "r")
        last = wait_for(process("survivor"), "r")
        for ghost in ghosts:
            ghost.kill()
        release(locks, held)
        assert expect(Granted, last.answer()).lease.holder == "survivor"


class TestStopped:
    def test_while_waiting_and_served_when_it_goes_on(
        self, locks: Locks, process: Callable[[str], ProcessLocks]
    ) -> None:
        sleeper = process("sleeper")
        held = take(locks, "r")
        late = wait_for(sleeper, "r")
        behind = wait_for(locks, "r", holder="behind")
        since = inspection(locks, "r").now_us
        with stopped(sleeper, locks):
            until(lambda: queue_of(locks, "r") == ["behind"], "the sleeper counts as gone")
            release(locks, held)
            passed = expect(Granted, behind.answer())
        until(lambda: queue_of(locks, "r") == ["sleeper"], "the sleeper is back in the queue")
        assert not late.is_over
        assert holders_of(locks, "r") == ["behind"]
        release(locks, passed)
        granted = expect(Granted, late.answer())
        assert granted.lease.fence > passed.lease.fence
        expect(Renewed, sleeper.renew(granted.lease.id, granted.token))
        _check(locks, "sleeper", since)

    def test_while_waiting_beyond_its_deadline(self, locks: Locks, process: Callable[[str], ProcessLocks]) -> None:
        sleeper = process("sleeper")
        take(locks, "r")
        late = wait_for(sleeper, "r", wait=2)
        deadline = inspection(locks, "r").waiting[0].deadline_us
        with stopped(sleeper, locks):
            until(lambda: inspection(locks, "r").now_us > deadline + LIFE, "its time is over, and its presence too")
        expect(TimedOut, late.answer())
        assert queue_of(locks, "r") == []
        assert holders_of(locks, "r") == ["here"]

    def test_in_the_moment_of_its_grant(self, locks: Locks, process: Callable[[str], ProcessLocks]) -> None:
        sleeper = process("sleeper")
        held = take(locks, "r")
        late = wait_for(sleeper, "r")
        since = inspection(locks, "r").now_us
        with stopped(sleeper, locks):
            release(locks, held)
            passed = expect(Granted, locks.acquire("r", ttl=60, wait=60, holder="behind"))
        until(lambda: queue_of(locks, "r") == ["sleeper"], "the sleeper is back in the queue")
        assert not late.is_over
        assert holders_of(locks, "r") == ["behind"]
        release(locks, passed)
        expect(Granted, late.answer())
        _check(locks, "sleeper", since)

    def test_while_holding_beyond_its_ttl(self, locks: Locks, process: Callable[[str], ProcessLocks]) -> None:
        sleeper = process("sleeper")
        mine = take(sleeper, "r", ttl=1)
        with stopped(sleeper, locks):
            other = expect(Granted, locks.acquire("r", ttl=60, wait=60))
        assert expect(Lost, sleeper.renew(mine.lease.id, mine.token)).reason == "expired"
        sleeper.release(mine.lease.id, mine.token)
        assert [lease.id for lease in leases_of(locks, resource="r")] == [other.lease.id]

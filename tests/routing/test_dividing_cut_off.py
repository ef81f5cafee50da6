"""A change of the number of lanes on etcd is cut off: nobody uses the store until it goes on, and nothing is lost."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.config import settings
from leasehold.domain.outcomes import Held
from leasehold.errors import Conflict, StoreUnsuitable
from leasehold.locks.connect import divide
from leasehold.stores.etcd import EtcdStore, dividing
from leasehold.testing.conformance.asking import take
from tests.kit import etcd
from tests.kit.shell import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.domain.events import Event
    from leasehold.domain.leases import Lease
    from leasehold.locks.sync import Locks

SPACES = [f"team-{number}" for number in range(6)]
LARGE = "x" * 450_000
"""Larger than one value of etcd may be."""
CHILD = """
import os, sys
from leasehold.config import settings
from leasehold.locks.connect import divide
from leasehold.stores.etcd import EtcdStore, dividing

url, lanes, left = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
dividing.OPERATIONS, dividing.PAGE, ask = 6, 3, EtcdStore.txn

def txn(store, *words, changes=False):
    global left
    left -= changes
    if left < 0:
        os.kill(os.getpid(), 9)
    return ask(store, *words, changes=changes)

EtcdStore.txn = txn
divide(settings.find(url), lanes)
"""


class Killed(BaseException):
    """The process that changes the number of lanes dies here."""


class Filled:
    """A store with leases, a session, a queue and a history, as it was before the change."""

    def __init__(self, lanes: int) -> None:
        self.url = f"{etcd.empty(None)}?keep_events=100000"
        self.tokens: dict[str, str] = {}
        with leasehold.connect(f"{self.url}&lanes={lanes}", holder="ada") as locks:
            for number in range(12):
                granted = take(locks, f"r{number}", space=SPACES[number % len(SPACES)])
                self.tokens[granted.lease.id] = granted.token
            for id_ in [*self.tokens][::3]:
                assert locks.release(id_, self.tokens.pop(id_))
            self.highest = max(lease.fence for lease in held(locks).values())
            self.before, self.histories = held(locks), told(locks)

    def change(self, lanes: int) -> tuple[int, int]:
        return divide(settings.find(self.url), lanes)

    def check_is_whole(self) -> None:
        with leasehold.connect(self.url, holder="ada") as ada, leasehold.connect(self.url, holder="bob") as bob:
            assert held(bob) == self.before
            assert told(bob) == self.histories
            for id_, lease in self.before.items():
                name = lease.resources[0]
                assert isinstance(bob.acquire(name, ttl=60, space=lease.space), Held)
                assert ada.renew(id_, self.tokens[id_])
                assert ada.release(id_, self.tokens[id_])
                assert take(bob, name, space=lease.space).lease.fence > self.highest


def held(locks: Locks) -> dict[str, Lease]:
    found = locks.list()
    assert isinstance(found, tuple)
    return {lease.id: lease._replace(as_of_us=0) for lease in found}


def told(locks: Locks) -> dict[str, list[Event]]:
    found = {space: locks.history(space=space, limit=1_000) for space in SPACES}
    return {space: [event._replace(seq=0) for event in events or ()] for space, events in found.items()}


@pytest.fixture
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dividing, "OPERATIONS", 6)
    monkeypatch.setattr(dividing, "PAGE", 3)


def watch_writes(monkeypatch: pytest.MonkeyPatch, before: Callable[[], None], after: Callable[[], None]) -> None:
    """Call these around each transaction that changes something."""
    ask = EtcdStore.txn

    def txn(store: EtcdStore, *words: Any, changes: bool = False) -> Any:  # noqa: ANN401 (as the method has it)
        if changes:
            before()
        answer = ask(store, *words, changes=changes)
        if changes:
            after()
        return answer

    monkeypatch.setattr(EtcdStore, "txn", txn)


@pytest.mark.usefixtures("_small_steps")
@pytest.mark.parametrize(("lanes", "later"), [(1, 3), (3, 1), (4, 2), (2, 5)])
@pytest.mark.parametrize("dies", ["before a write", "after a write"])
def test_it_goes_on_after_a_death_at_any_write(
    monkeypatch: pytest.MonkeyPatch, lanes: int, later: int, dies: str
) -> None:
    """It dies again and again, each time one write later."""
    filled, left = Filled(lanes), [0]
    with leasehold.connect(filled.url, holder="stale") as stale:
        take(stale, "warm", space=SPACES[0])
        filled.before, filled.histories = held(stale), told(stale)
        filled.tokens |= {id_: "" for id_ in filled.before if id_ not in filled.tokens}

        def count() -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed

        deaths = 0
        with monkeypatch.context() as patched:
            watch_writes(patched, *((count, lambda: None) if dies == "before a write" else (lambda: None, count)))
            for deaths in itertools.count():
                left[0] = deaths + 1
                try:
                    assert filled.change(later)[1] == later
                    break
                except Killed:
                    left[0] = 1_000
                    if deaths in (0, 3):
                        check_is_closed(filled, stale, later)
        assert deaths > 5
        with pytest.raises(StoreUnsuitable):
            stale.acquire("warm", ttl=60, space=SPACES[0])
    check_content(filled)


def check_is_closed(filled: Filled, stale: Locks, later: int) -> None:
    """Nobody opens the store, and a process that has it open is refused in the lanes that are closed."""
    with pytest.raises(StoreUnsuitable, match=f"leasehold lanes {later}"):
        leasehold.connect(filled.url)
    with pytest.raises(StoreUnsuitable, match=f"leasehold lanes {later}"):
        filled.change(later + 1)
    with pytest.raises(StoreUnsuitable):
        stale.create_key(role="agent", name="in the control lane", space=SPACES[0])


def check_content(filled: Filled) -> None:
    with leasehold.connect(filled.url, holder="bob") as bob:
        assert held(bob) == filled.before
        assert told(bob) == filled.histories


@pytest.mark.parametrize("writes", [1, 6, 11])
def test_a_killed_command_is_repeated(writes: int) -> None:
    filled = Filled(2)
    command = [sys.executable, "-c", CHILD, filled.url, "5", str(writes)]
    done = subprocess.run(command, cwd=ROOT, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(StoreUnsuitable, match="leasehold lanes 5"):
        leasehold.connect(filled.url)
    words = [sys.executable, "-m", "leasehold.cli", "lanes", "5", "--url", filled.url]
    again = subprocess.run(words, env=os.environ, check=True, capture_output=True, text=True, timeout=120)
    assert again.stdout.startswith("5 lanes, before 2.")
    filled.check_is_whole()


@pytest.mark.usefixtures("_small_steps")
@pytest.mark.parametrize("writes", [1, 5, 12])
def test_two_commands_at_once_leave_one_that_finishes(monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    filled, left, done = Filled(2), [writes], []

    def go_first() -> None:
        left[0] -= 1
        if left[0] == 0:
            done.append(filled.change(3))

    with monkeypatch.context() as patched:
        watch_writes(patched, lambda: None, go_first)
        with pytest.raises(Conflict, match="another process"):
            filled.change(3)
    assert done == [(2, 3)]
    filled.check_is_whole()


def test_values_in_parts_go_along() -> None:
    filled = Filled(2)
    with leasehold.connect(filled.url, holder="ada") as locks:
        names = [f"large-{number}-{LARGE[:400]}" for number in range(64)]
        granted = [take(locks, names, space=space, context={"text": LARGE[:15_000]}) for space in SPACES[:4]]
        filled.before, filled.histories = held(locks), told(locks)
        filled.tokens |= {each.lease.id: each.token for each in granted}
    filled.change(5)
    check_content(filled)
    filled.change(1)
    check_content(filled)


def test_a_place_that_is_taken_is_not_overwritten() -> None:
    filled = Filled(1)
    place, _, options = filled.url.partition("?")
    with leasehold.connect(f"{place}/2?{options}", holder="eve") as other:
        granted = take(other, "theirs")
        with pytest.raises(StoreUnsuitable, match="is a store already"):
            filled.change(3)
        assert other.renew(granted.lease.id, granted.token)
    filled.check_is_whole()

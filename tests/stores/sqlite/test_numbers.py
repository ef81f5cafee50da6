"""What the database knows about itself: next fence, newest event, time. Its row says so, or its newest event."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import pytest

from leasehold.domain.entries import Drop, Put, Ref
from leasehold.stores import HistoryQuery
from leasehold.stores.sqlite import SqliteStore
from leasehold.stores.sqlite.checkup import look
from tests.kit.samples import MINUTE, FakeClock, commit, event

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def tell(store: SqliteStore, *, fences: int = 0, late: int = 0) -> None:
    """A commit as the rules make them: its events happened at its time. Or so much before it."""
    transaction = store.begin()
    told = [event("granted", at=transaction.now - late), event("released", at=transaction.now - late)]
    transaction.commit([Put("na", Ref("x"))], told, transaction.fence + fences)
    transaction.close()


def known(store: SqliteStore) -> tuple[int, int]:
    """Fence and newest event, as the store goes on from them."""
    transaction = store.begin()
    fence = transaction.fence
    transaction.close()
    commit(store, events=(event(at=1),))
    (newest,) = store.history(HistoryQuery(limit=1))
    return fence, newest.seq - 1


def more_events(store: SqliteStore) -> None:
    tell(store, fences=2)


def nothing_told(store: SqliteStore) -> None:
    commit(store, Drop("na", "x"), fences=2)


def late_events(store: SqliteStore) -> None:
    tell(store, fences=2, late=1)


@pytest.mark.parametrize("then", [more_events, nothing_told, late_events])
@pytest.mark.parametrize("again", [True, False])
def test_the_newest_of_both_counts(path: Path, then: Callable[[SqliteStore], None], again: bool) -> None:
    store, other = SqliteStore(str(path)), SqliteStore(str(path))
    tell(store, fences=3)
    then(store)
    events = 2 if then is nothing_told else 4
    assert look(str(path)).fence == 6
    store.close()
    if again:
        other.close()
        other = SqliteStore(str(path))
    assert known(other) == (6, events)
    other.close()


@pytest.mark.parametrize("late", [0, 5 * MINUTE])
def test_the_clock_goes_on_from_the_newest_of_both(path: Path, late: int) -> None:
    clock = FakeClock()
    store = SqliteStore(str(path), clock=clock)
    clock.pass_time(10 * MINUTE)
    tell(store, late=late)
    told, _ = store.read([])
    store.close()
    clock.step_wall(-60 * MINUTE)
    clock.reboot(after=0)
    store = SqliteStore(str(path), clock=clock)
    assert store.read([])[0] >= told
    store.close()


def test_numbers_survive_a_deleted_history(path: Path) -> None:
    store = SqliteStore(str(path))
    tell(store, fences=3)
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM event")
    connection.close()
    assert known(store) == (4, 2)
    store.close()


def test_numbers_outlive_a_history_that_was_forgotten(path: Path) -> None:
    store = SqliteStore(str(path))
    tell(store, fences=3)
    store.close()
    store = SqliteStore(str(path), retention_rows=0)
    assert store.prune() == 2
    store.close()
    store = SqliteStore(str(path))
    assert known(store) == (4, 2)
    store.close()

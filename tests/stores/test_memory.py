"""The smallest store: several connections to one memory, with faults on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasehold.domain.entries import EMPTY, Drop, End, Put, Ref
from leasehold.errors import Closed, OutcomeUnknown, StoreError, Unreachable
from leasehold.stores import HistoryQuery
from leasehold.stores.memory import Memory, MemoryStore
from tests.kit.samples import commit, entries, event, hold, seen

if TYPE_CHECKING:
    from leasehold.stores.protocol import Store


class Time:
    def __init__(self) -> None:
        self.now = 1_000

    def __call__(self) -> int:
        return self.now


def test_it_is_a_store() -> None:
    store: Store = MemoryStore()
    store.begin().close()


def test_connections_share_what_is_committed_and_hint_at_what_others_did() -> None:
    memory = Memory()
    ours, theirs = MemoryStore(memory), MemoryStore(memory)
    mine = hold(1, "a", now=5)
    commit(ours, Put("na", mine), Put("na", Ref("r")), fences=1)
    assert entries(theirs, "na") == seen(theirs, "na") == {mine.id: mine, "r": Ref("r")}
    assert not ours.hint()
    assert theirs.hint()
    assert not theirs.hint()
    commit(theirs, Drop("na", mine.id), Drop("na", "r"))
    assert ours.hint()
    assert memory.records == {}
    transaction = ours.begin()
    assert transaction.fence == 2
    assert transaction.load(["na"])["na"] == EMPTY
    transaction.close()


def test_nothing_happens_without_commit_or_by_an_empty_one() -> None:
    memory = Memory()
    store, other = MemoryStore(memory), MemoryStore(memory)
    transaction = store.begin()
    transaction.close()
    transaction.close()
    commit(store)
    assert not other.hint()
    with pytest.raises(StoreError, match="over"):
        transaction.commit([Put("na", Ref("x"))], [], 1)


def test_time_is_what_the_test_says_but_never_runs_backwards() -> None:
    clock = Time()
    store = MemoryStore(Memory(clock))
    assert store.read([])[0] == 1_000
    clock.now = 900
    assert commit(store) == 1_000
    clock.now = 1_100
    assert commit(store) == 1_100


def test_due_names_records_by_urgency() -> None:
    clock = Time()
    store = MemoryStore(Memory(clock))
    commit(store, Put("nb", End("e", "", 1, 1_000)), Put("na", End("e", "", 1, 500)), Put("nc", End("e", "", 1, 1_001)))
    commit(store, Put("nd", Ref("never")))
    transaction = store.begin()
    assert transaction.due(9) == ["na", "nb"]
    assert transaction.due(1) == ["na"]
    transaction.close()


def test_scan_and_history() -> None:
    store = MemoryStore(Memory(keep_events=2))
    commit(store, Put("na", Ref("x")), Put("ab", Ref("x")), events=(event(at=1), event("expired", "b", at=2)))
    commit(store, events=(event(at=3, holder="bob", lease="l1", space="x"),))
    assert [key for key, _ in store.scan("n")] == ["na"]
    assert [each.seq for each in store.history(HistoryQuery())] == [3, 2, 1]
    for query, expected in (
        (HistoryQuery(kinds=("expired",)), [2]),
        (HistoryQuery(resource="b"), [2]),
        (HistoryQuery(holder="bob", lease="l1", space="x"), [3]),
        (HistoryQuery(since=2, before=3), [2]),
        (HistoryQuery(limit=1), [3]),
    ):
        assert [each.seq for each in store.history(query)] == expected
    assert store.prune() == 1
    assert [each.seq for each in store.history(HistoryQuery())] == [3, 2]


@pytest.mark.parametrize(
    ("point", "error", "is_written"),
    [("begin", Unreachable, False), ("before_commit", StoreError, False), ("after_commit", OutcomeUnknown, True)],
)
def test_faults_strike_where_they_are_told_to(point: str, error: type[StoreError], is_written: bool) -> None:
    armed = [point]

    def fault(at: str) -> None:
        if at in armed:
            armed.remove(at)
            raise error("injected")

    store = MemoryStore(Memory(fault=fault))
    with pytest.raises(error, match="injected"):
        commit(store, Put("na", Ref("x")))
    assert entries(store, "na") == ({"x": Ref("x")} if is_written else {})  # and the turn was handed on
    assert store.hint() is False


def test_a_second_transaction_in_the_same_thread_is_refused_at_once() -> None:
    memory = Memory()
    transaction = MemoryStore(memory).begin()
    with pytest.raises(StoreError, match="already under way"):
        MemoryStore(memory).begin()
    transaction.close()


def test_a_closed_connection_says_so() -> None:
    store = MemoryStore()
    store.close()
    store.close()
    with pytest.raises(Closed, match="connect again"):
        store.begin()

"""A transaction is all or nothing, and what is remembered is what is stored."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import apsw
import pytest

from leasehold.domain.entries import EMPTY, Drop, End, Put, Ref
from leasehold.domain.timestamps import FOREVER
from leasehold.engine.engine import Engine
from leasehold.errors import Closed, StoreError
from leasehold.stores import HistoryQuery
from leasehold.stores.sqlite import AT_ONCE, SqliteStore
from leasehold.stores.sqlite.gate import Gate
from tests.engine.rig import acquire, release, take
from tests.kit.samples import commit, entries, event, hold, node, seen, waiter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from leasehold.stores.protocol import Store, Transaction


def test_it_is_a_store(store: SqliteStore) -> None:
    as_store: Store = store
    as_transaction: Transaction = as_store.begin()
    as_transaction.close()


def test_what_is_committed_is_there_and_in_the_next_process_too(store: SqliteStore, path: Path) -> None:
    mine, next_in_line = hold(1, "a", now=5), waiter(2, "a")
    commit(store, Put(node("a"), next_in_line), Put(node("a"), mine), Put(mine.actor, Ref(mine.id)))
    expected = {mine.id: mine, next_in_line.id: next_in_line}
    assert entries(store, node("a")) == expected
    store.close()
    reopened = SqliteStore(str(path))
    assert entries(reopened, node("a")) == expected
    assert entries(reopened, mine.actor) == {mine.id: Ref(mine.id)}
    reopened.close()


def test_what_is_not_there_is_empty(store: SqliteStore) -> None:
    transaction = store.begin()
    assert transaction.load(["nx"])["nx"] == EMPTY
    assert transaction.load(["nx"])["nx"] == EMPTY
    transaction.close()


@pytest.mark.parametrize("count", [1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE])
def test_many_records_are_loaded_like_one(store: SqliteStore, other: SqliteStore, count: int) -> None:
    names = [f"n{number}" for number in range(count)]
    commit(store, *(Put(name, Ref(f"{name}-{each}")) for name in names for each in "ab"))
    transaction = other.begin()
    found = transaction.load([*names, "n"])
    assert {name: set(found[name].notes) for name in names} == {name: {f"{name}-a", f"{name}-b"} for name in names}
    assert found["n"] == EMPTY
    transaction.close()


def test_asking_for_a_record_twice_gives_it_once(store: SqliteStore, other: SqliteStore) -> None:
    commit(store, Put("na", waiter(1, "a")))
    transaction = other.begin()
    assert transaction.load(["na", "na"])["na"].waiters == (waiter(1, "a"),)
    transaction.close()


def test_putting_replaces_and_dropping_names_one_entry(store: SqliteStore, other: SqliteStore) -> None:
    first, second = hold(1, "a", now=5), hold(2, "a", now=5)
    commit(store, Put("na", first), Put("na", second))
    commit(store, Put("na", first._replace(expires_at=9)), Drop("na", second.id), Drop("na", "l99"))
    for each in (store, other):
        assert entries(each, "na") == {first.id: first._replace(expires_at=9)}


def test_the_last_of_several_changes_of_an_entry_counts(store: SqliteStore, other: SqliteStore) -> None:
    commit(
        store,
        Put("na", Ref("back")),
        Drop("na", "back"),
        Put("na", Ref("back")),
        Put("na", Ref("gone")),
        Drop("na", "gone"),
    )
    for each in (store, other):
        assert entries(each, "na") == {"back": Ref("back")}


def test_large_batches_have_nothing_prepared_again(path: Path) -> None:
    opened: list[apsw.Connection] = []
    apsw.connection_hooks.append(opened.append)
    try:
        store = SqliteStore(str(path))
    finally:
        apsw.connection_hooks.remove(opened.append)
    prepared = []
    for number in range(8):
        puts = [Put(f"n{each}", Ref(f"x{number}")) for each in range(100)]
        drops = [Drop(f"n{each}", f"x{number - 1}") for each in range(100)]
        commit(store, *puts, *drops, events=tuple(event(at=number) for _ in range(50)), fences=1)
        prepared.append(opened[0].cache_stats()["misses"])
    store.close()
    assert prepared[-1] == prepared[1]


def test_closing_without_commit_changes_nothing(store: SqliteStore, other: SqliteStore) -> None:
    transaction = store.begin()
    transaction.load(["na"])
    transaction.close()
    transaction.close()
    assert not other.hint()
    assert entries(other, "na") == {}


def test_a_commit_of_nothing_writes_nothing(store: SqliteStore, other: SqliteStore) -> None:
    commit(store)
    assert not other.hint()
    commit(store, fences=1)
    assert other.hint()


def test_numbers_go_on_and_survive(store: SqliteStore, path: Path) -> None:
    first = store.begin()
    first.commit([], [], first.fence + 5)
    first.close()
    second = store.begin()
    assert second.fence == first.fence + 5
    second.close()
    store.close()
    reopened = SqliteStore(str(path))
    third = reopened.begin()
    assert third.fence == second.fence
    third.close()
    reopened.close()


def test_a_commit_of_another_connection_is_seen(store: SqliteStore, other: SqliteStore) -> None:
    mine = hold(1, "a", now=5)
    assert entries(store, "na") == {}  # remembered: nothing is there
    commit(other, Put("na", mine), fences=1)
    assert entries(store, "na") == {mine.id: mine}
    commit(other, Drop("na", mine.id))
    assert entries(store, "na") == {}
    transaction = store.begin()
    assert transaction.fence == 2
    transaction.close()


def test_pruning_does_not_hide_what_another_connection_wrote(store: SqliteStore, other: SqliteStore) -> None:
    assert entries(store, "na") == {}
    commit(other, Put("na", Ref("new")))
    store.prune()
    assert entries(store, "na") == {"new": Ref("new")}


def test_a_small_memory_forgets_but_does_not_err(path: Path) -> None:
    store = SqliteStore(str(path), cache_records=4)
    for number in range(20):
        commit(store, Put(f"n{number}", Ref("x")))
    for number in range(20):
        assert entries(store, f"n{number}") == {"x": Ref("x")}
    transaction = store.begin()
    assert len(transaction.load([f"n{number}" for number in range(20)])) >= 20
    transaction.close()
    store.close()


def test_a_failure_in_the_middle_of_a_commit_undoes_all_of_it(store: SqliteStore) -> None:
    commit(store, Put("na", Ref("before")))
    transaction = store.begin()
    transaction.load(["na"])
    with pytest.raises(TypeError):
        transaction.commit([Put("na", Ref("after"))], [event(detail={"x": object()})], transaction.fence + 1)
    transaction.close()
    assert entries(store, "na") == {"before": Ref("before")}
    assert store.history(HistoryQuery()) == []
    commit(store, Put("na", Ref("later")), fences=1)
    assert set(entries(store, "na")) == {"before", "later"}


@pytest.fixture
def gate(store: SqliteStore, path: Path) -> Iterator[Gate]:
    """Where another process would stand."""
    assert store.capabilities.name == "sqlite"
    gate = Gate(f"{path}.gate")
    yield gate
    gate.close()


def marked(gate: Gate) -> int:
    """The first fence that was not given out, as the gate knows it."""
    mark = gate.mark()
    assert mark is not None
    return mark.fence


def test_after_a_commit_it_is_our_turn_until_it_is_closed(store: SqliteStore, gate: Gate) -> None:
    transaction = store.begin()
    transaction.commit([Put("na", Ref("x"))], [], transaction.fence + 5)
    assert set(seen(store, "na")) == {"x"}, "but it is there already, for every reader"
    assert not gate.try_to_take()
    assert marked(gate) == transaction.fence
    transaction.close()
    assert gate.try_to_take()
    assert marked(gate) == transaction.fence + 5


def test_a_commit_that_fails_ends_our_turn(store: SqliteStore, gate: Gate) -> None:
    transaction = store.begin()
    with pytest.raises(TypeError):
        transaction.commit([], [event(detail={"x": object()})], transaction.fence + 1)
    assert gate.try_to_take()
    assert marked(gate) == transaction.fence


def test_waiters_are_notified_before_the_turn_ends(store: SqliteStore, gate: Gate) -> None:
    engine, told = Engine(store), list[tuple[str, bool]]()

    def tell(whose: str) -> None:
        is_free = gate.try_to_take()
        told.append((whose, is_free))
        if is_free:
            gate.release()

    held = take(engine, "hot")
    engine.submit(acquire(engine, "hot", "bob", wait=60), "bob", lambda _: tell("waited"))
    engine.turn()
    engine.submit(release(held), "", lambda _: tell("released"))
    engine.turn()
    assert told == [("waited", False), ("released", True)]
    engine.close()


@pytest.mark.parametrize("changes", [(), (Put("na", Ref("y")),)])
def test_a_transaction_that_is_over_cannot_be_used(store: SqliteStore, changes: tuple[Put, ...]) -> None:
    transaction = store.begin()
    transaction.commit(changes, [], transaction.fence)
    with pytest.raises(StoreError, match="over"):
        transaction.commit([Put("na", Ref("x"))], [], 9)
    with pytest.raises(StoreError, match="over"):
        transaction.load(["na"])
    transaction.close()


def test_a_second_transaction_in_the_same_thread_is_refused_at_once(store: SqliteStore) -> None:
    transaction = store.begin()
    with pytest.raises(StoreError, match="already under way"):
        store.begin()
    transaction.close()
    store.begin().close()


def test_another_thread_waits_for_its_turn(store: SqliteStore) -> None:
    order: list[str] = []
    asks = threading.Event()
    transaction = store.begin()

    def second() -> None:
        asks.set()
        waited = store.begin()
        order.append("the second has its turn")
        waited.close()

    thread = threading.Thread(target=second)
    thread.start()
    assert asks.wait(30)
    order.append("the first is done")
    transaction.close()
    thread.join(30)
    assert order == ["the first is done", "the second has its turn"]


def test_due_names_records_by_urgency(store: SqliteStore) -> None:
    transaction = store.begin()
    now = transaction.now
    transaction.commit(
        [
            Put("nlater", End("e", "", now, now - 10)),
            Put("nfirst", End("e", "", now, now - 20)),
            Put("nfirst", End("f", "", now, now - 15)),
            Put("nnever", Ref("r")),
            Put("nclosed", hold(1, "a", now=now)._replace(expires_at=FOREVER)),
            Put("nfuture", End("e", "", now, now + 3_600_000_000)),
        ],
        [],
        transaction.fence,
    )
    transaction.close()
    transaction = store.begin()
    assert transaction.due(10) == ["nfirst", "nlater"]
    assert transaction.due(1) == ["nfirst"]
    transaction.commit([Put("nfirst", End("e", "", now, now + 3_600_000_000)), Drop("nfirst", "f")], [], 1)
    transaction.close()
    transaction = store.begin()
    assert transaction.due(10) == ["nlater"]
    transaction.close()


def test_closing_twice_is_fine_and_a_closed_store_refuses_calls(path: Path) -> None:
    store = SqliteStore(str(path))
    seen(store, "na")
    store.close()
    store.close()
    for use in (store.begin, store.hint, lambda: store.read(["na"]), lambda: store.scan("n"), store.prune):
        with pytest.raises(Closed, match="connect again"):
            use()


def test_closing_during_a_transaction_undoes_it(path: Path) -> None:
    store = SqliteStore(str(path))
    transaction = store.begin()
    transaction.load(["na"])
    store.close()
    transaction.close()
    other = SqliteStore(str(path))
    other.begin().close()
    other.close()

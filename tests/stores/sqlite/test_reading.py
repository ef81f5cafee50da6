"""Looking at records: as of one moment, from any thread, without keeping anybody out."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import TYPE_CHECKING

import apsw
import pytest

from leasehold.domain.entries import EMPTY, Drop, Put, Ref
from leasehold.stores import HistoryQuery
from leasehold.stores.sqlite import SqliteStore
from tests.kit.samples import commit, event, hold, node, seen, waiter

if TYPE_CHECKING:
    from pathlib import Path


def test_reading_returns_the_time_and_committed_records(store: SqliteStore) -> None:
    mine = hold(1, "a", now=5)
    at = commit(store, Put(node("a"), mine), Put(node("a"), waiter(2, "a")))
    now, records = store.read([node("a"), "nothing", node("a")])
    assert now >= at
    assert set(records) == {node("a"), "nothing"}
    assert records["nothing"] == EMPTY
    assert records[node("a")].holds == {mine.id: mine}
    assert records[node("a")].waiters == (waiter(2, "a"),)


def test_reading_during_a_transaction_sees_the_last_commit(store: SqliteStore) -> None:
    commit(store, Put("na", Ref("old")))
    transaction = store.begin()
    transaction.load(["na"])
    assert seen(store, "na") == {"old": Ref("old")}
    assert [key for key, _ in store.scan("n")] == ["na"]
    assert store.history(HistoryQuery()) == []
    transaction.commit([Put("na", Ref("new"))], [], transaction.fence)
    transaction.close()
    assert set(seen(store, "na")) == {"old", "new"}


def test_no_hint_during_a_transaction(store: SqliteStore) -> None:
    transaction = store.begin()
    assert not store.hint()
    transaction.close()


def test_a_scan_is_of_one_kind_and_complete(store: SqliteStore) -> None:
    names = [str(number) for number in range(300)]
    commit(store, *(Put(node(name), hold(1, name, now=1)) for name in names))
    commit(store, *(Put(node(name), waiter(2, name)) for name in names), Put("ax", Ref("r")), Put("qx", Ref("r")))
    found = dict(store.scan("n"))
    assert set(found) == {node(name) for name in names}
    assert all(len(record.holds) == len(record.waiters) == 1 for record in found.values())
    assert [key for key, _ in store.scan("a")] == ["ax"]
    assert list(store.scan("e")) == []


def test_a_scan_is_as_of_one_moment(store: SqliteStore) -> None:
    commit(store, *(Put(f"n{number:03}", Ref("old")) for number in range(200)))
    scan = store.scan("n")
    first = next(scan)
    commit(store, *(Drop(f"n{number:03}", "old") for number in range(200)), Put("nzzz", Ref("new")))
    rest = list(scan)
    assert [key for key, _ in (first, *rest)] == [f"n{number:03}" for number in range(200)]


def test_a_scan_that_is_left_early_gives_its_connection_back(store: SqliteStore) -> None:
    commit(store, Put("na", Ref("x")), Put("nb", Ref("x")))
    opened: list[apsw.Connection] = []
    apsw.connection_hooks.append(opened.append)
    try:
        scan = store.scan("n")
        assert isinstance(scan, Generator)
        next(scan)
        scan.close()
    finally:
        apsw.connection_hooks.remove(opened.append)
    (connection,) = opened
    with pytest.raises(apsw.ConnectionClosedError):
        connection.execute("SELECT 1")


def test_a_read_is_as_of_one_moment_while_others_write(store: SqliteStore, path: Path) -> None:
    """Two entries that are always changed together are never seen apart."""
    keys = ["na", "nb", "nc"]
    commit(store, *(Put(key, Ref("0")) for key in keys))
    torn: list[set[str]] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            _, records = store.read(keys)
            states = {min(records[key].notes) for key in keys}
            if len(states) != 1:
                torn.append(states)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    writer = SqliteStore(str(path))
    for number in range(100):
        changes = [(Put(key, Ref(str(number + 1))), Drop(key, str(number))) for key in keys]
        commit(writer if number % 2 else store, *(change for pair in changes for change in pair))
    done.set()
    for thread in threads:
        thread.join(30)
    writer.close()
    assert torn == []


def test_many_threads_may_read_while_one_writes(store: SqliteStore) -> None:
    troubles: list[BaseException] = []
    done = threading.Event()

    def look() -> None:
        try:
            while not done.is_set():
                seen(store, "na")
                list(store.scan("n"))
                store.history(HistoryQuery(limit=3))
                store.hint()
        except BaseException as error:  # noqa: BLE001 (the test tells)
            troubles.append(error)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(60):
        commit(store, Put("na", Ref(str(number))), events=(event(at=number),))
    done.set()
    for thread in threads:
        thread.join(30)
    assert troubles == []
    assert len(seen(store, "na")) == 60

"""What is written while the rest of a turn is still being decided: it is part of the turn, or it never happened."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import psycopg
import pytest

from leasehold.domain import keys
from leasehold.domain.entries import Drop, Put, Ref
from leasehold.domain.events import Event
from leasehold.domain.outcomes import Granted
from leasehold.engine import batch
from leasehold.engine.drivers.thread import ThreadDriver
from leasehold.engine.engine import Engine
from leasehold.errors import Conflict
from leasehold.locks.local import EngineAnswers
from leasehold.locks.sync import Locks
from leasehold.requests.checks import Settings
from leasehold.stores import HistoryQuery
from leasehold.stores.postgres import PostgresStore
from leasehold.stores.postgres.transaction import PART
from leasehold.testing.conformance.asking import until
from tests.kit.postgres import schema, server

if TYPE_CHECKING:
    from collections.abc import Iterator

A, B = (keys.node("default", name) for name in "ab")


@pytest.fixture
def store() -> Iterator[PostgresStore]:
    with schema() as url:
        store = PostgresStore(url)
        yield store
        store.close()


def _event(lease: str) -> Event:
    return Event("granted", 1, "default", ("a",), "h", None, lease, 1, {})


def _notes(store: PostgresStore, key: str) -> list[str]:
    return sorted(store.read([key])[1][key].notes)


def test_what_was_written_ahead_is_committed_with_the_rest(store: PostgresStore) -> None:
    transaction = store.begin()
    transaction.load([A, B])
    transaction.write_ahead([Put(A, Ref("r1"))], [_event("l1"), _event("l2")])
    transaction.write_ahead([Put(A, Ref("r2"))], [_event("l3")])
    assert _notes(store, A) == []
    transaction.commit([Put(B, Ref("r3"))], [_event("l4")], transaction.fence)
    assert (_notes(store, A), _notes(store, B)) == (["r1", "r2"], ["r3"])
    assert [(event.lease, event.seq) for event in store.history(HistoryQuery())] == [
        ("l4", 4),
        ("l3", 3),
        ("l2", 2),
        ("l1", 1),
    ]
    assert sorted(store.cache.records[A].notes) == ["r1", "r2"]


def test_it_is_committed_also_if_there_is_nothing_else(store: PostgresStore) -> None:
    transaction = store.begin()
    transaction.load([A])
    transaction.write_ahead([Put(A, Ref("r1"))], [])
    transaction.commit([], [], transaction.fence)
    assert _notes(store, A) == ["r1"]


def test_without_a_commit_it_never_happened(store: PostgresStore) -> None:
    transaction = store.begin()
    transaction.load([A])
    transaction.write_ahead([Put(A, Ref("r1"))], [_event("l1")])
    transaction.close()
    assert _notes(store, A) == []
    assert store.history(HistoryQuery()) == []
    again = store.begin()
    assert again.load([A])[A].notes == {}
    again.close()


def test_what_was_written_ahead_can_be_changed_and_dropped(store: PostgresStore) -> None:
    transaction = store.begin()
    transaction.load([A])
    transaction.write_ahead([Put(A, Ref("r1")), Put(A, Ref("r2"))], [])
    transaction.write_ahead([Drop(A, "r1"), Put(A, Ref("r2"))], [])
    transaction.load([B])  # what was sent is carried out before it
    transaction.commit([Put(A, Ref("r1")), Drop(A, "r2")], [], transaction.fence)
    assert _notes(store, A) == ["r1"]


def test_others_are_told_of_it(store: PostgresStore) -> None:
    store.learn(0, b"somebody else", [])
    transaction = store.begin()
    transaction.load([A, B])
    transaction.write_ahead([Put(A, Ref("r1"))], [])
    transaction.commit([Put(B, Ref("r2"))], [], transaction.fence)
    with psycopg.connect(server().url) as connection:
        row = connection.execute(f"SELECT keys FROM {store.address.schema}.turn").fetchone()
    assert row is not None
    assert set(row[0].split("\x1f")) == {A, B}


def test_a_failure_of_it_is_found_out_at_the_commit(store: PostgresStore) -> None:
    first = store.begin()
    first.load([A])
    first.commit([Put(A, Ref("r1"))], [], first.fence)
    entry = f"INSERT INTO {store.address.schema}.folded VALUES ('{A}', 'r2', NULL, '[\"r\",\"r2\"]')"
    with psycopg.connect(server().url, autocommit=True) as connection:
        connection.execute(entry)  # by hand, past every promise
    second = store.begin()
    second.load([A])
    second.write_ahead([Put(A, Ref("r2"))], [_event("l1")])
    with pytest.raises(Conflict):
        second.commit([Put(B, Ref("r3"))], [], second.fence)
    second.close()
    assert (_notes(store, A), _notes(store, B)) == (["r1", "r2"], [])
    third = store.begin()
    assert sorted(third.load([A])[A].notes) == ["r1", "r2"]
    third.close()


def test_a_connection_that_is_lost_after_it_leaves_nothing_behind(store: PostgresStore) -> None:
    transaction = store.begin()
    transaction.load([A])
    transaction.write_ahead([Put(A, Ref("r1"))], [])
    with psycopg.connect(server().url, autocommit=True) as connection:
        pid = store.writer().info.backend_pid
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    with pytest.raises(Conflict):
        transaction.load([B])
    transaction.close()
    assert _notes(store, A) == []


def test_a_large_batch_is_written_in_parts_and_is_whole(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[int] = []
    write_ahead = batch._Attempt.write_ahead

    def counted(attempt: batch._Attempt) -> None:
        parts.append(len(attempt.changes))
        write_ahead(attempt)

    monkeypatch.setattr(batch._Attempt, "write_ahead", counted)
    engine = Engine(store)
    locks = Locks(EngineAnswers(engine, ThreadDriver(engine), Settings()), holder="h")
    count = 3 * PART
    turn = store.begin()  # so that all of them arrive while it lasts
    threads, granted = [], list[Granted]()

    def take(number: int) -> None:
        outcome = locks.acquire(f"job-{number}", ttl=60, holder=f"h{number}")
        assert isinstance(outcome, Granted)
        granted.append(outcome)

    for number in range(count):
        threads.append(threading.Thread(target=take, args=(number,)))
        threads[-1].start()
    until(lambda: engine.backlog >= 2 * PART, "most of them have asked")
    turn.close()
    for thread in threads:
        thread.join()
    events = store.history(HistoryQuery(limit=1000))
    assert len({event.lease for event in events}) == len(events) == count
    assert [event.seq for event in events] == list(range(count, 0, -1))
    assert [event.fence for event in events] == sorted((each.lease.fence for each in granted), reverse=True)
    assert parts
    assert len(list(store.scan("n"))) == count
    engine.close()

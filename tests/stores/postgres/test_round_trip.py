"""A commit in two steps: it is sent, and what became of it is heard later. In between anybody may do something else."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

import psycopg
import pytest

from leasehold.domain import keys
from leasehold.domain.entries import Put, Ref
from leasehold.domain.events import Event
from leasehold.errors import Conflict, OutcomeUnknown, StoreError
from leasehold.stores import HistoryQuery
from leasehold.stores.postgres import PostgresStore
from leasehold.testing.conformance.asking import until
from tests.kit.postgres import server

if TYPE_CHECKING:
    from collections.abc import Iterator

A, B = (keys.node("default", name) for name in "ab")


@pytest.fixture
def store(soon_alone: None, url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    store.close()


def _put(store: PostgresStore, id_: str) -> None:
    turn = store.begin()
    turn.load([A])
    turn.commit([Put(A, Ref(id_))], [], turn.fence)


def _notes(store: PostgresStore, key: str) -> list[str]:
    return sorted(store.read([key])[1][key].notes)


def test_a_commit_that_was_sent_is_heard_of_later(store: PostgresStore) -> None:
    turn = store.begin()
    turn.load([A])
    with psycopg.connect(server().url) as keeper:  # so that it cannot be answered yet
        keeper.execute(f"LOCK TABLE {store.address.schema}.turn IN SHARE MODE")
        sent = turn.send_commit([Put(A, Ref("r1"))], [], turn.fence)
        assert not sent.is_answered()
        assert select.select([sent], [], [], 0) == ([], [], [])
    until(sent.is_answered, "the answer is here")
    turn.finish_commit()
    turn.close()
    assert _notes(store, A) == ["r1"]
    assert [*store.cache.records[A].notes] == ["r1"]
    _put(store, "r2")


def test_the_file_says_when_there_is_more_of_an_answer(store: PostgresStore) -> None:
    turn = store.begin()
    turn.load([A])
    sent = turn.send_commit([Put(A, Ref("r1"))], [], turn.fence)
    while not sent.is_answered():
        assert select.select([sent], [], [], 15)[0]
    turn.finish_commit()
    assert _notes(store, A) == ["r1"]


def test_the_outcome_is_unknown_if_the_answer_is_not_awaited(store: PostgresStore) -> None:
    turn = store.begin()
    turn.load([A])
    turn.send_commit([Put(A, Ref("r1"))], [], turn.fence)
    turn.close()
    _put(store, "r2")
    assert _notes(store, A) in (["r1", "r2"], ["r2"])
    assert _notes(store, A) == sorted(store.cache.records[A].notes)


def test_a_connection_that_is_lost_meanwhile_is_an_answer_too(store: PostgresStore) -> None:
    turn = store.begin()
    turn.load([A])
    pid = store.writer().info.backend_pid
    with psycopg.connect(server().url, autocommit=True) as other, psycopg.connect(server().url) as keeper:
        keeper.execute(f"LOCK TABLE {store.address.schema}.turn IN SHARE MODE")
        sent = turn.send_commit([Put(A, Ref("r1"))], [], turn.fence)
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        until(sent.is_answered, "its end is heard of")
    with pytest.raises(OutcomeUnknown):
        turn.finish_commit()
    turn.close()
    assert _notes(store, A) == []
    _put(store, "r2")
    assert _notes(store, A) == ["r2"]


def test_a_refusal_is_heard_of_later_too(store: PostgresStore) -> None:
    while not store.may_assume():
        _put(store, "r1")
    turn = store.begin()
    turn.load([B])
    with psycopg.connect(server().url, autocommit=True) as connection:
        connection.execute(f"SELECT setval('{store.address.schema}.fence', 1000, false)")
    sent = turn.send_commit([Put(B, Ref("r1"))], [], turn.fence)
    until(sent.is_answered, "the answer is here")
    with pytest.raises(Conflict):
        turn.finish_commit()
    turn.close()
    assert not store.may_assume()
    assert _notes(store, B) == []


def test_an_answer_that_changes_nothing_is_sent_in_the_same_way(store: PostgresStore) -> None:
    for _ in range(8):  # waited for at first, and assumed later
        turn = store.begin()
        turn.load([B])
        sent = turn.send_commit([], [], turn.fence)
        until(sent.is_answered, "the answer is here")
        turn.finish_commit()
        turn.close()
        _put(store, "r1")
    assert store.may_assume()


def test_nothing_is_finished_that_was_not_sent(store: PostgresStore) -> None:
    turn = store.begin()
    turn.load([A])
    with pytest.raises(StoreError):
        turn.finish_commit()
    turn.close()
    _put(store, "r1")


def test_large_values_are_sent_while_answers_come(store: PostgresStore) -> None:
    turn = store.begin()
    turn.load([A])
    large = Event("granted", 1, "default", (), "ada", None, None, 0, {"x": "x" * 3_000_000})
    changes = [Put(A, Ref("r1")), Put(B, Ref("r2"))]
    sent = turn.send_commit(changes, [large, large, large, large], turn.fence)
    until(sent.is_answered, "the answer is here")
    turn.finish_commit()
    assert (_notes(store, A), _notes(store, B)) == (["r1"], ["r2"])
    assert [event.seq for event in store.history(HistoryQuery())] == [4, 3, 2, 1]

"""What a transaction on PostgreSQL promises: a turn, a clock, numbers, and an end that is known."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest

import leasehold
from leasehold.domain import keys
from leasehold.domain.entries import EMPTY, Put, Ref
from leasehold.domain.events import Event
from leasehold.domain.outcomes import Granted
from leasehold.domain.timestamps import SECOND
from leasehold.errors import OutcomeUnknown, StoreError
from leasehold.stores import HistoryQuery
from leasehold.stores.postgres import PostgresStore
from leasehold.testing.conformance.asking import Asking, expect, leases_of, take, until
from tests.kit.listening import listening
from tests.kit.postgres import server
from tests.kit.wires import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

A, B = (keys.node("default", name) for name in "ab")


@contextmanager
def stores(url: str, count: int) -> Iterator[list[PostgresStore]]:
    opened = [PostgresStore(url) for _ in range(count)]
    try:
        yield opened
    finally:
        for store in opened:
            store.close()


def _ask(text: str) -> object:
    with psycopg.connect(server().url, autocommit=True) as connection:
        row = connection.execute(text).fetchone()
        assert row is not None
        return row[0]


def _somebody_waits() -> bool:
    return bool(_ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))


def test_a_record_that_is_not_there_is_locked_as_well(url: str) -> None:
    with stores(url, 2) as (one, two):
        first = one.begin()
        assert first.load([A])[A] == EMPTY
        second = two.begin()
        asking = Asking(lambda: second.load([A])[A])
        until(_somebody_waits, "the second one waits")
        assert not asking.is_over
        first.commit([Put(A, Ref("r1"))], [], first.fence)
        assert asking.answer().notes == {"r1": Ref("r1")}
        second.close()


def test_turns_come_one_after_the_other_whatever_they_load(url: str) -> None:
    """So what a decision has looked at is true until its commit, and a cycle that two servers close has one victim."""
    with stores(url, 2) as (one, two):
        first, second = one.begin(), two.begin()
        first.load([A])
        asking = Asking(lambda: second.load([B])[B])
        until(_somebody_waits, "the second one waits")
        assert not asking.is_over
        first.load([B])
        first.commit([Put(B, Ref("r1"))], [], first.fence)
        assert asking.answer().notes == {"r1": Ref("r1")}
        second.close()


def test_a_server_that_is_silent_in_its_turn_loses_it(url: str) -> None:
    with stores(url, 2) as (one, two):
        first, second = one.begin(), two.begin()
        first.load([A])
        second.load([A])  # PostgreSQL ends the first one's turn: it may have stopped for ever
        with pytest.raises(OutcomeUnknown):
            first.commit([Put(A, Ref("r1"))], [], first.fence)
        second.commit([Put(A, Ref("r2"))], [], second.fence)
        assert one.read([A])[1][A].notes == {"r2": Ref("r2")}


def test_the_time_is_read_after_the_records_are_ours(url: str) -> None:
    with stores(url, 2) as (one, two):
        first, second = one.begin(), two.begin()
        first.load([A])
        asking = Asking(lambda: (second.load([A]), second.now)[1])
        until(_somebody_waits, "the second one waits")
        later = one.read(())[0]
        assert later > first.now
        first.close()
        assert asking.answer() >= later
        second.close()


def test_the_clock_never_runs_backwards(url: str) -> None:
    with stores(url, 1) as (store,):
        ahead = store.read(())[0] + 3600 * SECOND
        _ask(f"SELECT setval('{store.address.schema}.latest', {ahead})")  # as if it had been set back by an hour
        transaction = store.begin()
        assert transaction.now == ahead
        transaction.close()
        assert store.read(())[0] == ahead


def test_time_does_not_run_backwards_between_servers_that_saw_the_clock_set_back(url: str) -> None:
    with stores(url, 2) as (one, two):
        name = f"'{one.address.schema}.latest'"
        true = one.read(())[0]
        _ask(f"SELECT setval({name}, {true + 60 * SECOND})")
        ahead = one.read(())[0]  # only read: no turn has used this time when the clock is set back
        _ask(f"SELECT setval({name}, {true})")
        first = one.begin()
        assert first.now >= ahead
        first.load([A])
        event = Event("noted", first.now, "default", ("a",), "me", None, None, 0, {})
        first.commit([Put(A, Ref("r"))], [event], first.fence)
        second = two.begin()
        assert second.now >= ahead
        second.close()


def test_a_later_turn_has_the_larger_fence(url: str) -> None:
    with stores(url, 2) as (one, two):
        first, second = one.begin(), two.begin()
        theirs = first.fence
        first.load([A])
        first.commit([Put(A, Ref("r"))], [], theirs + 7)
        assert second.fence == theirs + 7
        second.close()
    with stores(url, 1) as (three,):
        third = three.begin()
        assert third.fence == theirs + 7
        third.close()


def test_numbers_that_were_used_up_without_a_change_are_not_given_again(url: str) -> None:
    with stores(url, 1) as (store,):
        transaction = store.begin()
        after = transaction.fence + 10
        transaction.commit([], [], after)
        again = store.begin()
        assert again.fence == after
        again.close()


def test_very_many_records(url: str) -> None:
    """They take one lock, and more room than a socket has at once."""
    with stores(url, 2) as (one, two):
        many = [keys.node("default", str(number)) for number in range(3_000)]
        transaction = one.begin()
        transaction.load(many)
        assert _ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 1
        wide = "x" * 2_000
        transaction.commit([Put(key, Ref(wide)) for key in many], [], transaction.fence)
        other = two.begin()
        loaded = other.load(many)
        assert all(loaded[key].notes == {wide: Ref(wide)} for key in many)
        other.close()


def test_a_transaction_that_is_over_says_so(url: str) -> None:
    with stores(url, 1) as (store,):
        transaction = store.begin()
        transaction.load([A])
        with pytest.raises(StoreError, match="under way"):
            store.begin()
        transaction.close()
        transaction.close()
        with pytest.raises(StoreError, match="over"):
            transaction.load([B])


# ------------------------------------------------------------------------------------ unknown outcomes


@contextmanager
def _through(url: str) -> Iterator[tuple[Wire, str]]:
    wire = Wire(server().port)
    with listening(wire.answer) as port:
        yield wire, url.replace(f":{server().port}/", f":{port}/")


@pytest.mark.parametrize("when", ["cut_before", "cut_after"])
def test_the_receipt_settles_a_commit_whose_answer_was_lost(url: str, when: str) -> None:
    with _through(url) as (wire, through), leasehold.connect(through, holder="ada") as locks:
        take(locks, "warm")
        setattr(wire, when, b"COMMIT")
        granted = locks.acquire("r", ttl=60)
        assert wire.cuts == 1
        assert isinstance(granted, Granted)
        held = [lease for lease in leases_of(locks) if lease.resources == ("r",)]
        assert [lease.id for lease in held] == [granted.lease.id]
        events = expect(tuple, locks.history(resource="r", kinds=("granted",)))
        assert [event.lease for event in events] == [granted.lease.id]


def test_a_lost_commit_is_waited_for_before_its_receipt_is_looked_for(url: str) -> None:
    """It may still be under way: then it is too early to say that it did not happen."""
    with stores(url, 1) as (store,):
        lost = psycopg.connect(server().url)
        lost.execute("SELECT count(pg_advisory_xact_lock(%s))", (store.address.salt,))
        store.in_doubt()
        asking = Asking(lambda: store.read([A])[1])
        until(_somebody_waits, "the end of the lost one is waited for")
        assert not asking.is_over
        lost.close()
        assert asking.answer() == {A: EMPTY}


def test_a_connection_that_was_cut_while_idle_is_replaced(url: str) -> None:
    with leasehold.connect(url, holder="ada") as locks:
        take(locks, "first")
        locks.list()
        _ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'leasehold'")
        take(locks, "second")
        assert len(leases_of(locks)) == 2


def test_events_are_numbered_in_the_order_of_commits(url: str) -> None:
    with stores(url, 2) as (one, two):
        for number, store in enumerate((one, two, two, one)):
            transaction = store.begin()
            transaction.load([A])
            told = [Event(f"{number}-{each}", 1, "default", ("a",), "ada", None, None, 0, {}) for each in range(2)]
            transaction.commit([Put(A, Ref("r"))], told, transaction.fence)
        events = two.history(HistoryQuery())
        assert [event.kind for event in events] == ["3-1", "3-0", "2-1", "2-0", "1-1", "1-0", "0-1", "0-0"]
        assert [event.seq for event in events] == [*range(8, 0, -1)]

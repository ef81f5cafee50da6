"""What a transaction on PostgreSQL promises: locked records, a clock, numbers, and an end that is known."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest

import leasehold
from leasehold import keys
from leasehold.errors import Conflict, StoreError
from leasehold.model import EMPTY, SECOND, Event, Granted, Hold, Put, Ref
from leasehold.stores import HistoryQuery
from leasehold.stores.postgres import PostgresStore
from leasehold.stores.postgres.transaction import BLOCK, LOCKS_MOST, MANY
from leasehold.testing.conformance.asking import Asking, leases_of, take, until
from tests.stores.postgres import schema, server
from tests.stores.wires import Wire, listening

if TYPE_CHECKING:
    from collections.abc import Iterator

A, B, C = (keys.node("default", name) for name in "abc")


@pytest.fixture
def url() -> Iterator[str]:
    with schema() as url:
        yield url


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


def test_other_records_are_not_waited_for(url: str) -> None:
    with stores(url, 2) as (one, two):
        first, second = one.begin(), two.begin()
        first.load([A])
        second.load([B])
        first.commit([Put(A, Ref("r1"))], [], first.fence)
        second.commit([Put(B, Ref("r2"))], [], second.fence)
        assert one.read([A, B])[1][B].notes


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


def test_time_moves_on_when_more_is_loaded(url: str) -> None:
    with stores(url, 1) as (store,):
        transaction = store.begin()
        transaction.load([A])
        before = transaction.now
        transaction.load([B])
        assert transaction.now > before
        transaction.close()


def test_the_clock_never_runs_backwards(url: str) -> None:
    with stores(url, 1) as (store,):
        ahead = store.read(())[0] + 3600 * SECOND
        _ask(f"SELECT setval('{store.address.schema}.latest', {ahead})")  # as if it had been set back by an hour
        transaction = store.begin()
        assert transaction.now == ahead
        transaction.close()
        assert store.read(())[0] == ahead


def test_a_later_grant_has_the_larger_fence_though_its_transaction_began_before(url: str) -> None:
    with stores(url, 2) as (one, two):
        first, second = one.begin(), two.begin()
        first.load([A])
        second.load([B])
        theirs = second.fence
        second.commit([Put(B, Ref("r"))], [], theirs + 1)
        assert first.fence < theirs
        first.load([B])
        assert first.fence > theirs
        first.close()


def test_what_another_has_is_not_waited_for_out_of_order_and_who_loses_out_gets_its_turn(url: str) -> None:
    with stores(url, 2) as (one, two):
        for _ in range(2):
            first, second = one.begin(), two.begin()
            first.load([A])
            second.load([B])
            with pytest.raises(Conflict):
                second.load([A])
            second.close()
            first.close()
        last = two.begin()
        last.load([B])
        other = one.begin()
        asking = Asking(lambda: other.load([C]))
        until(_somebody_waits, "everybody else is locked out")
        last.load([A])
        last.load([C])
        last.commit([Put(C, Ref("r"))], [], last.fence)
        asking.answer()
        other.close()


def test_very_many_records(url: str) -> None:
    with stores(url, 1) as (store,):
        many = [keys.node("default", str(number)) for number in range(LOCKS_MOST + 10)]
        transaction = store.begin()
        transaction.load(many)
        assert _ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 2
        transaction.commit([Put(key, Ref("r")) for key in many], [], transaction.fence)
        assert len(list(store.scan("n"))) == len(many)


def test_numbers_that_others_may_have_are_not_used(url: str) -> None:
    with stores(url, 1) as (store,):
        transaction = store.begin()
        transaction.load([A])
        beyond = transaction.fence + BLOCK
        with pytest.raises(Conflict):
            transaction.commit([Put(A, _hold(beyond))], [], beyond + 1)
        transaction.close()
        again = store.begin()
        again.load([A])
        enough = again.fence + MANY // 2
        again.commit([Put(A, _hold(enough))], [], enough + 1)
        after = store.begin()
        assert after.fence > enough
        after.close()


def _hold(fence: int) -> Hold:
    return Hold(keys.lease_id(fence, A), "X", 1, keys.actor("default", "x", None), "x", fence, 0, 1, 0)


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
def test_a_commit_whose_answer_is_lost_is_settled_by_asking(url: str, when: str) -> None:
    with _through(url) as (wire, through), leasehold.connect(through, holder="ada") as locks:
        take(locks, "warm")
        setattr(wire, when, b"COMMIT")
        granted = locks.acquire("r", ttl=60)
        assert wire.cuts == 1
        assert isinstance(granted, Granted)
        held = [lease for lease in leases_of(locks) if lease.resources == ("r",)]
        assert [lease.id for lease in held] == [granted.lease.id]
        events = locks.history(resource="r", kinds=("granted",))
        assert [event.lease for event in events if not isinstance(event, str)] == [granted.lease.id]


def test_a_lost_commit_is_waited_for_before_its_receipt_is_looked_for(url: str) -> None:
    """It may still be under way: then it is too early to say that it did not happen."""
    with stores(url, 1) as (store,):
        lost = psycopg.connect(server().url)
        lock = "SELECT count(pg_advisory_xact_lock(hashtextextended(%s, %s)))"
        lost.execute(lock, (store.id, store.address.salt))
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
    """Whoever has numbers for its events keeps everybody else from numbers until it has committed."""
    with stores(url, 1) as (store,), psycopg.connect(server().url) as other:
        lock = "SELECT count(pg_advisory_xact_lock(hashtextextended('event', %s)))"
        other.execute(lock, (store.address.salt,))
        transaction = store.begin()
        transaction.load([A])
        told = Event("granted", 1, "default", ("a",), "ada", None, None, 0, {})
        asking = Asking(lambda: transaction.commit([Put(A, Ref("r"))], [told], transaction.fence))
        until(_somebody_waits, "its commit waits for the other's")
        assert not asking.is_over
        other.commit()
        asking.answer()
        assert [event.kind for event in store.history(HistoryQuery())] == ["granted"]

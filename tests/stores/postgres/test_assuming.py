"""Turns that are decided before they are taken: as good as any other, and refused if anything was otherwise."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
import pytest

from leasehold.domain import keys
from leasehold.domain.entries import EMPTY, Put, Ref
from leasehold.domain.events import Event
from leasehold.domain.timestamps import SECOND
from leasehold.errors import Conflict, StoreError, StoreUnsuitable
from leasehold.steps import through
from leasehold.stores import HistoryQuery, postgres
from leasehold.stores.postgres import PostgresStore, round_trip, transaction
from leasehold.stores.postgres.cache import PostgresCache
from leasehold.testing.conformance.asking import until
from tests.kit import samples
from tests.kit.postgres import server

if TYPE_CHECKING:
    from collections.abc import Iterator

A, B, C = (keys.node("default", name) for name in "abc")
HOUR = 3600 * SECOND
pytestmark = pytest.mark.usefixtures("soon_alone")
EVENT = Event("granted", 1, "default", (), "h", None, None, 0, {})


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    """One that knows everything, and has seen nobody else."""
    store = PostgresStore(url)
    while store.assumed() is None:
        _put(store, A, "r1")
    yield store
    store.close()


def _put(store: PostgresStore, key: str, id_: str) -> None:
    turn = store.begin()
    try:
        turn.load([key])
        turn.commit([Put(key, Ref(id_))], [], turn.fence)
    finally:
        turn.close()


def _of_another(url: str, key: str, id_: str) -> None:
    other = PostgresStore(url)
    _put(other, key, id_)
    other.close()


def _notes(store: PostgresStore, key: str) -> list[str]:
    return sorted(store.read([key])[1][key].notes)


def _do(store: PostgresStore, statement: str) -> None:
    with psycopg.connect(server().url, autocommit=True) as connection:
        connection.execute(statement.replace("{schema}", store.address.schema))


def _trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    trips: list[int] = []

    send = round_trip.RoundTrip.__init__

    def counted(self: round_trip.RoundTrip, connection: psycopg.Connection, *calls: round_trip.Call) -> None:
        trips.append(len(calls))
        send(self, connection, *calls)

    monkeypatch.setattr(round_trip.RoundTrip, "__init__", counted)
    return trips


def test_a_turn_is_one_round_trip_though_it_wants_absent_records(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips = _trips(monkeypatch)
    for number in range(5):
        turn = store.begin()
        assert turn.load([A, B])[B] == EMPTY if number == 0 else turn.load([B])[B].notes
        assert turn.load([C])[C] == EMPTY
        turn.commit([Put(B, Ref(f"r{number}"))], [], turn.fence + 1)
    assert trips == [1] * 5, "of one statement"
    assert _notes(store, B) == ["r0", "r1", "r2", "r3", "r4"]


def test_a_turn_of_another_server_refuses_it(store: PostgresStore, url: str) -> None:
    turn = store.begin()
    assert turn.load([B])[B] == EMPTY
    _of_another(url, B, "theirs")  # which it does not keep out
    with pytest.raises(Conflict):
        turn.commit([Put(B, Ref("ours"))], [EVENT], turn.fence)
    turn.close()
    assert _notes(store, B) == ["theirs"]
    assert store.history(HistoryQuery()) == []
    again = store.begin()
    assert [*again.load([B])[B].notes] == ["theirs"]
    again.close()
    assert store.assumed() is None


@pytest.mark.parametrize("how", ["confirm", "commit"])
def test_an_answer_that_changes_nothing_is_confirmed(store: PostgresStore, url: str, how: str) -> None:
    def look() -> None:
        through(turn.confirming()) if how == "confirm" else turn.commit([], [], turn.fence)

    turn = store.begin()
    turn.load([B])
    look()
    turn.close()
    turn = store.begin()
    turn.load([B])
    _of_another(url, B, "theirs")
    with pytest.raises(Conflict):
        look()
    turn.close()
    _put(store, C, "r1")
    assert _notes(store, C) == ["r1"]


@pytest.mark.parametrize("how", ["confirm", "commit"])
@pytest.mark.parametrize(
    "change",
    [
        "SELECT setval('{schema}.fence', 1000, false)",
        "UPDATE {schema}.meta SET opens_at = opens_at + 1",
        "UPDATE {schema}.turn SET id = 'another' WHERE number = (SELECT max(number) FROM {schema}.turn)",
        "INSERT INTO {schema}.turn SELECT max(number) + 1, 'one more', '' FROM {schema}.turn",
        "DELETE FROM {schema}.turn",
    ],
)
def test_every_other_change_refuses_it(store: PostgresStore, change: str, how: str) -> None:
    turn = store.begin()
    turn.load([B])
    _do(store, change)
    with pytest.raises(Conflict):
        through(turn.confirming()) if how == "confirm" else turn.commit([Put(B, Ref("r1"))], [EVENT], turn.fence)
    turn.close()
    assert (_notes(store, B), store.history(HistoryQuery())) == ([], [])
    again = store.begin()
    again.load([B])
    assert again.fence == (1000 if "fence" in change else turn.fence)
    assert again.opens_at == turn.opens_at + ("opens_at" in change)
    again.close()


def test_a_new_version_of_the_tables_refuses_it(store: PostgresStore) -> None:
    turn = store.begin()
    turn.load([B])
    _do(store, "UPDATE {schema}.meta SET version = 99")
    with pytest.raises(Conflict):
        turn.commit([Put(B, Ref("r1"))], [], turn.fence)
    turn.close()
    with pytest.raises(StoreUnsuitable, match="schema 99"):
        _put(store, B, "r1")


def test_another_history_of_the_server_refuses_it(store: PostgresStore) -> None:
    turn = store.begin()
    turn.load([B])
    fence = turn.fence
    _do(store, "UPDATE {schema}.meta SET timeline = '0000002A'")  # as a standby finds it that was promoted
    with pytest.raises(Conflict):
        turn.commit([Put(B, Ref("r1"))], [], fence)
    turn.close()
    with pytest.raises(Conflict):
        _put(store, B, "r1")
    again = store.begin()
    again.load([B])
    assert again.fence > fence + 2**39
    again.close()


def test_it_waits_for_no_other_turn(store: PostgresStore) -> None:
    """The store that has a turn now is about to change something."""
    turn = store.begin()
    turn.load([B])
    with psycopg.connect(server().url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [store.address.salt])
        with pytest.raises(Conflict, match="another server has a turn"):
            turn.commit([Put(B, Ref("r1"))], [], turn.fence)
        turn.close()
    _put(store, B, "r2")
    assert _notes(store, B) == ["r2"]


def test_it_notes_promised_waiters_and_the_longest_ttl(store: PostgresStore) -> None:
    waiting = samples.waiter(1, "b")
    with psycopg.connect(server().url, autocommit=True) as ear:
        ear.execute(f"LISTEN {store.address.channel}")
        for change in (
            waiting,
            samples.hold(2, "b", now=1, of=samples.ask("b", ttl=1_000 * HOUR))._replace(ticket=waiting.id),
        ):
            turn = store.begin()
            turn.load([B])
            turn.commit([Put(B, change)], [EVENT], turn.fence + 1)
        assert [told.payload for told in ear.notifies(timeout=15, stop_after=1)] == [waiting.engine]
        assert ear.execute(f"SELECT longest FROM {store.address.schema}.meta").fetchall() == [(1_000 * HOUR,)]
    assert store.may_assume()


def test_what_fails_when_it_is_committed_did_not_happen(store: PostgresStore) -> None:
    """There is no statement for it that could fail."""
    _do(
        store,
        "CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF NEW.number % 2 = 0 THEN RAISE disk_full; END IF; RETURN NULL; END $$; "
        "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON {schema}.turn DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION {schema}.refuse()",
    )
    if store.known[0] % 2 == 0:
        _put(store, B, "before")
    before = _notes(store, B)
    assert store.may_assume()
    with pytest.raises(StoreError, match="disk is full"):
        _put(store, B, "r1")
    assert _notes(store, B) == before
    assert not store.may_assume()
    _do(store, "DROP TRIGGER refuse ON {schema}.turn")
    _put(store, B, "r2")
    assert _notes(store, B) == [*before, "r2"]


@pytest.mark.parametrize("usual", ["default_transaction_isolation=serializable", "default_transaction_read_only=on"])
def test_where_transactions_are_usually_others_it_says_what_it_needs(
    usual: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    PostgresStore(url).close()
    store = PostgresStore(f"{url}&options=-c%20{usual}&target_session_attrs=any")
    while not store.may_assume():
        _put(store, A, "r1")
    with pytest.raises(Conflict):
        _put(store, B, "r1")
    assert _notes(store, B) == []
    while not store.may_assume():
        _put(store, B, "r1")
    trips = _trips(monkeypatch)
    _put(store, B, "r2")
    _put(store, B, "r3")
    assert trips == [3, 3]
    assert store.may_assume()
    assert _notes(store, B) == ["r1", "r2", "r3"]
    store.close()


def test_its_time_is_the_databases_of_a_moment_ago(store: PostgresStore) -> None:
    before = store.read(())[0]
    turn = store.begin()
    turn.load([B])
    assert turn.now >= before
    assert store.read(())[0] >= turn.now
    turn.close()


def test_no_later_time_was_used(store: PostgresStore) -> None:
    turn = store.begin()
    turn.load([B])
    later = turn.now + HOUR
    _do(store, f"SELECT setval('{{schema}}.latest', {later})")
    with pytest.raises(Conflict):
        turn.commit([Put(B, Ref("r1"))], [], turn.fence)
    turn.close()
    again = store.begin()
    again.load([B])
    assert again.now == later
    again.close()


@pytest.mark.parametrize("shift", [-2 * HOUR, HOUR])
def test_a_clock_that_differs_from_the_databases_refuses_it(store: PostgresStore, shift: int) -> None:
    assert store.certain is not None
    _do(store, "SELECT setval('{schema}.latest', 1)")  # that is not what it is about
    store.certain = store.certain._replace(now=store.certain.now + shift)
    store._latest = 0
    turn = store.begin()
    turn.load([B])
    with pytest.raises(Conflict):
        turn.commit([Put(B, Ref("r1"))], [], turn.fence)
    turn.close()
    assert store.assumed() is None
    _put(store, B, "r1")
    assert _notes(store, B) == ["r1"]


def test_what_is_due_is_looked_for_in_a_turn(store: PostgresStore, url: str) -> None:
    turn = store.begin()
    turn.load([B])
    assert turn.due(10) == []
    turn.commit([Put(B, Ref("r1"))], [], turn.fence)
    assert _notes(store, B) == ["r1"]
    turn = store.begin()
    turn.load([B])
    _of_another(url, B, "theirs")
    with pytest.raises(Conflict):
        turn.due(10)
    turn.close()


def test_only_records_that_another_server_changed_are_loaded_again(store: PostgresStore, url: str) -> None:
    other = PostgresStore(url)
    for number in range(3):  # from then on they know of each other
        _put(other, B, f"r{number}")
        _put_at_last(store, A, f"r{number}")
    until(lambda: _is_assumed_after(store), "it knows everything")
    _put(other, B, "theirs")
    with pytest.raises(Conflict):
        _put(store, C, "ours")
    _do(store, f"DELETE FROM {{schema}}.folded WHERE key = '{A}'")  # by hand, past every promise: so that it would show
    turn = store.begin()
    assert sorted(turn.load([A, B, C])[A].notes) == ["r0", "r1", "r2"]
    assert sorted(turn.load([B])[B].notes) == ["r0", "r1", "r2", "theirs"]
    turn.commit([Put(C, Ref("ours"))], [], turn.fence)
    until(lambda: _is_assumed_after(store), "it knows everything again")
    turn = store.begin()
    assert [*turn.load([C])[C].notes] == ["ours"]
    assert turn.load(["nobody"])["nobody"] == EMPTY
    turn.close()
    other.close()


def _put_at_last(store: PostgresStore, key: str, id_: str) -> None:
    """As an engine does."""
    with suppress(Conflict):
        _put(store, key, id_)
        return
    _put(store, key, id_)


def _is_assumed_after(store: PostgresStore) -> bool:
    """After one more turn of its own."""
    _put(store, C, "ours")
    return store.assumed() is not None


def test_after_a_while_nothing_is_assumed(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.assumed() is not None
    monkeypatch.setattr(postgres, "FRESH", -1.0)
    assert store.assumed() is None


def test_a_connection_that_was_cut_meanwhile_is_noticed_before(store: PostgresStore) -> None:
    pid = store.writer().info.backend_pid
    _do(store, f"SELECT pg_terminate_backend({pid}, 5000)")
    until(lambda: store.assumed() is None, "its end is heard of")
    with pytest.raises(Conflict):
        _put(store, B, "r1")
    _put(store, B, "r1")
    assert _notes(store, B) == ["r1"]


def test_too_many_records_are_not_all_loaded(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "ALL_MOST", 1)
    store = PostgresStore(url)
    for number in range(10):
        _put(store, A, f"r{number}")
    assert store.assumed() is None
    assert not store.cache.is_whole
    store.close()


def test_a_whole_cache_evicts_only_absent_records() -> None:
    memory = PostgresCache(4)
    record = Put(A, Ref("r1"))
    memory.know_all({})
    memory.follow([record])
    assert memory.missing([A, B, C, "nd", "ne"]) == []
    memory.trim()
    assert memory.is_whole
    assert [*memory.records] == [A]
    memory.follow([Put(key, Ref("r1")) for key in (B, C, "nd", "ne")])
    memory.trim()
    assert not memory.is_whole
    assert memory.missing([A]) == [A]


def test_a_whole_cache_knows_what_another_server_has_changed() -> None:
    memory = PostgresCache(4)
    memory.know_all({})
    memory.follow([Put(A, Ref("r1"))])
    memory.forget([A, B])
    assert memory.missing([A, B, C]) == [A, B]
    memory.follow([Put(B, Ref("r1"))])
    assert memory.missing([B]) == [B]
    memory.records[A] = EMPTY  # as it was loaded
    assert memory.missing([A, B]) == [B]
    memory.forget(map(str, range(9)))
    memory.trim()
    assert not memory.is_whole

"""The journal in PostgreSQL: what a server that is alone leaves there, for who looks and for who comes after."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
import pytest

import leasehold
from leasehold.domain import keys
from leasehold.domain.entries import Drop, Put, Receipt, Ref
from leasehold.domain.events import Event
from leasehold.domain.timestamps import SECOND
from leasehold.errors import Conflict
from leasehold.stores import postgres
from leasehold.stores.postgres import PostgresStore, journal, transaction
from leasehold.stores.postgres.failover import EPOCH
from leasehold.testing.conformance.asking import take, until
from tests.kit.postgres import server

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

A, B, C, D = (keys.node("default", name) for name in "abcd")
HOUR = 3600 * SECOND
pytestmark = pytest.mark.usefixtures("soon_alone")
EVENT = Event("granted", 1, "default", (), "h", None, None, 0, {})


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    """One that writes a journal from now on, on top of A with r1, and B with r1 and r2."""
    store = PostgresStore(url)
    _commit(store, Put(A, Ref("r1")), Put(B, Ref("r1")), Put(B, Ref("r2")))
    while not store.may_assume():
        _commit(store, Put(A, Ref("r1")))
    yield store
    store.close()


@pytest.fixture
def other(url: str) -> Iterator[PostgresStore]:
    other = PostgresStore(url)
    yield other
    other.close()


def _commit(store: PostgresStore, *changes: Put | Drop, events: Sequence[Event] = ()) -> None:
    """As an engine does."""
    for _ in range(2):
        turn = store.begin()
        try:
            turn.load([change.key for change in changes])
            with suppress(Conflict):
                turn.commit(changes, events, turn.fence)
                return
        finally:
            turn.close()
    raise AssertionError("refused twice")


def _ask(store: PostgresStore, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server().url, autocommit=True) as connection:
        cursor = connection.execute(query.replace("{schema}", store.address.schema))
        return cursor.fetchall() if cursor.description else []


def _journal(store: PostgresStore) -> int:
    """How many entries it says something about."""
    return len(_ask(store, "SELECT 1 FROM {schema}.journal"))


def _folded(store: PostgresStore) -> dict[str, list[str]]:
    """What is in the table."""
    found: dict[str, list[str]] = {}
    for key, id_ in _ask(store, "SELECT key, id FROM {schema}.folded ORDER BY key, id"):
        found.setdefault(str(key), []).append(str(id_))
    return found


def _seen(store: PostgresStore) -> dict[str, list[str]]:
    """What somebody sees who looks, in each way there is."""
    read = {key: sorted(record.notes) for key, record in store.read([A, B, C, D])[1].items() if record.notes}
    scanned = [(key, sorted(record.notes)) for key, record in store.scan("n")]
    assert [key for key, _ in scanned] == sorted(read)
    assert dict(scanned) == read
    rows = _ask(store, "SELECT key, id, body FROM {schema}.entry")
    assert sorted((key, id_) for key, id_, _ in rows) == sorted((key, id_) for key in read for id_ in read[key])
    assert all(json.loads(str(body)) == ["r", id_] for _, id_, body in rows)
    return read


def _loaded(store: PostgresStore) -> dict[str, list[str]]:
    """What somebody sees who has a turn, and leaves it as it was."""
    turn = store.begin()
    try:
        records = turn.load([A, B, C, D])
        return {key: sorted(records[key].notes) for key in (A, B, C, D) if records[key].notes}
    finally:
        turn.close()


# ------------------------------------------------------------------------------------------- what is seen


def test_what_is_in_the_journal_is_seen_and_not_in_the_table(store: PostgresStore, other: PostgresStore) -> None:
    before = _folded(store)
    steps: list[tuple[list[Put | Drop], dict[str, list[str]]]] = [
        ([Put(C, Ref("r1"))], {A: ["r1"], B: ["r1", "r2"], C: ["r1"]}),
        ([Put(A, Ref("r1")), Put(C, Ref("r2"))], {A: ["r1"], B: ["r1", "r2"], C: ["r1", "r2"]}),
        ([Drop(A, "r1"), Drop(C, "r1")], {B: ["r1", "r2"], C: ["r2"]}),
        ([Drop(B, "r2")], {B: ["r1"], C: ["r2"]}),
        ([Put(A, Ref("r1")), Put(B, Ref("r3")), Drop(B, "r1")], {A: ["r1"], B: ["r3"], C: ["r2"]}),
        ([Drop(C, "r2"), Drop(D, "r9"), Drop(A, "r1")], {B: ["r3"]}),
        ([Put(B, Ref("r2"))], {B: ["r2", "r3"]}),
    ]
    for changes, wanted in steps:
        assert store.may_assume()
        _commit(store, *changes)
        assert _folded(store) == before
        assert _seen(store) == _seen(other) == _loaded(store) == wanted
    assert _journal(store) > 0
    assert _loaded(other) == wanted
    _commit(other, Put(D, Ref("r1")))
    assert _seen(store) == _seen(other) == _folded(store) == {**wanted, D: ["r1"]}
    assert _journal(store) == 0


def test_people_see_what_is_held_in_the_journal(store: PostgresStore, url: str) -> None:
    with leasehold.connect(url, holder="ada") as locks:
        for _ in range(5):  # after which it writes a journal
            kept = take(locks, "kept")
            locks.release(kept.lease.id, kept.token)
        kept, gone = take(locks, "kept", ttl=60), take(locks, "gone")
        assert _leases(store) == {kept.lease.id, gone.lease.id}
        locks.release(gone.lease.id, gone.token)
        assert _leases(store) == {kept.lease.id}
        assert not any(kept.lease.id in ids for ids in _folded(store).values())
        renewed = locks.renew(kept.lease.id, kept.token, ttl=7200)
        assert isinstance(renewed, leasehold.Renewed)
        (row,) = _ask(store, "SELECT expires_at > now() + interval '1 hour', fence FROM {schema}.leases")
        assert row == (True, kept.lease.fence)


def _leases(store: PostgresStore) -> set[object]:
    return {id_ for (id_,) in _ask(store, "SELECT id FROM {schema}.leases")}


def test_what_is_due_is_found_in_the_journal(store: PostgresStore) -> None:
    _commit(store, Put(C, Receipt("r", "nonce", 5)), Put(D, Receipt("r", "nonce", 3)), Put(D, Ref("r1")))
    _commit(store, Put(C, Receipt("r", "nonce", 1)))
    assert _journal(store) == 3
    turn = store.begin()
    turn.load([A])
    assert turn.due(10) == [C, D]
    turn.close()


def test_a_record_is_found_by_its_key_and_not_by_looking_at_all(store: PostgresStore) -> None:
    rows = "SELECT 'n' || md5(i::text), 'r1', i, '[\"r\",\"r1\"]' FROM generate_series(1, 20000) AS i"
    _ask(store, f"INSERT INTO {{schema}}.folded {rows}; ANALYZE {{schema}}.folded")
    query = "EXPLAIN " + store.connections.queries["read"].replace("%(keys)s", f"'{A}\x1f{B}'")
    for changes in ([Put(C, Ref("r1"))], []):
        _commit(store, *changes, events=[EVENT])
        plan = "\n".join(str(line) for (line,) in _ask(store, query))
        assert "folded_pkey" in plan
        assert "Seq Scan on folded" not in plan


# ------------------------------------------------------------------------------------ who comes after


_VICTIM = """
import sys
from leasehold.domain.entries import Drop, Put, Ref
from leasehold.stores import postgres
from leasehold.stores.postgres import PostgresStore, transaction
postgres.PRACTICE = postgres.ALONE = 2
postgres.FRESH, transaction.LAG = 1e9, 3600_000_000
store = PostgresStore(sys.argv[1])
def commit(*changes):
    turn = store.begin()
    turn.load([change.key for change in changes])
    turn.commit(changes, [], turn.fence)
a, b, c = sys.argv[2:]
commit(Put(a, Ref("r1")), Put(b, Ref("r1")))
while not store.may_assume():
    commit(Put(a, Ref("r2")))
commit(Drop(a, "r1"), Put(c, Ref("r1")))
commit(Put(c, Ref("r2")), Put(b, Ref("r1")))
commit(Drop(c, "r1"))
turn = store.begin()
turn.load([a])
print(store.journal.since, flush=True)
sys.stdin.read()
"""


def test_a_journal_of_a_server_that_was_killed_is_brought_into_the_table(url: str) -> None:
    command = [sys.executable, "-c", _VICTIM, url, A, B, C]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        assert int(victim.stdout.readline()) > 0
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    store = PostgresStore(url)
    left = {A: ["r2"], B: ["r1"], C: ["r2"]}
    assert _journal(store) > 0
    assert _folded(store) != left
    assert _seen(store) == _loaded(store) == left
    _commit(store, Put(D, Ref("r1")))
    assert _folded(store) == _seen(store) == {**left, D: ["r1"]}
    assert _journal(store) == 0
    store.close()


def test_a_fold_that_was_not_committed_is_done_again(store: PostgresStore, other: PostgresStore) -> None:
    _commit(store, Put(C, Ref("r1")), Drop(A, "r1"))
    before = _folded(store)
    for _ in range(2):
        assert _loaded(other) == {B: ["r1", "r2"], C: ["r1"]}
        assert _folded(store) == before
        assert _journal(store) == 2
    assert store.may_assume(), "nobody else has had a turn that counts"
    _commit(store, Put(C, Ref("r2")), Put(A, Ref("r3")))
    assert _folded(store) == before
    _commit(other, Drop(B, "r1"))
    assert _folded(store) == _seen(store) == {A: ["r3"], B: ["r2"], C: ["r1", "r2"]}


def test_a_turn_that_was_waited_for_folds_its_own_journal(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _commit(store, Put(C, Ref("r1")))
    monkeypatch.setattr(postgres, "FRESH", -1.0)  # as after a while without any
    assert _loaded(store) == {A: ["r1"], B: ["r1", "r2"], C: ["r1"]}
    assert _journal(store) == 1
    assert store.journal.since is not None
    monkeypatch.setattr(postgres, "FRESH", 1e9)
    _commit(store, Drop(C, "r1"), Put(D, Ref("r1")))  # it goes on where it was
    monkeypatch.setattr(postgres, "FRESH", -1.0)
    _commit(store, Put(D, Ref("r2")))
    assert store.journal.since is None
    assert _folded(store) == _seen(store) == {A: ["r1"], B: ["r1", "r2"], D: ["r1", "r2"]}
    monkeypatch.setattr(postgres, "FRESH", 1e9)
    _commit(store, Drop(D, "r1"))  # a new one
    assert _journal(store) == 1
    assert _seen(store) == {A: ["r1"], B: ["r1", "r2"], D: ["r2"]}


def test_after_a_promotion_the_journal_counts(store: PostgresStore, url: str) -> None:
    _commit(store, Put(C, Ref("r1")), Drop(A, "r1"))
    fence = store.certain.fence if store.certain else 0
    _ask(store, "UPDATE {schema}.meta SET timeline = '0000002A'")  # as a standby finds it that was promoted
    later = PostgresStore(url)
    turn = later.begin()
    assert [*turn.load([C])[C].notes] == ["r1"]
    assert turn.load([A])[A].notes == {}
    assert turn.fence == fence + EPOCH
    turn.commit([Put(D, Ref("r1"))], [], turn.fence)
    _commit(store, Put(D, Ref("r2")))
    assert _folded(store) == _seen(store) == {B: ["r1", "r2"], C: ["r1"], D: ["r1", "r2"]}
    later.close()


def test_a_turn_of_ours_that_is_not_there_any_more_was_never_journalled(store: PostgresStore) -> None:
    """As on a standby that lacked the last commits when it was promoted."""
    _commit(store, Put(C, Ref("r1")))
    _commit(store, Put(C, Ref("r2")))
    last = "number = (SELECT max(number) FROM {schema}.turn)"
    _ask(store, f"DELETE FROM {{schema}}.page WHERE {last}; DELETE FROM {{schema}}.turn WHERE {last}")
    _commit(store, Put(D, Ref("r1")))
    assert _folded(store) == _seen(store) == {A: ["r1"], B: ["r1", "r2"], C: ["r1"], D: ["r1"]}


def test_a_commit_of_unknown_outcome_is_found_in_the_journal(store: PostgresStore) -> None:
    turn = store.begin()
    turn.load([C])
    sent = turn.send_commit([Put(C, Receipt("receipt", "n1", 5))], [EVENT], turn.fence)
    until(sent.is_answered, "it was committed")
    turn.close()  # and nobody has listened
    assert store.read([C])[1][C].notes["receipt"] == Receipt("receipt", "n1", 5)
    assert _journal(store) == 1
    assert not store.may_assume()
    _commit(store, Put(D, Ref("r1")))
    assert {C, D} <= _folded(store).keys()
    assert _journal(store) == 0


@pytest.mark.parametrize("how", ["refused", "too late", "impossible", "cut", "cancelled"])
def test_what_was_not_committed_is_not_remembered(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    _commit(store, Put(C, Ref("r1")))
    turn = store.begin()
    turn.load([D])
    events = [EVENT._replace(kind="\ud800")] if how == "impossible" else []  # half a character: it cannot be sent
    if how == "refused":
        _ask(store, "SELECT setval('{schema}.fence', 1000, false)")
    if how == "cut":
        _ask(store, f"SELECT pg_terminate_backend({store.writer().info.backend_pid}, 5000)")
    monkeypatch.setattr(transaction, "_PATIENCE", b"50ms")
    with psycopg.connect(server().url) as keeper:
        keeper.execute("SELECT pg_advisory_xact_lock(%s)", [store.address.salt if how == "too late" else 1])
        if how == "cancelled":  # by the administrator of the database, while the commit waits for something
            keeper.execute(f"LOCK TABLE {store.address.schema}.journal")
            store.writer().execute("SET statement_timeout = '50ms'")
        with pytest.raises((leasehold.LeaseholdError, UnicodeEncodeError)):
            turn.commit([Put(D, Ref("r1")), Drop(C, "r1")], events, turn.fence)
    monkeypatch.setattr(transaction, "_PATIENCE", b"5s")
    turn.close()
    if how == "cancelled":
        store.writer().execute("SET statement_timeout = 0")
    wanted = {A: ["r1"], B: ["r1", "r2"], C: ["r1"]}
    assert _seen(store) == wanted
    _commit(store, Put(A, Ref("r2")))
    until(lambda: _is_assumed_after(store), "it writes a journal again")
    _commit(store, Put(C, Ref("r2")))
    monkeypatch.setattr(journal, "FULL", 1)
    _commit(store, Put(B, Ref("r2")))
    assert _seen(store) == _folded(store) == {**wanted, A: ["r1", "r2"], C: ["r1", "r2"]}


def _is_assumed_after(store: PostgresStore) -> bool:
    """After two more turns of its own: one that may find out that it was not alone, and one that counts."""
    _commit(store, Put(A, Ref("r2")))
    _commit(store, Put(A, Ref("r2")))
    return store.may_assume()


# ------------------------------------------------------------------------------------------ when it is full


@pytest.mark.parametrize(("limit", "most"), [("FULL", 12), ("LARGE", 700)])
def test_a_full_journal_is_brought_into_the_table(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(journal, limit, most)
    chance = random.Random(3)
    wanted = {A: {"r1"}, B: {"r1", "r2"}, C: set[str](), D: set[str]()}
    folds = 0
    for number in range(60):
        key, id_ = chance.choice((A, B, C, D)), f"r{chance.randrange(4)}"
        changes: list[Put | Drop] = [Put(D, Ref("always"))]
        changes.append(Put(key, Ref(id_)) if number % 3 else Drop(key, id_))
        _commit(store, *changes)
        wanted[D].add("always")
        (wanted[key].add if number % 3 else wanted[key].discard)(id_)
        expected = {key: sorted(ids) for key, ids in wanted.items() if ids}
        assert _seen(store) == expected
        assert store.may_assume()
        if store.journal.since is None:
            folds += 1
            assert _folded(store) == expected
            assert _journal(store) == 0
    assert 4 < folds < 30


def test_what_came_and_went_in_the_journal_never_touches_the_table(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ask(store, "CREATE TABLE {schema}.touched (id text)")
    _ask(
        store,
        "CREATE FUNCTION {schema}.touch() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO {schema}.touched VALUES (coalesce(NEW.id, OLD.id)); RETURN NULL; END $$; "
        "CREATE TRIGGER touch AFTER INSERT OR UPDATE OR DELETE ON {schema}.folded "
        "FOR EACH ROW EXECUTE FUNCTION {schema}.touch()",
    )
    for number in range(3):
        _commit(store, Put(C, Ref(f"brief{number}")))
        _commit(store, Drop(C, f"brief{number}"))
    monkeypatch.setattr(journal, "FULL", 1)
    _commit(store, Put(C, Ref("stays")), Drop(B, "r2"))
    assert sorted(_ask(store, "SELECT id FROM {schema}.touched")) == [("r2",), ("stays",)]
    assert _folded(store) == {A: ["r1"], B: ["r1"], C: ["stays"]}


def test_nothing_in_the_journal_is_forgotten_with_old_turns(store: PostgresStore, other: PostgresStore) -> None:
    """Though there are more than are kept."""
    for number in range(1_150):
        _commit(store, Put(C, Ref(f"r{number}")))
    assert _ask(store, "SELECT min(number) > 4, max(since) FROM {schema}.turn") == [(True, 4)]
    assert len(store.read([C])[1][C].notes) == 1_150
    _commit(other, Put(D, Ref("r1")))
    assert len(_folded(store)[C]) == 1_150


def test_pages_are_written_over_and_not_added(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "FULL", 30)
    large = "x" * 1_000
    most = 0
    for number in range(100):
        changes = [Put(C, Receipt(f"r{each}", f"{large}{number}", 5)) for each in range(number % 9)]
        _commit(store, *changes, Drop(C, f"r{number % 5}"))
        if number == 50:
            most = len(_ask(store, "SELECT 1 FROM {schema}.page"))
    (row,) = _ask(store, "SELECT count(*), min(slot), max(slot) + 1, max(length(body)) FROM {schema}.page")
    count, least, after, longest = map(int, map(str, row))
    assert (least, after) == (0, count)
    assert count <= most + 3
    assert longest == 3_900


def test_a_journal_of_many_pages_is_put_together_again(store: PostgresStore, other: PostgresStore) -> None:
    """Also where a character lies on the border of two, and where one is shorter than what was there before."""
    wanted: dict[str, Receipt] = {}
    for rounds in range(3):
        for number, length in enumerate((20_000, 3, 3_900, 7_800, 1, 11_111)):
            receipt = Receipt(f"r{number}", "äß€" * (length // (1 + rounds)), 5)
            wanted[receipt.id] = receipt
            _commit(store, Put(C, receipt))
            assert other.read([C])[1][C].notes == wanted
        assert _journal(store) > 0
        _commit(other, Drop(D, "r9"))
        assert _journal(store) == 0
        assert other.read([C])[1][C].notes == wanted
        until(lambda: _is_assumed_after(store), "it writes a journal again")

"""The history in PostgreSQL: many events a row, found one by one; old ones forgotten, those of old versions kept."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from leasehold.model import Event
from leasehold.stores import HistoryQuery
from leasehold.stores.postgres import HISTORY_AT_ONCE, PostgresStore
from leasehold.stores.postgres.address import parse
from leasehold.stores.postgres.queries import Queries, migrations
from leasehold.stores.postgres.transaction import SCHEMA_VERSION
from leasehold.stores.quick_json import encode
from leasehold.testing.conformance.asking import Asking, until
from tests.stores.postgres import schema, server, take_time

if TYPE_CHECKING:
    from collections.abc import Iterator

ODD = 'caf\u00e9 "quoted" \\ \u4e2d'
EVENTS = [
    Event("granted", 10, "default", ("a", "b"), "ada", None, "l1-x", 1, {"ttl": 5}),
    Event("released", 20, "default", ("a", "b"), "ada", None, "l1-x", 1, {"error": "nul \0, half \ud800"}),
    Event("granted", 30, "team/one", (ODD,), ODD, "s1", "l2-y", 2, {}),
    Event("refused", 40, "default", ("a",), "bob", None, None, 0, {"holder": "ada"}),
]
QUERIES: list[dict[str, Any]] = [
    {},
    {"space": "team/one"},
    {"resource": "a"},
    {"resource": ODD},
    {"holder": "ada"},
    {"holder": ODD},
    {"lease": "l1-x"},
    {"kinds": ("granted", "refused")},
    {"since": 20},
    {"before": 3},
    {"limit": 2},
    {"limit": 0},
    {"resource": "b", "holder": "ada", "kinds": ("granted",)},
    {"holder": "nobody"},
]


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    take_time(monkeypatch)


@contextmanager
def _store(more: str = "") -> Iterator[PostgresStore]:
    with schema() as url:
        store = PostgresStore(url + more)
        try:
            yield store
        finally:
            store.close()


def _tell(store: PostgresStore, *events: Event) -> None:
    transaction = store.begin()
    transaction.commit([], events, transaction.fence)


@pytest.mark.parametrize("together", [True, False])
def test_what_is_asked_for_is_found_whoever_else_was_in_the_same_turn(together: bool) -> None:
    with _store() as store:
        for turn in [EVENTS] if together else [[event] for event in EVENTS]:
            _tell(store, *turn)
        numbered = [event._replace(seq=seq) for seq, event in enumerate(EVENTS, 1)]
        for words in QUERIES:
            query = HistoryQuery(**words)
            wanted = [event for event in reversed(numbered) if query.wants(event)][: query.limit]
            assert store.history(query) == wanted, words


@pytest.mark.parametrize("in_ascii", [True, False])
def test_however_a_server_writes_its_json_it_is_found(in_ascii: bool) -> None:
    """Without the server's own library all that is not ASCII is escaped."""
    with _store() as store:
        with store.connections.looking() as connection:
            connection.execute(
                f"INSERT INTO {store.address.schema}.history VALUES (7, 30, 1, 'granted', %s)",
                (json.dumps([EVENTS[2]], ensure_ascii=in_ascii),),
            )
        for query in (HistoryQuery(resource=ODD), HistoryQuery(holder=ODD)):
            assert store.history(query) == [EVENTS[2]._replace(seq=7)]


def test_more_than_is_read_at_once() -> None:
    with _store() as store:
        _tell(store, EVENTS[0])
        for _ in range(HISTORY_AT_ONCE + 5):
            _tell(store, EVENTS[3], EVENTS[3])
        found = store.history(HistoryQuery(limit=1_000))
        assert [event.seq for event in found] == [*range(2 * HISTORY_AT_ONCE + 11, 0, -1)]
        assert store.history(HistoryQuery(kinds=("granted",), limit=3))[0].seq == 1


def test_old_events_are_forgotten_and_the_newest_kept() -> None:
    with _store("&retention_rows=2") as store:
        for _ in range(3):
            _tell(store, EVENTS[0]._replace(at_us=2**50), EVENTS[1]._replace(at_us=2**52))
        assert store.prune() == 4
        assert store.prune() == 0
        assert [event.seq for event in store.history(HistoryQuery())] == [6, 5]
        _tell(store, EVENTS[0])
        assert [event.seq for event in store.history(HistoryQuery())] == [7, 6, 5]


# ------------------------------------------------------------------------------- from the first version


@pytest.fixture
def old() -> Iterator[str]:
    """A database as the first version left it, in use, with a role of its own for the servers."""
    with schema() as url:
        name, queries = parse(url).schema, Queries(parse(url).schema)
        with psycopg.connect(server().url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}; CREATE ROLE role_{name} LOGIN")
            connection.execute(queries.in_schema(migrations()[0][1]))
            connection.execute(
                f"INSERT INTO {name}.meta SELECT true, 1, 'd', system_identifier::text, "
                "substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8), 1, 0, 1 FROM pg_control_system()"
            )
            connection.execute(f"SELECT nextval('{name}.fence'), nextval('{name}.fence')")  # 1, and the block from 1025
            for event in EVENTS[:1] + EVENTS[2:]:
                connection.execute(
                    f"INSERT INTO {name}.event (kind, at, space, resources, holder, session, lease, fence, detail) "
                    "VALUES (%s, %s, %s, %s::jsonb, %s, %s, %s, %s, %s::json)",
                    _columns(event),
                )
            connection.execute(f"INSERT INTO {name}.entry VALUES ('n1', 'r1', NULL, '[\"r\",\"r1\"]')")
            connection.execute(f"GRANT USAGE ON SCHEMA {name} TO role_{name}")
            connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {name}.entry, {name}.event TO role_{name}")
            connection.execute(f"GRANT SELECT, UPDATE ON {name}.meta TO role_{name}")
            sequences = f"{name}.fence, {name}.latest, {name}.event_seq"
            connection.execute(f"GRANT SELECT, UPDATE ON SEQUENCE {sequences} TO role_{name}")
            yield url
            connection.execute(f"DROP OWNED BY role_{name}; DROP ROLE role_{name}")


def _columns(event: Event) -> list[object]:
    kind, at, space, resources, holder, session, lease, fence, detail, _ = event
    told = encode(detail).decode() if detail else None
    return [kind, at, space, encode(resources).decode(), holder, session, lease, fence, told]


def test_a_database_of_the_first_version_is_brought_up_to_date(old: str) -> None:
    PostgresStore(old).close()  # by its owner
    store = PostgresStore(old.replace("postgres@", f"role_{parse(old).schema}@"))
    try:
        kept = [event._replace(seq=seq) for seq, event in enumerate(EVENTS[:1] + EVENTS[2:], 1)]
        assert store.history(HistoryQuery()) == kept[::-1]
        transaction = store.begin()
        assert transaction.fence == 1025 + 1024, "no number of a block that somebody has"
        assert [*transaction.load(["n1"])["n1"].notes] == ["r1"]
        transaction.commit([], EVENTS[:1], transaction.fence + 1)
        assert store.history(HistoryQuery(limit=1))[0].seq == 4
        assert store.prune() == 4, "they are very old"
    finally:
        store.close()


def test_the_events_of_a_usual_turn_stay_in_their_row() -> None:
    """Else each turn writes a second one, and into a second index."""
    told = {"status": "completed", "error": None, "acquired_at": 1_794_805_049_945_396, "mode": "X"}
    usual = [
        Event("released", 5, "default", (f"name-{n}",), f"h{n}", None, f"l{n}-{n * 7**40:034x}", n, told)
        for n in range(50)
    ]
    with _store() as store, psycopg.connect(server().url) as connection:
        _tell(store, *usual)
        row = connection.execute(
            "SELECT pg_column_size(events), pg_relation_size(reltoastrelid) "
            f"FROM {store.address.schema}.history, pg_class WHERE oid = '{store.address.schema}.history'::regclass"
        ).fetchone()
        assert row is not None
        assert 2_000 < row[0] < 8_000
        assert row[1] == 0
        assert len(store.history(HistoryQuery())) == 50


def test_what_a_server_of_the_first_version_is_about_to_write_is_waited_for(old: str) -> None:
    address = parse(old)
    with psycopg.connect(server().url) as theirs:
        theirs.execute("SELECT count(pg_advisory_xact_lock_shared(%s))", (address.salt,))
        asking = Asking(lambda: PostgresStore(old))
        until(_somebody_waits, "the migration waits")
        theirs.execute(
            f"INSERT INTO {address.schema}.event (at, kind, space, fence, holder, resources) "
            "VALUES (50, 'renewed', 'default', 1, 'ada', '[]')"
        )
        theirs.commit()
        store = asking.answer()
    try:
        assert store.history(HistoryQuery(limit=1))[0].kind == "renewed"
    finally:
        store.close()


def _somebody_waits() -> bool:
    with psycopg.connect(server().url) as connection:
        row = connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchone()
        return row != (0,)


def test_a_server_of_the_first_version_says_that_it_has_to_be_updated(old: str) -> None:
    PostgresStore(old).close()
    with psycopg.connect(server().url) as connection:
        row = connection.execute(f"SELECT version FROM {parse(old).schema}.meta").fetchone()
    assert row == (SCHEMA_VERSION,)

"""The history in PostgreSQL: many events a row, found one by one; old ones forgotten, those of old versions kept."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from leasehold.domain.events import Event
from leasehold.stores import HistoryQuery
from leasehold.stores.postgres import HISTORY_AT_ONCE, PostgresStore
from tests.kit.postgres import schema, server, take_time

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
def test_events_are_found_whatever_else_is_in_their_turn(together: bool) -> None:
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

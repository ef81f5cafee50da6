"""What a PostgreSQL store remembers is true: no turn of anybody else goes unnoticed, and nothing is loaded twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from leasehold.domain import keys
from leasehold.domain.entries import Put, Receipt, Ref
from leasehold.domain.records import apply
from leasehold.errors import Conflict
from leasehold.stores.postgres import PostgresStore
from tests.kit.postgres import schema, server, take_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from leasehold.domain.entries import Record

A, B, C = (keys.node("default", name) for name in "abc")
ENGINE = keys.engine("one")


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    take_time(monkeypatch)


class Pair:
    """Two servers' stores."""

    def __init__(self, url: str) -> None:
        self.one, self.two = PostgresStore(url), PostgresStore(url)

    def put(self, store: PostgresStore, key: str, id_: str) -> None:
        transaction = store.begin()
        transaction.load([key])
        transaction.commit([Put(key, Ref(id_))], [], transaction.fence)

    def ids(self, store: PostgresStore, wanted: Sequence[str]) -> list[list[str]]:
        """What is in these records, as a transaction sees it."""
        transaction = store.begin()
        try:
            loaded = transaction.load(wanted)
            return [[*loaded[key].notes] for key in wanted]
        finally:
            transaction.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    with schema() as url:
        pair = Pair(url)
        yield pair
        pair.one.close()
        pair.two.close()


def _do(pair: Pair, statement: str) -> None:
    with psycopg.connect(server().url, autocommit=True) as connection:
        connection.execute(statement.replace("{schema}", pair.one.address.schema))


def test_without_another_server_nothing_is_loaded_twice(pair: Pair) -> None:
    pair.put(pair.one, A, "r1")
    _do(pair, "DELETE FROM {schema}.folded")  # by hand, past every promise: so that it would show
    assert pair.ids(pair.one, [A]) == [["r1"]]


def test_what_another_server_has_changed_is_loaded_and_nothing_else(pair: Pair) -> None:
    for store in (pair.two, pair.one, pair.two, pair.one):  # from then on they know of each other
        pair.put(store, A, "r1")
    pair.put(pair.one, B, "r2")
    assert pair.ids(pair.two, [A, B, C]) == [["r1"], ["r2"], []]
    pair.put(pair.one, B, "r3")
    pair.put(pair.one, C, "r4")
    _do(pair, f"DELETE FROM {{schema}}.folded WHERE key = '{A}'")
    assert pair.ids(pair.two, [A, B, C]) == [["r1"], ["r2", "r3"], ["r4"]]


def test_a_server_that_did_not_say_what_it_changed_is_not_trusted_to_have_changed_little(pair: Pair) -> None:
    pair.put(pair.one, A, "r1")
    assert pair.ids(pair.two, [A]) == [["r1"]]
    pair.put(pair.one, A, "r2")
    assert _keys_of_last_turn(pair) is None  # it has seen no turn of anybody else
    assert pair.ids(pair.two, [A]) == [["r1", "r2"]]


def _keys_of_last_turn(pair: Pair) -> object:
    with psycopg.connect(server().url) as connection:
        last = f"SELECT keys FROM {pair.one.address.schema}.turn ORDER BY number DESC LIMIT 1"
        row = connection.execute(last).fetchone()
        assert row is not None
        return row[0]


@pytest.mark.parametrize("gone", ["DELETE FROM {schema}.turn WHERE number < 7", "UPDATE {schema}.turn SET id = number"])
def test_if_the_turn_that_is_known_is_gone_everything_is_loaded(pair: Pair, gone: str) -> None:
    """As after a thousand others; or as after a crash that has lost commits, where somebody had allowed that."""
    for store in (pair.two, pair.one, pair.two, pair.one):
        pair.put(store, A, "r1")
    assert pair.ids(pair.one, [A, B]) == [["r1"], []]
    pair.put(pair.two, B, "r2")
    pair.put(pair.two, B, "r3")
    pair.put(pair.two, C, "r4")
    _do(pair, gone)
    _do(pair, "UPDATE {schema}.turn SET keys = '' WHERE number < 7")
    assert pair.ids(pair.one, [A, B]) == [["r1"], ["r2", "r3"]]


def test_another_past_with_as_many_turns_is_noticed(pair: Pair) -> None:
    """As after a crash that has lost commits, where somebody had allowed that."""
    pair.put(pair.one, A, "r1")
    _do(pair, "DELETE FROM {schema}.folded")
    _do(pair, "UPDATE {schema}.turn SET id = 'another'")
    assert pair.ids(pair.one, [A]) == [[]]


def test_only_the_last_thousand_turns_are_kept(pair: Pair) -> None:
    pair.put(pair.one, A, "r1")
    _do(pair, "UPDATE {schema}.turn SET number = 2099")
    _do(pair, "INSERT INTO {schema}.turn VALUES (7, 'very old', ''), (1100, 'old', ''), (1101, 'less old', '')")
    pair.put(pair.one, A, "r2")
    with psycopg.connect(server().url) as connection:
        rows = connection.execute(f"SELECT number FROM {pair.one.address.schema}.turn ORDER BY 1").fetchall()
    assert rows == [(1101,), (2099,), (2100,)]


def test_two_turns_cannot_have_the_same_number(pair: Pair) -> None:
    transaction = pair.one.begin()
    transaction.load([A])
    _do(pair, "INSERT INTO {schema}.turn VALUES (1, 'of somebody who went past the lock', '')")
    with pytest.raises(Conflict):
        transaction.commit([Put(A, Ref("r1"))], [], transaction.fence)
    transaction.close()
    pair.put(pair.one, A, "r2")
    assert pair.ids(pair.two, [A]) == [["r2"]]


def test_an_entry_that_is_there_against_all_knowledge_is_found_out(pair: Pair) -> None:
    pair.put(pair.one, A, "r1")
    _do(pair, f"INSERT INTO {{schema}}.folded VALUES ('{A}', 'r2', NULL, '[\"r\",\"r2\"]')")
    transaction = pair.one.begin()
    transaction.load([A])
    with pytest.raises(Conflict):
        transaction.commit([Put(A, Ref("r2"))], [], transaction.fence)
    transaction.close()
    assert pair.ids(pair.one, [A]) == [["r1", "r2"]]


def test_records_given_to_a_commit_are_cached_and_receipts_with_them(pair: Pair) -> None:
    def commit(receipt: str) -> Record:
        transaction = pair.one.begin()
        loaded = transaction.load([A, ENGINE])
        change = Put(A, Ref(receipt))
        changes = [change, Put(ENGINE, Receipt("receipt", receipt, 1))]
        transaction.commit(changes, [], transaction.fence, {A: apply(loaded[A], change)})
        return pair.one.cache.records[ENGINE]

    commit("r1")
    assert commit("r2") == pair.one.read([ENGINE])[1][ENGINE]
    assert pair.one.cache.records[A] == pair.one.read([A])[1][A]


def test_an_entry_that_was_not_known_is_found_out_at_the_commit(pair: Pair) -> None:
    pair.put(pair.one, A, "r1")
    _do(pair, f"INSERT INTO {{schema}}.folded VALUES ('{A}', 'r2', NULL, '[\"r\",\"r2\"]')")  # by hand
    transaction = pair.one.begin()
    transaction.load([A])
    with pytest.raises(Conflict):
        transaction.commit([Put(A, Ref("r2"))], [], transaction.fence)
    transaction.close()
    assert pair.ids(pair.one, [A]) == [["r1", "r2"]], "nothing is remembered after that"

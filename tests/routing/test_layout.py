"""Everybody who uses a store agrees on its number of lanes; a process that believes in another one is refused.

It would look for the lock of a name where nobody else does, and so grant it twice.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

import psycopg
import pytest

import leasehold
from leasehold.domain.outcomes import Granted, Held
from leasehold.errors import InvalidInput, StoreError, StoreUnsuitable
from leasehold.routing.answers import LaneAnswers
from leasehold.routing.lanes import every_lane, lane_of_space
from leasehold.stores.etcd import EtcdStore, lanes, messages, rows
from leasehold.stores.layout import Layout
from leasehold.stores.postgres import PostgresStore
from leasehold.stores.postgres.address import parse
from leasehold.testing.conformance.asking import take, until
from leasehold.testing.processes import in_a_process
from tests.kit import etcd, postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasehold.locks.sync import Locks

LANES = 4
SPACES = [next(f"s{n}" for n in range(200) if lane_of_space(f"s{n}", LANES) == lane) for lane in range(1, LANES + 1)]
"""One for each lane."""
FAMILIAR = 60
"""So many cycles let a server decide before its turn."""


class Place(Protocol):
    """An empty place for a store, and what an operator may do to it."""

    def url(self, lanes: int | None = None) -> str:
        """The URL of the store, with this number in it."""

    def declare(self, lanes: int) -> None:
        """Write this number into every lane, as a change of the number does."""

    def remove(self, lane: int) -> None:
        """Remove this lane."""

    def url_of_lane(self, lane: int) -> str:
        """The URL of a lane as if it were a store."""


class OnPostgres:
    def __init__(self, url: str) -> None:
        self._url = url
        self._schema = parse(url).schema

    def url(self, lanes: int | None = None) -> str:
        return self._url if lanes is None else f"{self._url}&lanes={lanes}"

    def _run(self, statement: str) -> None:
        with psycopg.connect(self._url.partition("?")[0], autocommit=True) as connection:
            connection.execute(statement)

    def declare(self, lanes: int) -> None:
        for lane in every_lane(LANES):
            self._run(f"UPDATE {self._schema}{f'_{lane}' if lane else ''}.meta SET lanes = {lanes}")

    def remove(self, lane: int) -> None:
        self._run(f"DROP SCHEMA {self._schema}_{lane} CASCADE")

    def url_of_lane(self, lane: int) -> str:
        return f"{self._url}_{lane}"


class OnEtcd:
    def __init__(self, url: str) -> None:
        self._url = url

    def url(self, lanes: int | None = None) -> str:
        return self._url if lanes is None else f"{self._url}?lanes={lanes}"

    def _stores(self) -> Iterator[EtcdStore]:
        control = EtcdStore(self._url)
        yield control
        for lane in range(1, LANES + 1):
            store = control.lane(lane)
            yield store
            store.close()
        control.close()

    def declare(self, lanes: int) -> None:
        for store in self._stores():
            name = store.names.meta
            meta = rows.meta_of(rows.only(store.txn([], [messages.get(name)], []).responses[0]))
            store.txn([], [messages.put(name, rows.meta_data(meta._replace(lanes=lanes)))], [])

    def remove(self, lane: int) -> None:
        for store in self._stores():
            if store.layout.lane == lane:
                prefix = store.names.prefix
                store.txn([], [messages.delete(prefix, rows.after(prefix))], [])

    def url_of_lane(self, lane: int) -> str:
        return f"{self._url}/{lane}"


@contextmanager
def _on_postgres() -> Iterator[Place]:
    with postgres.schema(None) as url:
        yield OnPostgres(url)


@contextmanager
def _on_etcd() -> Iterator[Place]:
    yield OnEtcd(etcd.empty(None))


PLACES = {"postgres": _on_postgres, "etcd": _on_etcd}


@pytest.fixture(params=sorted(PLACES))
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with PLACES[request.param]() as opened:
        yield opened


@pytest.mark.parametrize("lanes", [1, 2, 16])
def test_another_process_with_another_number_is_refused(place: Place, lanes: int) -> None:
    with leasehold.connect(place.url(LANES)) as locks:
        take(locks, "r", space=SPACES[0])
        with pytest.raises(
            StoreUnsuitable, match=f"has {LANES} lanes, and .* to work with {lanes} lane.*lanes={LANES}"
        ):
            in_a_process(leasehold.connect, place.url(lanes))
        assert len(locks.list()) == 1  # type: ignore[arg-type] # leases


@pytest.mark.parametrize("lanes", [None, LANES])
def test_another_process_finds_the_number_in_the_store(place: Place, lanes: int | None) -> None:
    with leasehold.connect(place.url(LANES), holder="ada") as one:
        for space in SPACES:
            take(one, "r", space=space)
        with in_a_process(leasehold.connect, place.url(lanes), holder="bob") as two:
            for space in SPACES:
                assert isinstance(two.acquire("r", ttl=60, space=space), Held)


def test_a_store_of_one_lane_stays_so(place: Place) -> None:
    with leasehold.connect(place.url(1), holder="ada") as locks:
        take(locks, "r")
        with pytest.raises(
            StoreUnsuitable, match=r"has 1 lane, and this process was to work with 4 lanes.* lanes=1 in"
        ):
            leasehold.connect(place.url(LANES))
        take(locks, "another")
        with leasehold.connect(place.url(), holder="bob") as other:
            assert isinstance(other.acquire("r", ttl=60), Held)
            assert _lanes_of(other) == 1


def test_a_new_store_has_four_lanes(place: Place) -> None:
    with leasehold.connect(place.url(), holder="ada") as locks:
        for space in SPACES:
            take(locks, "r", space=space)
        assert _lanes_of(locks) == LANES
        with in_a_process(leasehold.connect, place.url(LANES), holder="bob") as other:
            for space in SPACES:
                assert isinstance(other.acquire("r", ttl=60, space=space), Held)


def _lanes_of(locks: Locks) -> int:
    answers = locks._answers
    return answers._lanes.lanes if isinstance(answers, LaneAnswers) else 1


@pytest.mark.parametrize("cycles", [1, FAMILIAR], ids=["a new one", "one that decides before its turn"])
def test_a_process_is_refused_as_soon_as_the_number_changes(place: Place, cycles: int) -> None:
    with leasehold.connect(place.url(LANES)) as locks:
        held = [take(locks, "held", space=space) for space in SPACES]
        for space in SPACES:
            for _ in range(cycles):
                granted = take(locks, "r", space=space)
                locks.release(granted.lease.id, granted.token)
        place.declare(2)
        for space, granted in zip(SPACES, held, strict=True):
            for _ in range(3):
                with pytest.raises(StoreUnsuitable, match="has 2 lanes, and this process was to work with 4"):
                    locks.acquire("r", ttl=60, space=space)
            with pytest.raises(StoreUnsuitable):
                locks.renew(granted.lease.id, granted.token)
        with pytest.raises(StoreUnsuitable):
            locks.create_key(role="agent", name="ci")
        place.declare(LANES)
        for granted in held:
            assert locks.release(granted.lease.id, granted.token)  # nothing was changed meanwhile


def test_of_many_that_divide_an_empty_store_one_number_wins(place: Place) -> None:
    numbers = [None, 2, LANES, 1] * 3

    def open_with(lanes: int | None) -> Locks | None:
        try:
            return leasehold.connect(place.url(lanes), holder=f"agent {lanes}")
        except StoreUnsuitable:
            return None

    with ThreadPoolExecutor(len(numbers)) as pool, ExitStack() as stack:
        opened = [stack.enter_context(locks) for locks in pool.map(open_with, numbers) if locks is not None]
        assert opened
        for space in SPACES:
            assert sum(_takes(locks, space) for locks in opened) == 1


def _takes(locks: Locks, space: str) -> bool:
    try:
        return isinstance(locks.acquire("r", ttl=600, space=space), Granted)
    except StoreUnsuitable:
        return False


def test_a_process_that_saw_an_empty_etcd_is_refused_once_it_is_divided() -> None:
    with _on_etcd() as place, leasehold.connect(place.url(1)) as early, leasehold.connect(place.url(LANES)) as late:
        take(late, "r")
        for _ in range(3):
            with pytest.raises(StoreUnsuitable, match="has 4 lanes, and this process was to work with 1 lane"):
                early.acquire("r", ttl=60)


def test_an_etcd_store_that_is_in_use_is_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process takes a lease after this one has found the place empty."""
    divide = lanes._divide
    with _on_etcd() as place, leasehold.connect(place.url(1), holder="ada") as early:

        def divide_late(store: EtcdStore, number: int) -> bytes:
            take(early, "r")
            return divide(store, number)

        monkeypatch.setattr(lanes, "_divide", divide_late)
        with pytest.raises(StoreUnsuitable, match="has 1 lane, and this process was to work with 4 lanes"):
            leasehold.connect(place.url(LANES))
        with leasehold.connect(place.url(), holder="bob") as late:
            assert isinstance(late.acquire("r", ttl=60), Held)


def test_a_lane_is_no_store_of_its_own(place: Place) -> None:
    leasehold.connect(place.url(LANES)).close()
    with pytest.raises(StoreUnsuitable, match="is lane 2 of a store with 4 lanes"):
        leasehold.connect(place.url_of_lane(2))


def test_a_lane_that_is_gone_is_not_made_anew(place: Place) -> None:
    """Its leases may be held, and its fences would begin again."""
    leasehold.connect(place.url(LANES)).close()
    place.remove(2)
    with leasehold.connect(place.url()) as locks:
        for _ in range(2):
            with pytest.raises(StoreUnsuitable, match=r"(?i)restore .* backup"):
                locks.acquire("r", ttl=60, space=SPACES[1])
        take(locks, "r", space=SPACES[0])


@pytest.mark.parametrize("lanes", ["0", "17", "-1", "four", "", "²"])
@pytest.mark.parametrize("url", ["postgresql://127.0.0.1:1/x", "etcd://127.0.0.1:1"])
def test_a_number_that_cannot_be_is_refused(url: str, lanes: str) -> None:
    with pytest.raises(InvalidInput, match="lanes= must be a whole number from 1 to 16"):
        leasehold.connect(f"{url}?lanes={lanes}")


@pytest.mark.parametrize("url", ["sqlite:///{}/locks.db", "git+file://{}"])
def test_other_stores_have_no_lanes(url: str, tmp_path: object) -> None:
    with pytest.raises((InvalidInput, StoreError), match="lanes"):
        leasehold.connect(f"{url.format(tmp_path)}?lanes=4")


def test_every_lane_says_which_one_it_is() -> None:
    with postgres.schema(LANES) as url, ExitStack() as stack:
        control = PostgresStore(url)
        stack.callback(control.close)
        lanes = [control.lane(lane) for lane in range(1, LANES + 1)]
        for lane in lanes:
            stack.callback(lane.close)
        assert [store.layout for store in (control, *lanes)] == [Layout(lane, LANES) for lane in every_lane(LANES)]


def _connections(url: str) -> int:
    with psycopg.connect(url.partition("?")[0]) as connection:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
        found = connection.execute(asked, [parse(url).schema]).fetchone()
    assert found is not None
    return int(found[0])


@pytest.mark.parametrize("threaded", [False, True])
def test_a_command_in_one_space_opens_one_lane(threaded: bool) -> None:
    with postgres.schema(LANES) as url:
        named = f"{url}&application_name={parse(url).schema}"
        with leasehold.connect(named, threaded=threaded) as locks:
            granted = take(locks, "r", space=SPACES[2])
            locks.renew(granted.lease.id, granted.token)
            assert _connections(url) == 1  # which has read the number of lanes, too


def test_lanes_share_the_connections_that_read() -> None:
    with postgres.schema(LANES) as url:
        with leasehold.connect(f"{url}&application_name={parse(url).schema}") as locks:
            for space in SPACES:
                take(locks, "r", space=space)
            for _ in range(3):
                assert len(locks.list()) == len(locks.history(kinds=["granted"])) == LANES  # type: ignore[arg-type]
            assert _connections(url) == LANES + 1  # each lane writes, one reads
        until(lambda: _connections(url) == 0, "all are closed")

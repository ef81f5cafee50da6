"""Two servers on one store that is divided into lanes: every verb finds its lane, whichever server is asked."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection
from itertools import cycle
from typing import TYPE_CHECKING, Any, Self

import pytest

import leasehold
from leasehold.domain.outcomes import Granted, Held
from leasehold.errors import InvalidInput, LeaseLost
from leasehold.locks.connect import open_served
from leasehold.routing.lanes import lane_of_space, place_of
from leasehold.stores.etcd import EtcdStore
from leasehold.stores.postgres import PostgresStore
from leasehold.testing.conformance.asking import Asking, queue_of, take, until, wait_for
from tests.acceptance.servers import OWNERS, Servers, servers_on
from tests.kit import etcd, postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasehold.domain.events import Event
    from leasehold.locks.sync import Locks

LANES = 3
SPACES = [f"team-{number}" for number in range(12)]
PATIENCE = 60.0


@pytest.fixture(scope="module", params=["etcd", "postgres"])
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    if request.param == "etcd":
        with servers_on(etcd.empty(LANES), EtcdStore, 2, *OWNERS) as started:
            yield started
    else:
        with postgres.schema(LANES) as url, servers_on(url, PostgresStore, 2, *OWNERS) as started:
            yield started


@pytest.fixture
def clients(servers: Servers, request: pytest.FixtureRequest) -> Iterator[tuple[Locks, Locks]]:
    """One at each server."""
    one, two = servers.urls
    with leasehold.connect(one, holder="ada") as ada, leasehold.connect(two, holder="bob") as bob:
        yield ada, bob
        for lease in _leases(ada):
            ada.force_release(lease, by="ops", reason=request.node.name)


def _leases(locks: Locks, **query: Any) -> list[str]:
    found = locks.list(**query)
    assert isinstance(found, tuple)
    return [lease.id for lease in found]


def _events(locks: Locks, **query: Any) -> tuple[Event, ...]:
    found = locks.history(**{"limit": 1_000, **query})
    assert isinstance(found, tuple)
    return found


def test_spaces_are_in_several_lanes() -> None:
    assert {lane_of_space(space, LANES) for space in SPACES} == set(range(1, LANES + 1))


class TestBothServers:
    def test_grant_a_name_once_in_each_space(self, clients: tuple[Locks, Locks]) -> None:
        ada, bob = clients
        for first, second, space in zip(cycle([ada, bob]), cycle([bob, ada]), SPACES, strict=False):
            granted = take(first, "r", space=space)
            assert isinstance(second.acquire("r", ttl=60, space=space), Held)
            assert bob.renew(granted.lease.id, granted.token)
        assert _leases(ada) == _leases(bob)
        assert len(_leases(ada)) == len(SPACES)
        assert [len(_leases(bob, space=space)) for space in SPACES] == [1] * len(SPACES)

    def test_hand_on_a_lease(self, servers: Servers, clients: tuple[Locks, Locks]) -> None:
        ada, _ = clients
        for space in SPACES[:4]:
            granted = take(ada, "r", space=space)
            with leasehold.connect(servers.urls[1], holder="bob", space=space) as there:
                waiting: Asking[object] = wait_for(there, "r")
                assert ada.release(granted.lease.id, granted.token)
                assert isinstance(waiting.answer(), Granted)

    def test_end_a_lease_by_its_id_alone(self, clients: tuple[Locks, Locks]) -> None:
        ada, bob = clients
        for space in SPACES:
            granted = take(ada, "r", space=space)
            assert bob.force_release(granted.lease.id, by="ops", reason="stuck")
            assert not ada.renew(granted.lease.id, granted.token)

    def test_show_every_session(self, clients: tuple[Locks, Locks]) -> None:
        ada, bob = clients
        started = [ada.start_session(ttl=60, space=space) for space in SPACES]
        found = bob.sessions()
        assert isinstance(found, tuple)
        assert {session.space for session in found} >= set(SPACES)
        for each, space in zip(started, SPACES, strict=True):
            assert bob.end_session(each.secret, space=space)  # type: ignore[union-attr] # it was started

    def test_clean_up_every_lane(self, clients: tuple[Locks, Locks]) -> None:
        ada, bob = clients
        for space in SPACES:
            take(ada, "soon over", ttl=0.01, space=space)
        until(lambda: not _leases(bob), "all have expired")
        assert bob.gc()
        kinds = [_events(ada, space=space)[0].kind for space in SPACES]
        assert kinds == ["expired"] * len(SPACES)

    def test_are_ready(self, servers: Servers) -> None:
        for url in servers.urls:
            connection = HTTPConnection(url.partition("://")[2], timeout=PATIENCE)
            connection.request("GET", "/readyz")
            assert connection.getresponse().status == 200
            connection.close()


class TestAHistoryOfAllLanes:
    def test_has_each_event_once_in_pages_of_any_size(self, clients: tuple[Locks, Locks]) -> None:
        ada, bob = clients
        for space in SPACES * 2:
            granted = take(ada, "r", space=space)
            ada.release(granted.lease.id, granted.token)
        whole = _events(bob)
        assert len({event.seq for event in whole}) == len(whole) >= 4 * len(SPACES)
        assert [event.at_us for event in whole] == sorted((event.at_us for event in whole), reverse=True)
        paged: list[Event] = []
        while page := _events(ada, limit=7, before=paged[-1].seq if paged else None):
            paged += page
        assert tuple(paged) == whole

    def test_is_streamed_and_resumed_without_a_loss(self, servers: Servers, clients: tuple[Locks, Locks]) -> None:
        ada, bob = clients
        with Stream(servers.urls[0]) as stream:
            takers = cycle([ada, bob])
            leases = [take(next(takers), "r", space=space).lease.id for space in SPACES]
            told = stream.take(len(leases))
        assert {data["lease"] for _, data in told} == set(leases)
        middle = told[4][0]
        assert middle.count(".") == LANES
        for id_ in leases[:3]:
            ada.force_release(id_, by="ops", reason="more events")
        wanted = [*(data["seq"] for _, data in told[5:])]
        with Stream(servers.urls[1], id_=middle) as stream:
            seen = [data["seq"] for _, data in stream.take(len(wanted) + 3)]
        assert seen[:1] != [told[4][1]["seq"]]
        assert set(wanted) < set(seen)
        assert len(set(seen)) == len(seen)

    def test_is_streamed_on_from_the_number_of_an_event(self, servers: Servers, clients: tuple[Locks, Locks]) -> None:
        ada, _ = clients
        for space in SPACES:
            take(ada, "r", space=space)
        events = _events(ada)[: len(SPACES)]
        with Stream(servers.urls[1], query=f"?last_event_id={events[5].seq}") as stream:
            seen = {data["seq"] for _, data in stream.take(5)}
        assert seen == {event.seq for event in events[:5]}


class Stream:
    """A stream of events, from the outside."""

    def __init__(self, url: str, *, id_: str | None = None, query: str = "") -> None:
        self._connection = HTTPConnection(url.partition("://")[2], timeout=PATIENCE)
        self._connection.request("GET", f"/v1/events{query}", headers={"Last-Event-ID": id_} if id_ else {})
        self._reply = self._connection.getresponse()
        assert self._reply.status == 200, self._reply.read()
        assert self._reply.readline() == b": leasehold\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def take(self, count: int) -> list[tuple[str, dict[str, Any]]]:
        """Return the id and the data of the next events."""
        told: list[tuple[str, dict[str, Any]]] = []
        id_ = ""
        while len(told) < count:
            name, _, value = self._reply.readline().decode().rstrip("\n").partition(": ")
            id_ = value if name == "id" else id_
            if name == "data":
                told.append((id_, json.loads(value)))
        return told


def test_many_calls_at_once_are_split_among_the_lanes(servers: Servers, clients: tuple[Locks, Locks]) -> None:
    """The client sends them as one batch."""
    names = [f"r{number}" for number in range(5)]

    async def ask(url: str) -> list[object]:
        async with await leasehold.aconnect(url, holder="crowd") as locks:
            asked = [locks.acquire(name, ttl=60, space=space) for name in names for space in SPACES]
            return await asyncio.gather(*asked)

    for url, kind in zip(servers.urls, (Granted, Held), strict=True):
        assert {type(outcome) for outcome in asyncio.run(ask(url))} == {kind}
    assert len(_leases(clients[0])) == len(names) * len(SPACES)


def test_a_client_that_leaves_leaves_the_queue_of_its_lane(servers: Servers, clients: tuple[Locks, Locks]) -> None:
    async def wait(space: str) -> None:
        async with await leasehold.aconnect(servers.urls[1], holder="impatient", space=space) as locks:
            task = asyncio.create_task(locks.acquire("r", ttl=60, wait=3600))
            await asyncio.to_thread(until, lambda: queue_of(there, "r"), "it waits")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    for space in SPACES[:4]:
        with leasehold.connect(servers.urls[0], space=space) as there:
            take(there, "r")
            asyncio.run(wait(space))
            until(partial(_is_empty, there), "the queue is empty")


def _is_empty(locks: Locks) -> bool:
    return not queue_of(locks, "r")


# ------------------------------------------------------------------------------- without a server


@pytest.fixture(params=["etcd", "postgres"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "etcd":
        yield etcd.empty(LANES)
    else:
        with postgres.schema(LANES) as url:
            yield url


def test_keys_and_their_events_are_in_the_control_lane(url: str) -> None:
    with leasehold.connect(url) as one, leasehold.connect(url) as two:
        created = one.create_key(role="agent", name="ci", space=SPACES[0])
        take(one, "r", space=SPACES[0])
        keys = two.keys()
        assert [key.name for key in keys] == ["ci"]  # type: ignore[union-attr] # no refusal
        assert [event.kind for event in _events(two, space=SPACES[0])] == ["granted", "key_created"]
        assert [place_of(event.seq)[0] for event in _events(two, kinds=["key_created"])] == [0]
        assert two.revoke_key(created.key.id)  # type: ignore[union-attr] # it was created
        assert one.keys() == ()


def test_the_holder_of_a_lock_in_any_lane_learns_of_its_loss(url: str) -> None:
    with leasehold.connect(url, holder="ada") as ada, leasehold.connect(url, holder="ops") as ops:
        for space in SPACES[:3]:
            _lose(ada, ops, space)


def _lose(ada: Locks, ops: Locks, space: str) -> None:
    lost: list[object] = []
    with suppress(LeaseLost), ada.lock("r", ttl=600, space=space, on_lost=lost.append) as held:
        ops.force_release(held.id, by="ops", reason="stuck")
        until(lambda: lost, "the holder was told")
    assert lost


def test_coroutines_find_the_lane_too(url: str) -> None:
    async def ask() -> None:
        async with (
            await leasehold.aconnect(url, holder="ada") as one,
            await leasehold.aconnect(url, holder="bob") as two,
        ):
            granted = [await one.acquire("r", ttl=60, space=space) for space in SPACES]
            for outcome, space in zip(granted, SPACES, strict=True):
                assert isinstance(outcome, Granted)
                assert isinstance(await two.acquire("r", ttl=60, space=space), Held)
            assert len(await two.list()) == len(await two.history(kinds=["granted"])) == len(SPACES)  # type: ignore[arg-type]
            waiting = asyncio.create_task(two.acquire("r", ttl=60, wait=3600, space=SPACES[0]))
            assert await one.release(granted[0])  # type: ignore[arg-type] # it was granted
            assert await waiting

    asyncio.run(ask())


def test_a_place_in_the_history_is_one_in_every_lane(url: str) -> None:
    async def look() -> None:
        served = await open_served(url)
        try:
            for space in SPACES:
                await served.locks.acquire("r", ttl=60, space=space)
            history, query = served.history, served.watched(None, None, None)
            found, has_gap = history.after(history.start(), query, 1_000)
            assert [event.space for event in found] == SPACES
            assert not has_gap
            for number, event in enumerate(found):
                later, _ = history.after(history.cursor(str(event.seq)), query, 1_000)
                assert later == found[number + 1 :]
            assert history.after(history.end(), query, 1_000) == ((), False)
            assert history.after(history.start(), query, 0) == ((), True)
            assert history.recent(history.end()) == ([], history.end())
            for text in ("", "x", "1.2", "-1", "9" * 17):
                with pytest.raises(InvalidInput):
                    history.cursor(text)
        finally:
            await served.close()

    asyncio.run(look())

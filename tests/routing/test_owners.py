"""Three servers that own the lanes of a store: what one of them is asked, the owner decides, whatever happens to it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.domain.outcomes import Granted, Held, Refused, TimedOut
from leasehold.errors import LeaseholdError
from leasehold.stores.etcd import EtcdStore
from leasehold.stores.postgres import PostgresStore
from leasehold.testing.conformance.asking import Asking, queue_of, take, until, wait_for
from tests.acceptance.servers import OWNERS, Servers, servers_on
from tests.faults.crowd import Load
from tests.kit import etcd, postgres
from tests.routing.owned import handed_on, move_lanes, open_files, owned_by, process_at, settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasehold.locks.sync import Locks

IS_PROOF = bool(os.environ.get("LEASEHOLD_PROVE"))
LEASES = 100_000 if IS_PROOF else 40
"""How many are taken in each test of chaos."""
LANES = 4
MOVES = 5


@contextmanager
def _servers(kind: str, *words: str) -> Iterator[Servers]:
    if kind == "etcd":
        with servers_on(etcd.empty(), EtcdStore, 3, *OWNERS, *words) as started:
            yield started
    else:
        with postgres.schema(LANES) as url, servers_on(url, PostgresStore, 3, *OWNERS, *words) as started:
            yield started


def _lanes(kind: str) -> int:
    return 1 if kind == "etcd" else LANES


@pytest.fixture(scope="module", params=["etcd", "postgres"])
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    with _servers(request.param) as started:
        settle(started, _lanes(request.param))
        yield started


@pytest.fixture(params=["etcd", "postgres"])
def doomed(request: pytest.FixtureRequest) -> Iterator[Servers]:
    """Servers for one test, which does something to them."""
    with _servers(request.param) as started:
        settle(started, _lanes(request.param))
        yield started


def _space_of(servers: Servers, owner: str) -> str:
    """A space whose requests the other servers hand on to this one."""
    other = next(url for url in servers.urls if url != owner)
    for number in range(200):
        space = f"team-{number}"
        before = handed_on(other), handed_on(owner)
        with leasehold.connect(other, space=space) as locks:
            locks.acquire("probe", ttl=0.01)
        if handed_on(other) > before[0] and _is_at(servers, owner, space):
            return space
    raise AssertionError("no space is handed on to it")


def _is_at(servers: Servers, url: str, space: str) -> bool:
    """True if this server answers for the space itself."""
    before = handed_on(url)
    with leasehold.connect(url, space=space) as locks:
        locks.acquire("probe", ttl=0.01)
    return handed_on(url) == before


def _owner(servers: Servers) -> str:
    return next(url for url in servers.urls if owned_by(url))


@contextmanager
def _apart(servers: Servers) -> Iterator[tuple[str, Locks, Locks]]:
    """The owner of a space, and clients of the two other servers, in that space."""
    owner = _owner(servers)
    space = _space_of(servers, owner)
    one, two = (url for url in servers.urls if url != owner)
    with (
        leasehold.connect(one, holder="one", space=space) as first,
        leasehold.connect(two, holder="two", space=space) as second,
    ):
        yield owner, first, second


class TestHandingOn:
    def test_requests_reach_the_owner_from_every_server(self, servers: Servers) -> None:
        with _apart(servers) as (_, one, two):
            granted = take(one, "r")
            assert isinstance(two.acquire("r", ttl=60), Held)
            waiting = wait_for(two, "r")
            assert one.renew(granted.lease.id, granted.token)
            assert one.update(granted.lease.id, granted.token, context={"step": 1})
            assert one.release(granted.lease.id, granted.token)
            served = waiting.answer()
            assert isinstance(served, Granted)
            assert served.lease.fence > granted.lease.fence
            assert two.release(served.lease.id, served.token).released  # type: ignore[union-attr] # it is no refusal

    def test_a_session_is_the_same_at_every_server(self, servers: Servers) -> None:
        with _apart(servers) as (_, one, two):
            started = one.start_session(ttl=60)
            assert not isinstance(started, Refused)
            granted = two.acquire("of a session", ttl=60, session=started.secret)
            assert granted
            assert two.renew_session(started.secret)
            assert one.end_session(started.secret)
            assert not two.renew(granted.lease.id, granted.token)

    def test_a_client_that_disconnects_leaves_the_queue_at_once(self, servers: Servers) -> None:
        with _apart(servers) as (_, one, two):
            held = take(one, "left")

            async def wait(url: str, space: str) -> None:
                async with await leasehold.aconnect(url, holder="impatient", space=space) as locks:
                    task = asyncio.create_task(locks.acquire("left", ttl=60, wait=3600))
                    await asyncio.to_thread(until, lambda: queue_of(one, "left"), "it waits")
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

            asyncio.run(wait(_url_of(servers, two), two.space))
            until(lambda: not queue_of(one, "left"), "the queue is empty")
            assert one.release(held.lease.id, held.token)
            assert two.acquire("left", ttl=0.01)

    def test_clients_that_disconnect_leave_no_connection_to_the_owner(self, servers: Servers) -> None:
        with _apart(servers) as (owner, one, two):
            take(one, "many left", ttl=3600)

            async def wait_and_leave() -> None:
                async with await leasehold.aconnect(_url_of(servers, two), space=two.space) as locks:
                    task = asyncio.create_task(locks.acquire("many left", ttl=60, wait=3600))
                    await asyncio.to_thread(until, lambda: queue_of(one, "many left"), "it waits")
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

            before, rounds = open_files(servers, owner), 12
            for _ in range(rounds):
                asyncio.run(wait_and_leave())
                until(lambda: not queue_of(one, "many left"), "the queue is empty")
            until(lambda: open_files(servers, owner) < before + rounds // 2, "their connections are closed")

    def test_a_batch_is_split_among_the_owners(self, servers: Servers) -> None:
        names = [f"batched {number}" for number in range(40)]

        async def ask(url: str) -> list[object]:
            async with await leasehold.aconnect(url, holder="crowd") as locks:
                asked = [locks.acquire(name, ttl=60, space=f"team-{place % 8}") for place, name in enumerate(names)]
                return await asyncio.gather(*asked)

        kinds = [{type(outcome) for outcome in asyncio.run(ask(url))} for url in servers.urls]
        assert kinds == [{Granted}, {Held}, {Held}]

    def test_conversations_reach_the_owner_too(self, servers: Servers) -> None:
        """A run, as Agiflow has it: several verbs in one request."""
        with _apart(servers) as (_, one, two):
            before = handed_on(_url_of(servers, one))
            told = _post(_url_of(servers, one), "/v1/workflows", name="work", work_unit="u", space=one.space)
            assert told["workflow"]["status"] == "running"
            assert handed_on(_url_of(servers, one)) > before
            seen = _post(_url_of(servers, two), "/v1/workflows", name="work", work_unit="u", space=one.space)
            assert seen["code"] == "held"

    def test_a_client_follows_the_owner_among_its_servers(self, servers: Servers) -> None:
        with _apart(servers) as (owner, one, two):
            first, other = _url_of(servers, one), _url_of(servers, two)

            def handed(urls: str) -> int:
                before = handed_on(first)
                with leasehold.connect(urls, holder="follower", space=one.space) as locks:
                    for number in range(5):
                        locks.acquire(f"followed {number}", ttl=0.01)
                return handed_on(first) - before

            assert handed(f"{first},{owner}") == 1
            assert handed(f"{first},{other}") == 5

    def test_a_task_follows_the_owner_among_its_servers(self, servers: Servers) -> None:
        with _apart(servers) as (owner, one, _):
            first = _url_of(servers, one)

            async def ask() -> None:
                urls = f"{first},{owner}"
                async with await leasehold.aconnect(urls, holder="follower", space=one.space) as locks:
                    for number in range(5):
                        await locks.acquire(f"followed {number}", ttl=0.01)

            before = handed_on(first)
            asyncio.run(ask())
            assert handed_on(first) - before == 1

    def test_a_wait_is_over_in_time(self, servers: Servers) -> None:
        with _apart(servers) as (_, one, two):
            take(one, "long held", ttl=600)
            refused = two.acquire("long held", ttl=60, wait=0.2)
            assert isinstance(refused, TimedOut)


def _post(url: str, path: str, **body: object) -> dict[str, Any]:
    connection = HTTPConnection(url.partition("://")[2], timeout=60)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    with closing(connection):
        return dict(json.loads(connection.getresponse().read()))


def _url_of(servers: Servers, locks: Locks) -> str:
    (base,) = locks._answers._bases  # type: ignore[attr-defined] # it is a client of one server
    return next(url for url in servers.urls if url.endswith(f":{base.port}"))


class TestTheOwner:
    def test_killed_costs_no_place_and_leaves_its_lanes_to_the_others(self, doomed: Servers) -> None:
        lanes = sum(map(owned_by, doomed.urls))
        with _apart(doomed) as (owner, one, two):
            held = take(one, "r")
            first = wait_for(two, "r", holder="first")
            second = wait_for(one, "r", holder="second")
            until(lambda: queue_of(one, "r") == ["first", "second"], "both wait")
            process_at(doomed, owner).kill()
            process_at(doomed, owner).wait()
            assert one.release(held.lease.id, held.token)
            served = first.answer()
            assert isinstance(served, Granted)
            assert not second.is_over
            assert two.release(served.lease.id, served.token)
            assert isinstance(second.answer(), Granted)
        rest = [url for url in doomed.urls if url != owner]
        until(lambda: sum(map(owned_by, rest)) == lanes, "its lanes have other owners")

    def test_stopped_and_continued_grants_nothing_twice(self, servers: Servers) -> None:
        owner = _owner(servers)
        process = process_at(servers, owner)
        others = [url for url in servers.urls if url != owner]
        with Load(*others) as load:
            load.takes(LEASES)
            for _ in range(3 if IS_PROOF else 1):
                os.kill(process.pid, signal.SIGSTOP)
                try:
                    load.goes_on(2)
                finally:
                    os.kill(process.pid, signal.SIGCONT)
                load.goes_on(2)
        load.was_safe()
        load.was_told()

    def test_stopped_is_left_alone(self, servers: Servers) -> None:
        with _apart(servers) as (owner, one, two):
            held = take(one, "r")
            waiting = wait_for(two, "r")
            process = process_at(servers, owner)
            os.kill(process.pid, signal.SIGSTOP)
            try:
                until(lambda: _is_released(one, held), "it is released")
                assert isinstance(waiting.answer(), Granted)
            finally:
                os.kill(process.pid, signal.SIGCONT)


def _is_released(locks: Locks, held: Granted) -> bool:
    try:
        return bool(locks.release(held.lease.id, held.token))
    except LeaseholdError:  # the stopped server may have the turn
        return False


class TestTheForwarder:
    def test_killed_keeps_the_place_of_its_client(self, doomed: Servers) -> None:
        with (
            _apart(doomed) as (owner, one, two),
            leasehold.connect(owner, holder="owner's", space=one.space) as there,
        ):
            held = take(there, "r")
            lost: Asking[object] = Asking(lambda: one.acquire("r", ttl=60, wait=600, request_id="again"))
            until(lambda: queue_of(there, "r") == ["one"], "it waits")
            behind = wait_for(there, "r", holder="behind")
            until(lambda: queue_of(there, "r") == ["one", "behind"], "both wait")
            process = process_at(doomed, _url_of(doomed, one))
            process.kill()
            process.wait()
            again: Asking[object] = Asking(lambda: two.acquire("r", ttl=60, wait=600, holder="one", request_id="again"))
            until(lambda: _came_again(there), "it has come again")
            assert there.release(held.lease.id, held.token)
            served = again.answer()
            assert isinstance(served, Granted)
            assert not behind.is_over
            assert two.release(served.lease.id, served.token)
            assert isinstance(behind.answer(), Granted)
            lost.wait(0)


def _came_again(locks: Locks) -> bool:
    events = locks.history(resource="r", kinds=("queued",))
    assert not isinstance(events, Refused)
    return any(event.detail["again"] for event in events)


def test_lanes_that_move_all_the_time_grant_nothing_twice(servers: Servers) -> None:
    stopping, moves = threading.Event(), list[int]()

    def chaos() -> None:
        while not stopping.wait(0.2):
            move_lanes(servers.urls[0])
            moves.append(1)

    moving = threading.Thread(target=chaos)
    with Load(servers.url) as load:
        moving.start()
        try:
            load.takes(LEASES)
            until(lambda: len(moves) >= MOVES, "lanes move")
        finally:
            stopping.set()
            moving.join()
    load.was_safe()
    load.was_told()

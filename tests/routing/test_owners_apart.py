"""Servers whose way to each other is bad, callers that a server does not know yet, and the constants of ownership."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

import leasehold
from leasehold.engine.waiters import BEATS
from leasehold.routing import links, owning
from leasehold.server.api import long_polls
from leasehold.stores.etcd import EtcdStore
from leasehold.stores.postgres import PostgresStore
from leasehold.testing.conformance.asking import take, until
from leasehold.testing.lending import free_port
from tests.acceptance.servers import OWNERS, Servers, servers_on
from tests.faults.crowd import Load
from tests.kit import etcd, postgres
from tests.kit.flaky import HOLD, LOSE_ANSWER, LOSE_REQUEST, PASS, flaky
from tests.routing.owned import handed_on, owned_by, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from leasehold.stores.protocol import Store
    from tests.kit.flaky import Line

IS_PROOF = bool(os.environ.get("LEASEHOLD_PROVE"))
LEASES = 100_000 if IS_PROOF else 40
"""How many are taken in each test of chaos."""


class Place(NamedTuple):
    """Where a server will be."""

    host: str
    port: int


@contextmanager
def _over_bad_lines(store: str, opened: Callable[[str], Store]) -> Iterator[Servers]:
    """Three servers that reach each other over lines that lose half of all requests and answers."""
    chance = random.Random(6)

    def fault(request: bytes) -> str:
        return chance.choice((PASS, PASS, LOSE_REQUEST, LOSE_ANSWER)) if request.startswith(b"POST") else PASS

    with ExitStack() as stack:
        started = []
        for _ in range(3):
            place = Place("127.0.0.1", free_port())
            line = stack.enter_context(flaky(place))
            line.fault_of = fault
            words = ("--port", str(place.port), "--advertise", line.url)
            started.append(stack.enter_context(servers_on(store, opened, 1, *words)))
        processes = [each for one in started for each in one.processes]
        yield Servers(store, opened, processes, [each for one in started for each in one.urls])


@pytest.mark.parametrize("kind", ["etcd", "postgres"])
def test_forwards_that_fail_grant_nothing_twice(kind: str) -> None:
    with ExitStack() as stack:
        if kind == "etcd":
            servers = stack.enter_context(_over_bad_lines(etcd.empty(), EtcdStore))
        else:
            url = stack.enter_context(postgres.schema())
            servers = stack.enter_context(_over_bad_lines(url, PostgresStore))
        settle(servers)
        with Load(servers.url, ttl=60) as load:
            load.takes(LEASES)
        load.was_safe()
        load.was_told()
        assert sum(map(handed_on, servers.urls))
        assert sum(handed_on(url, "decided_here") for url in servers.urls)


def test_servers_of_two_versions_hand_nothing_to_each_other() -> None:
    """As during an upgrade, one server after the other."""
    newer = f"leasehold.routing.owning.PROTOCOL = {owning.PROTOCOL + 1}"
    with ExitStack() as stack:
        store = stack.enter_context(postgres.schema())
        old = stack.enter_context(servers_on(store, PostgresStore, 1, *OWNERS))
        new = stack.enter_context(servers_on(store, PostgresStore, 2, *OWNERS, setting=newer))
        urls = [*old.urls, *new.urls]
        until(lambda: sum(map(owned_by, urls)) == 1, "the lane has an owner")
        with Load(",".join(urls), ttl=60) as load:
            load.takes(LEASES)
            assert handed_on(*old.urls) == 0
            for process in old.processes:
                process.terminate()
            until(lambda: sum(map(owned_by, new.urls)) == 1, "a newer server owns the lane")
            until(lambda: sum(map(handed_on, new.urls)), "the newer ones hand on to each other")
        load.was_safe()
        load.was_told()


def test_a_key_created_a_moment_ago_is_known_to_the_owner() -> None:
    with postgres.schema() as store, leasehold.connect(store) as locks:
        first = locks.create_key(role="admin", name="ops")
        assert isinstance(first, leasehold.KeyCreated)
        with servers_on(store, PostgresStore, 2, *OWNERS) as servers:
            settle(servers)
            until(lambda: _is_handed_on(servers, first.credential), "the servers know who owns the lane")
            before = sum(map(handed_on, servers.urls))
            for number, url in enumerate(servers.urls * 3):
                _use_at_once(url, first.credential, f"r{number}")
            assert sum(map(handed_on, servers.urls)) > before


def _is_handed_on(servers: Servers, key: str) -> bool:
    for url in servers.urls:
        with leasehold.connect(url, api_key=key, holder="probe") as locks:
            locks.acquire("probe", ttl=0.01)
    return sum(map(handed_on, servers.urls)) > 0


def _use_at_once(url: str, admin: str, name: str) -> None:
    """The server that creates a key knows it at once. The owner may not know it yet."""
    with leasehold.connect(url, api_key=admin) as ops:
        made = ops.create_key(role="agent", name=name)
        assert isinstance(made, leasehold.KeyCreated)
    with leasehold.connect(url, api_key=made.credential) as locks:
        granted = take(locks, name)
        assert locks.release(granted.lease.id, granted.token)


def test_its_constants_fit_together() -> None:
    presence = BEATS * PostgresStore.capabilities.beat / 1e6
    assert presence == BEATS * EtcdStore.capabilities.beat / 1e6
    # A missed heartbeat costs no lane.
    assert 2 * owning.HEARTBEAT < owning.LIFE
    # A server's lease ends before its waiters' presence does.
    assert presence > owning.LIFE
    # Another server notices before then that it is silent: it asks with each heartbeat, and waits so long.
    assert presence > owning.HEARTBEAT + links.SILENCE
    # A place is kept until its client has noticed that its server is gone, and asked another one.
    assert long_polls.KEEP_HANDED > owning.LIFE + links.SILENCE


@pytest.mark.parametrize(
    ("address", "own", "named", "is_trusted"),
    [
        ("https://a.example", "http://127.0.0.1:1", (), True),
        ("http://127.0.0.1:2", "http://127.0.0.1:1", (), True),
        ("http://[::1]:2", "http://localhost:1", (), True),
        ("http://127.0.0.1:2", "https://b.example", (), False),
        ("http://10.0.0.2:7420", "http://10.0.0.1:7420", (), False),
        ("http://10.0.0.2:7420", "http://10.0.0.1:7420", ("http://10.0.0.2:7420/",), True),
        ("https://a.example", "https://b.example", ("https://c.example",), False),
        ("ftp://127.0.0.1", "http://127.0.0.1:1", (), False),
        ("https://", "http://127.0.0.1:1", (), False),
        ("nonsense", "http://127.0.0.1:1", (), False),
        ("https://A.example", "https://b.example", ("https://a.example:443",), True),
    ],
)
def test_keys_go_only_to_servers_that_are_trusted(
    address: str, own: str, named: tuple[str, ...], is_trusted: bool
) -> None:
    assert links.is_trusted(address, own, named) is is_trusted


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--advertise", "auto"), "advertise: is for servers that share a store"),
        (("--store", "POSTGRES", "--advertise", "http://a:1/path"), "advertise: must not have a path"),
        (("--store", "POSTGRES", "--advertise", "nonsense"), "advertise: 'nonsense' must be"),
        (("--store", "POSTGRES", "--advertise", "auto", "--peer", "ftp://b"), "peer: 'ftp://b' must be"),
        (("--store", "POSTGRES", "--advertise", "auto", "--host", "0.0.0.0"), "advertise: say how other servers reach"),
    ],
)
def test_options_that_cannot_be_right_are_refused_before_anything_is_served(
    tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    with postgres.schema() as store:
        asked = [store if word == "POSTGRES" else word for word in words]
        place = () if "POSTGRES" in words else ("--store", f"sqlite://{tmp_path / 'locks.db'}?create=1")
        command = [sys.executable, "-m", "leasehold.cli", "serve", "--port", "0", *place, *asked]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Serving" not in done.stdout


@contextmanager
def _over_a_line() -> Iterator[tuple[Servers, Line, str]]:
    """Two servers: the owner, which the other one reaches over this line, and the URL of that other one."""
    with ExitStack() as stack:
        store = stack.enter_context(postgres.schema())
        place = Place("127.0.0.1", free_port())
        line = stack.enter_context(flaky(place))
        words = ("--port", str(place.port), "--advertise", line.url)
        owner = stack.enter_context(servers_on(store, PostgresStore, 1, *words))
        until(lambda: owned_by(owner.urls[0]) == 1, "it owns the lane")
        other = stack.enter_context(servers_on(store, PostgresStore, 1, *OWNERS))
        with leasehold.connect(other.urls[0], holder="probe") as locks:
            until(lambda: locks.acquire("probe", ttl=0.01) is not None and handed_on(other.urls[0]), "it hands on")
        yield owner, line, other.urls[0]


def test_a_grant_whose_client_and_answer_are_lost_is_released() -> None:
    with _over_a_line() as (owner, line, other), leasehold.connect(owner.urls[0], holder="bob") as locks:
        line.fault_of = lambda request: HOLD if b"/v1/acquire" in request else PASS
        body = json.dumps({"resources": "r", "holder": "ada", "ttl": 3600, "wait_seconds": 60}).encode()
        with socket.create_connection(("127.0.0.1", int(other.rpartition(":")[2]))) as client:
            head = f"POST /v1/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
            client.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
            until(lambda: not locks.acquire("r", ttl=0.01), "it is granted to a client that does not know it")
        until(lambda: locks.acquire("r", ttl=0.01), "it is free")
        line.end_connections.set()

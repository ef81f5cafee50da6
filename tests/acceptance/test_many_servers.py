"""Three servers on one store: any of them answers any client, nothing overlaps, each cycle has exactly one victim."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.domain.outcomes import Deadlock, Granted, Refused, Renewed
from leasehold.stores import SERVERS
from leasehold.stores.etcd import EtcdStore
from leasehold.stores.postgres import PostgresStore
from leasehold.testing.checker import check
from leasehold.testing.conformance.asking import Asking, take, until, wait_for
from leasehold.testing.observations import Observation, check_observations
from tests.acceptance.servers import OWNERS, Servers, async_wandering, servers_on, wandering
from tests.kit import etcd, postgres

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from leasehold.domain.events import Event

IS_PROOF = bool(os.environ.get("LEASEHOLD_PROVE"))
PROCESSES = 8
LANES = 4
PATIENCE = 280.0


def _postgres() -> Iterator[Servers]:
    with postgres.schema() as url, servers_on(url, PostgresStore) as servers:
        yield servers


def _etcd() -> Iterator[Servers]:
    with servers_on(etcd.empty(), EtcdStore) as servers:
        yield servers


def _postgres_with_owners() -> Iterator[Servers]:
    with postgres.schema(LANES) as url, servers_on(url, PostgresStore, 3, *OWNERS) as servers:
        yield servers


def _etcd_with_owner() -> Iterator[Servers]:
    with servers_on(etcd.empty(), EtcdStore, 3, *OWNERS) as servers:
        yield servers


STORES = {
    "etcd": _etcd,
    "etcd with an owner": _etcd_with_owner,
    "postgres": _postgres,
    "postgres with owners": _postgres_with_owners,
}
"""A store that many servers share is one more line here."""


@pytest.fixture(scope="module", params=sorted(STORES))
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    yield from STORES[request.param]()


# -------------------------------------------------------------------------------------- a counter


def _compete(servers: Servers, folder: Path, kind: str, rounds: int) -> list[Observation]:
    for resource in "ab":
        (folder / f"counter-{resource}").write_text("0")
    children = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.acceptance.wanderer",
                servers.url,
                str(folder),
                kind,
                str(rounds),
                str(number),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        for number in range(PROCESSES)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n", child.communicate()
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        return [each for number, child in enumerate(children) for each in _seen_by(number, child)]
    finally:
        for child in children:
            child.kill()
            child.communicate()


def _seen_by(number: int, child: subprocess.Popen[str]) -> list[Observation]:
    told, complaints = child.communicate(timeout=PATIENCE * (10 if IS_PROOF else 1))
    assert child.returncode == 0, complaints
    return [Observation(client=f"worker {number}", **each) for each in json.loads(told)]


def _history(servers: Servers) -> list[Event]:
    events: list[Event] = []
    with wandering(servers.url) as locks:
        while True:
            page = locks.history(limit=10_000, before=events[-1].seq if events else None)
            assert not isinstance(page, Refused)
            if not page:
                return [event for event in events[::-1] if event.space != SERVERS]
            events.extend(page)


def test_a_counter_that_only_the_lease_protects(servers: Servers, tmp_path: Path) -> None:
    rounds = 500 if IS_PROOF else 25
    seen = _compete(servers, tmp_path, "one", rounds)
    assert int((tmp_path / "counter-a").read_text()) == PROCESSES * rounds
    in_order = sorted(seen, key=lambda section: section.start)
    assert all(earlier.end <= later.start for earlier, later in pairwise(in_order))
    assert [section.fence for section in in_order] == sorted({section.fence for section in seen})
    assert check_observations(seen) == []
    assert check(_history(servers), finished=True, residue=servers.left_over()) == []


# ---------------------------------------------------------------------------------------- cycles


async def _cycle(locks: leasehold.AsyncLocks, name: str, length: int, ready: asyncio.Barrier) -> int:
    """So many agents, each holding one thing and wanting the next one's; how many of them were victims."""
    agents = [f"{name}-agent{number}" for number in range(length)]
    things = [f"{name}/thing{number}" for number in range(length)]
    first = [await locks.acquire(thing, ttl=600, holder=agent) for thing, agent in zip(things, agents, strict=True)]
    await ready.wait()
    victims = [_want_next(locks, first, things, agents, each) for each in range(length)]
    return sum(await asyncio.gather(*victims))


async def _want_next(
    locks: leasehold.AsyncLocks, first: Sequence[object], things: list[str], agents: list[str], number: int
) -> int:
    wanted = things[(number + 1) % len(things)]
    outcome = await locks.acquire(wanted, ttl=600, wait=PATIENCE, holder=agents[number])
    mine = first[number]
    assert isinstance(mine, Granted), mine
    await locks.release(mine.lease.id, mine.token)
    if isinstance(outcome, Granted):
        await locks.release(outcome.lease.id, outcome.token)
        return 0
    assert isinstance(outcome, Deadlock), outcome
    assert len(outcome.cycle) == 2 * len(things)
    return 1


def test_each_of_many_simultaneous_cycles_has_exactly_one_victim(servers: Servers) -> None:
    pairs = 1_000 if IS_PROOF else 24
    lengths = [2] * pairs + list(range(3, 11)) * (20 if IS_PROOF else 1)

    async def run() -> list[int]:
        locks = async_wandering(servers.url)
        ready = asyncio.Barrier(len(lengths))
        try:
            return await asyncio.gather(
                *(_cycle(locks, f"cycle{number}", length, ready) for number, length in enumerate(lengths))
            )
        finally:
            await locks.close()

    assert asyncio.run(run()) == [1] * len(lengths)


def test_a_request_that_can_wait_is_never_a_victim(servers: Servers) -> None:
    """Clients that take things in one order are never in a cycle, however much they wait for each other."""
    operations = 100_000 if IS_PROOF else 240
    agents = 24

    async def work(locks: leasehold.AsyncLocks, number: int) -> int:
        chance, count = random.Random(number), 0
        while count < operations // agents + 1:
            taken = []
            for thing in sorted(chance.sample(range(12), chance.randrange(1, 4))):
                outcome = await locks.acquire(f"pool/{thing}", ttl=600, wait=PATIENCE, holder=f"agent {number}")
                assert isinstance(outcome, Granted), outcome
                taken.append(outcome)
                count += 1
            for outcome in taken:
                await locks.release(outcome.lease.id, outcome.token)
        return count

    async def run() -> int:
        locks = async_wandering(servers.url)
        try:
            return sum(await asyncio.gather(*(work(locks, number) for number in range(agents))))
        finally:
            await locks.close()

    assert asyncio.run(run()) >= operations


# --------------------------------------------------------------------------------- from one to another


def test_a_waiter_at_another_server_is_served(servers: Servers) -> None:
    one, two = (leasehold.connect(url, holder=url) for url in servers.urls[:2])
    with one, two:
        held = take(one, "handed/over")
        asking = wait_for(two, "handed/over")
        one.release(held.lease.id, held.token)
        served = asking.answer()
        assert isinstance(served, Granted)
        assert served.lease.fence > held.lease.fence


def test_a_request_that_moves_to_another_server_keeps_its_place(servers: Servers) -> None:
    one, two, three = (leasehold.connect(url) for url in servers.urls)
    with one, two, three:
        held = take(one, "moving", holder="first")
        asking = wait_for(two, "moving", holder="mover", request_id="r1")
        behind = wait_for(one, "moving", holder="behind")
        again: Asking[object] = Asking(
            lambda: three.acquire("moving", ttl=600, wait=600, holder="mover", request_id="r1")
        )
        until(lambda: _asked_again(one), "the request has come again")
        one.release(held.lease.id, held.token)
        served = again.answer()
        assert isinstance(served, Granted)
        assert not behind.is_over
        one.release(served.lease.id, served.token)
        assert isinstance(behind.answer(), Granted)
        del asking  # the first caller has gone to the other server, and hears nothing


def _asked_again(locks: leasehold.Locks) -> bool:
    events = locks.history(resource="moving", kinds=("queued",))
    assert not isinstance(events, Refused)
    return any(event.detail["again"] for event in events)


def test_a_server_that_dies_takes_no_lease_with_it_and_leaves_every_queue(servers: Servers) -> None:
    with servers_on(servers.store, servers.opened, 1) as doomed, wandering(servers.url, "survivor") as locks:
        with leasehold.connect(doomed.url, holder="doomed") as theirs:
            kept = take(theirs, "kept")
            held = take(locks, "wanted")
            lost: Asking[object] = Asking(lambda: theirs.acquire("wanted", ttl=600, wait=600, holder="orphan"))
            until(lambda: _queue(locks, "wanted") == ["orphan"], "it waits")
            behind = wait_for(locks, "wanted", holder="behind")
            until(lambda: _queue(locks, "wanted") == ["orphan", "behind"], "both wait")
            doomed.processes[0].kill()
            doomed.processes[0].wait()
            until(lambda: _queue(locks, "wanted") == ["behind"], "the dead server's waiter is out of the queue")
        assert isinstance(locks.renew(kept.lease.id, kept.token), Renewed)
        assert kept.lease.id in {lease.id for lease in _leases(locks)}
        locks.release(held.lease.id, held.token)
        assert isinstance(behind.answer(), Granted)
        lost.wait(0)


def _queue(locks: leasehold.Locks, resource: str) -> list[str]:
    seen = locks.inspect(resource)
    assert not isinstance(seen, Refused)
    return [each.holder for each in seen.waiting]


def _leases(locks: leasehold.Locks) -> tuple[leasehold.Lease, ...]:
    leases = locks.list()
    assert not isinstance(leases, Refused)
    return leases

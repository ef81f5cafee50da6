"""Three engines on one etcd, with a journal that is moved all the time, little memory, and delays. All goes well."""

from __future__ import annotations

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.stores import etcd as stores_etcd
from leasehold.stores.etcd import checkpointing, journal
from leasehold.testing.conformance.asking import take
from tests.kit import etcd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasehold.steps import Steps
    from leasehold.stores.etcd import EtcdStore

IS_PROOF = bool(os.environ.get("LEASEHOLD_PROVE"))
NAMES = ["x", "y", "z", "path:a", "path:a/b", "path:a/b/c.py"]
"""In this order nobody can wait for anybody in a circle: what overlaps is never held together."""
WORKERS = 6
TURNS = 300 if IS_PROOF else 40
CYCLES = 60 if IS_PROOF else 8


@pytest.fixture(autouse=True)
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal of a few entries, which goes into the records a few operations at a time; and much is assumed."""
    monkeypatch.setattr(stores_etcd, "DOUBT", 2)
    monkeypatch.setattr(journal, "ENTRIES", 4)
    monkeypatch.setattr(checkpointing, "OPERATIONS", 9)


class Delays:
    """Between a store and etcd: some calls leave late, and some answers come late."""

    def __init__(self, store: EtcdStore, seed: int) -> None:
        self._chance = random.Random(seed)
        self._store, self._changing, self._asking = store, store.calls.changing, store.calls.asking
        store.replica.limit = 5

    def _pause(self) -> None:
        if self._chance.random() < 0.3:
            time.sleep(self._chance.random() * 0.004)

    def changing(self, path: str, message: bytes, accepted: str) -> Steps[bytes]:
        self._pause()
        answer = yield from self._changing(path, message, accepted)
        self._pause()
        return answer

    def asking(self, path: str, message: bytes) -> Steps[bytes]:
        self._pause()
        answer = yield from self._asking(path, message)
        self._pause()
        return answer


@contextmanager
def engines(monkeypatch: pytest.MonkeyPatch, number: int) -> Iterator[list[leasehold.Locks]]:
    url = etcd.empty()
    with ExitStack() as stack:
        opened = [stack.enter_context(leasehold.connect(url)) for _ in range(number)]
        for seed, locks in enumerate(opened):
            store: EtcdStore = locks._answers.engine.store  # type: ignore[attr-defined]
            delays = Delays(store, seed)
            monkeypatch.setattr(store.calls, "changing", delays.changing)
            monkeypatch.setattr(store.calls, "asking", delays.asking)
        yield opened


class Inside:
    """Who is where, as they see it themselves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self.fences: dict[str, int] = {}

    def enter(self, lease: leasehold.Lease) -> None:
        with self._lock:
            for name in lease.resources:
                clash = [(other, who) for other, who in self._names.items() if _overlap(name, other)]
                assert not clash, (lease, clash)
                assert lease.fence > self.fences.get(name, 0)
                self.fences[name] = lease.fence
                self._names[name] = lease.holder

    def leave(self, lease: leasehold.Lease) -> None:
        with self._lock:
            for name in lease.resources:
                assert self._names.pop(name) == lease.holder


def _overlap(one: str, other: str) -> bool:
    shorter, longer = sorted((f"{one}/", f"{other}/"), key=len)
    return longer.startswith(shorter)


class Worker:
    """Takes some names in order, at any server, and releases them."""

    def __init__(self, number: int, servers: list[leasehold.Locks], inside: Inside) -> None:
        self._chance = random.Random(number)
        self._holder = f"w{number}"
        self._servers = servers
        self._inside = inside
        self.grants = 0

    def work(self) -> int:
        for _ in range(TURNS):
            held: list[leasehold.Granted] = []
            for name in self._some_names():
                wait = self._chance.choice((0, 5, 5))
                told = self._ask().acquire(name, ttl=60, wait=wait, holder=self._holder)
                assert not isinstance(told, leasehold.Deadlock), told
                if isinstance(told, leasehold.Granted):
                    self._inside.enter(told.lease)
                    held.append(told)
            for granted in self._chance.sample(held, len(held)):
                self._inside.leave(granted.lease)
                told_back = self._ask().release(granted.lease.id, granted.token)
                assert isinstance(told_back, leasehold.Released)
                assert told_back.released, told_back
            self.grants += len(held)
        return self.grants

    def _some_names(self) -> list[str]:
        """At most one of those that overlap."""
        names = sorted(self._chance.sample(range(len(NAMES)), self._chance.choice((1, 1, 2, 3))))
        paths = [at for at in names if at >= 3]
        return [NAMES[at] for at in names if at < 3 or at == paths[0]]

    def _ask(self) -> leasehold.Locks:
        return self._chance.choice(self._servers)


def test_stores_that_go_in_order_meet_nobody_and_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with engines(monkeypatch, 3) as servers, ThreadPoolExecutor(WORKERS) as pool:
        inside = Inside()
        workers = [Worker(number, servers, inside) for number in range(WORKERS)]
        grants = list(pool.map(Worker.work, workers))
        assert all(grants)
        assert servers[0].list() == ()


def cross(servers: list[leasehold.Locks], mine: leasehold.Granted, other: str) -> bool:
    """Ask for what the other holds, then release what we hold, elsewhere. True if we were the victim."""
    one, two, three = servers
    told = one.acquire(other, ttl=60, wait=20, holder=mine.lease.holder)
    given_back = two.release(mine.lease.id, mine.token)
    assert isinstance(given_back, leasehold.Released)
    assert given_back.released
    if isinstance(told, leasehold.Deadlock):
        return True
    assert isinstance(told, leasehold.Granted), told
    three.release(told.lease.id, told.token)
    return False


def test_of_two_who_wait_for_each_other_one_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with engines(monkeypatch, 3) as servers, ThreadPoolExecutor(2) as pool:
        for number in range(CYCLES):
            held = [take(servers[number % 3], f"{letter}{number}", holder=letter) for letter in "pq"]
            asked = [each.lease.resources[0] for each in reversed(held)]
            routes = (servers, [servers[1], servers[0], servers[2]])
            assert sum(pool.map(cross, routes, held, asked)) == 1
        assert servers[0].list() == ()

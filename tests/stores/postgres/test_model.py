"""Three servers' stores against a plain dictionary: whatever each of them remembers, it sees what is true."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from leasehold.domain import keys
from leasehold.domain.entries import Drop, Put, Ref
from leasehold.domain.events import Event
from leasehold.errors import Conflict
from leasehold.steps import through
from leasehold.stores import HistoryQuery, postgres
from leasehold.stores.postgres import PostgresStore, journal
from leasehold.stores.postgres.cache import PostgresCache
from tests.kit.postgres import schema, take_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.stores.postgres.transaction import PostgresTransaction

STEPS = 20_000 if os.environ.get("LEASEHOLD_PROVE") else 400
KEYS = [keys.node("default", str(number)) for number in range(12)]
LIMIT = 2**31


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    take_time(monkeypatch)


class World:
    """The stores, and what must be in them."""

    def __init__(self, url: str, seed: int, alone: tuple[int, ...]) -> None:
        self.chance = random.Random(seed)
        self.alone = alone
        self.stores = [PostgresStore(url) for _ in range(3)]
        self.stores[2].cache = PostgresCache(5)  # one that forgets all the time
        self.records: dict[str, set[str]] = {key: set() for key in KEYS}
        self.told: list[str] = []
        self.fence = 0
        self.now = 0
        self.assumed = self.mistaken = self.journalled = 0

    def step(self) -> None:
        """One transaction of somebody: a look or two, and a commit, or none. Until then it may be mistaken."""
        store = self.chance.choice(self.stores[: self.chance.choice(self.alone)])
        if self.chance.random() < 0.02:
            store.in_doubt()  # as after a connection that was lost
        transaction = store.begin()
        try:
            self._look_and_write(transaction, store.assumed() is not None)
        except Conflict:
            self.mistaken += 1
        finally:
            transaction.close()
        self.journalled += store.journal.since is not None
        if self.chance.random() < 0.2:
            self.check(self.chance.choice(self.stores))

    def check(self, store: PostgresStore) -> None:
        """Somebody looks without a turn."""
        if self.chance.random() < 0.5:
            found = {key: {*record.notes} for key, record in store.read(KEYS)[1].items()}
        else:
            found = {key: set[str]() for key in KEYS} | {key: {*record.notes} for key, record in store.scan("n")}
        assert found == self.records

    def _look_and_write(self, transaction: PostgresTransaction, is_assumed: bool) -> None:
        wanted, more = self._some(5), self._some(3)
        seen = [{*transaction.load(wanted)[key].notes} for key in wanted]
        seen += [{*transaction.load(more)[key].notes} for key in more]
        before = [{*self.records[key]} for key in (*wanted, *more)]
        now, fence, last = transaction.now, transaction.fence, self.fence
        if self.chance.random() < 0.7:
            self._commit(transaction, [*wanted, *more])
        else:
            through(transaction.confirming())
        assert seen == before
        assert fence >= last
        assert now >= self.now
        self.now = now
        self.assumed += is_assumed

    def _some(self, most: int) -> list[str]:
        return self.chance.sample(KEYS, self.chance.randrange(most))

    def _commit(self, transaction: PostgresTransaction, wanted: Sequence[str]) -> None:
        changes: list[Put | Drop] = []
        after = {key: {*ids} for key, ids in self.records.items()}
        for key in wanted:
            id_ = f"r{self.chance.randrange(4)}"
            if self.chance.random() < 0.6:
                changes.append(Put(key, Ref(id_)))
                after[key].add(id_)
            else:
                changes.append(Drop(key, id_))
                after[key].discard(id_)
        told = [f"{len(self.told)}-{number}" for number in range(self.chance.randrange(3))]
        events = [Event(kind, 1, "default", (), "ada", None, None, 0, {}) for kind in told]
        fence = transaction.fence + self.chance.randrange(3)
        transaction.commit(changes, events, fence)
        self.records, self.fence = after, max(fence, self.fence)
        self.told += told

    def close(self) -> None:
        for store in self.stores:
            store.close()


@pytest.mark.parametrize(("alone", "hasty"), [((1, 3, 3), False), ((1, 1, 1, 1, 1, 1, 1, 1, 3), True)])
def test_three_servers_see_the_truth_whatever_they_cache(
    alone: tuple[int, ...], hasty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if they assume soon that they are alone, and leave a journal to each other."""
    if hasty:
        monkeypatch.setattr(postgres, "AGAIN", 0.0)
        monkeypatch.setattr(postgres, "PRACTICE", 1)
        monkeypatch.setattr(postgres, "ALONE", 1)
        monkeypatch.setattr(journal, "FULL", 15)
    with schema() as url:
        world = World(url, 7, alone)
        try:
            for _ in range(STEPS):
                world.step()
            for store in world.stores:
                assert {key: {*record.notes} for key, record in store.read(KEYS)[1].items()} == world.records
            told = [event.kind for event in store.history(HistoryQuery(limit=LIMIT))]
            assert told[::-1] == world.told
            if hasty:
                assert world.assumed > STEPS / 10
                assert world.mistaken > STEPS / 100
                assert world.journalled > STEPS / 10
            else:
                assert world.mistaken == 0
        finally:
            world.close()

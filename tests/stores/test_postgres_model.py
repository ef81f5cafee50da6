"""Three servers' stores against a plain dictionary: whatever each of them remembers, it sees what is true."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

from leasehold import keys
from leasehold.model import Drop, Event, Put, Ref
from leasehold.stores import HistoryQuery
from leasehold.stores.cache import Cache
from leasehold.stores.postgres import PostgresStore
from tests.stores.postgres import schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leasehold.model import Record
    from leasehold.stores.postgres.transaction import PostgresTransaction

STEPS = 20_000 if os.environ.get("LEASEHOLD_PROVE") else 400
KEYS = [keys.node("default", str(number)) for number in range(12)]
LIMIT = 2**31


class World:
    """The stores, and what must be in them."""

    def __init__(self, url: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self.stores = [PostgresStore(url) for _ in range(3)]
        self.stores[2].cache = Cache(5)  # one that forgets all the time
        self.records: dict[str, set[str]] = {key: set() for key in KEYS}
        self.told: list[str] = []
        self.fence = 0

    def step(self) -> None:
        """One transaction of somebody: a look or two, and a commit, or none."""
        store = self.chance.choice(self.stores[: self.chance.choice((1, 3, 3))])
        if self.chance.random() < 0.02:
            store.in_doubt()  # as after a connection that was lost
        transaction = store.begin()
        try:
            wanted = self._some(5)
            self._compare(transaction.load(wanted), wanted)
            more = self._some(3)
            self._compare(transaction.load(more), more)
            assert transaction.fence >= self.fence
            if self.chance.random() < 0.7:
                self._commit(transaction, [*wanted, *more])
        finally:
            transaction.close()

    def _some(self, most: int) -> list[str]:
        return self.chance.sample(KEYS, self.chance.randrange(most))

    def _compare(self, loaded: Mapping[str, Record], wanted: Sequence[str]) -> None:
        assert {key: {*loaded[key].notes} for key in wanted} == {key: self.records[key] for key in wanted}

    def _commit(self, transaction: PostgresTransaction, wanted: Sequence[str]) -> None:
        changes: list[Put | Drop] = []
        for key in wanted:
            id_ = f"r{self.chance.randrange(4)}"
            if self.chance.random() < 0.6:
                changes.append(Put(key, Ref(id_)))
                self.records[key].add(id_)
            else:
                changes.append(Drop(key, id_))
                self.records[key].discard(id_)
        told = [f"{len(self.told)}-{number}" for number in range(self.chance.randrange(3))]
        self.told += told
        self.fence = transaction.fence + self.chance.randrange(3)
        events = [Event(kind, 1, "default", (), "ada", None, None, 0, {}) for kind in told]
        transaction.commit(changes, events, self.fence)

    def close(self) -> None:
        for store in self.stores:
            store.close()


def test_whatever_three_servers_remember_they_see_what_is_true() -> None:
    with schema() as url:
        world = World(url, 7)
        try:
            for _ in range(STEPS):
                world.step()
            for store in world.stores:
                assert {key: {*record.notes} for key, record in store.read(KEYS)[1].items()} == world.records
            told = [event.kind for event in store.history(HistoryQuery(limit=LIMIT))]
            assert told[::-1] == world.told
        finally:
            world.close()

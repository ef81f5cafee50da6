"""A server decides in all lanes, and commits them together, while the number of lanes changes on etcd."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.config import settings
from leasehold.domain.outcomes import Granted
from leasehold.errors import StoreUnsuitable
from leasehold.locks.connect import divide, open_served
from leasehold.routing.lanes import lane_of_space
from leasehold.stores.etcd import EtcdStore, joint
from leasehold.testing.conformance.asking import take
from tests.kit import etcd

if TYPE_CHECKING:
    from leasehold.locks.aio import AsyncLocks

LANES = 4
SPACES = [f"team-{number}" for number in range(12)]
PATIENCE = 60.0
JOINT = 20
"""Joint commits after which the change begins."""


class Load:
    """Callers in all lanes, each until it is refused, and what they were granted."""

    def __init__(self) -> None:
        self.moved = threading.Condition()
        self.cycles = dict.fromkeys(SPACES, 0)
        self.refused: set[str] = set()
        self.joint = 0
        self.held: dict[str, int] = {}
        """The fence of each lease that was granted and not released."""
        self.highest = 0
        """The highest fence of any lease."""

    async def call(self, locks: AsyncLocks, space: str) -> None:
        """Acquire and release, and keep each third lease."""
        for number in itertools.count():
            try:
                granted = await locks.acquire(f"r{number}", ttl=600, space=space)
                assert isinstance(granted, Granted)
                self.held[granted.lease.id] = granted.lease.fence
                self.highest = max(self.highest, granted.lease.fence)
                if number % 3:
                    assert await locks.release(granted.lease.id, granted.token)
                    del self.held[granted.lease.id]
            except StoreUnsuitable:
                break
            finally:
                with self.moved:
                    self.cycles[space] += 1
                    self.moved.notify_all()
        with self.moved:
            self.refused.add(space)
            self.moved.notify_all()

    def wait_for_commits(self) -> None:
        """Wait until each caller that is not refused has written again."""
        with self.moved:
            before = dict(self.cycles)
            assert self.moved.wait_for(
                lambda: all(space in self.refused or self.cycles[space] > before[space] + 1 for space in SPACES),
                PATIENCE,
            )

    def wait_for_joint_commits(self) -> None:
        with self.moved:
            assert self.moved.wait_for(lambda: self.joint > JOINT, PATIENCE)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Counts joint commits; before a write of the change, lets all lanes that are open write as well."""
    load, outcome, ask, lost = Load(), joint.Flight.outcome, EtcdStore.txn, [False]

    def counted(flight: joint.Flight) -> Any:  # noqa: ANN401 (as the method has it)
        answer = outcome(flight)
        with load.moved:
            load.joint += len(flight.parts) > 1 and answer is not None
            load.moved.notify_all()
        return answer

    def txn(store: EtcdStore, *words: Any, changes: bool = False) -> Any:  # noqa: ANN401 (as the method has it)
        is_of_the_change = changes and threading.current_thread().name == "change"
        if is_of_the_change and not lost[0]:
            load.wait_for_commits()
        answer = ask(store, *words, changes=changes)
        if is_of_the_change:
            lost[0] = not answer.succeeded
        return answer

    monkeypatch.setattr(joint.Flight, "outcome", counted)
    monkeypatch.setattr(EtcdStore, "txn", txn)
    return load


def test_what_a_server_was_told_is_written_is_there_after_the_change(load: Load) -> None:
    assert {lane_of_space(space, LANES) for space in SPACES} == set(range(1, LANES + 1))
    url = etcd.empty(None)
    changed: list[tuple[int, int]] = []

    def change() -> None:
        load.wait_for_joint_commits()
        changed.append(divide(settings.find(url), LANES + 1))

    async def main() -> None:
        served = await open_served(url)
        changing = threading.Thread(target=change, name="change")
        changing.start()
        try:
            await asyncio.gather(*(load.call(served.locks, space) for space in SPACES))
            await asyncio.to_thread(changing.join)
            later = (served.locks.acquire("later", ttl=600, space=space) for space in SPACES)
            told = await asyncio.gather(*later, return_exceptions=True)
            assert [type(each) for each in told] == [StoreUnsuitable] * len(SPACES)
        finally:
            await asyncio.to_thread(changing.join)
            await served.close()

    asyncio.run(main())
    assert changed == [(LANES, LANES + 1)]
    with leasehold.connect(url, holder="bob") as bob:
        found = bob.list()
        assert isinstance(found, tuple)
        assert {lease.id: lease.fence for lease in found} == load.held
        for space in SPACES:
            assert take(bob, "another", space=space).lease.fence > load.highest

"""On a store behind a network the loop leaves a turn until it is answered, and leaves to a thread what has to wait."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from leasehold.domain.outcomes import Granted, Released
from leasehold.engine import loop_driver as loop_drivers
from leasehold.engine.engine import Engine
from leasehold.engine.loop_driver import LoopDriver
from leasehold.errors import Closed, Conflict
from leasehold.steps import through
from leasehold.stores.memory import Memory, MemoryStore, MemoryTransaction
from leasehold.stores.protocol import NetworkStore, NetworkTransaction
from leasehold.testing.conformance.asking import PATIENCE
from tests.engine.rig import acquire, release, until_so

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from leasehold.domain.entries import Drop, Put, Record
    from leasehold.domain.events import Event
    from leasehold.domain.outcomes import Outcome
    from leasehold.steps import Steps


class Far(MemoryStore, NetworkStore):
    """A memory behind a socket: a commit that was sent is carried out once the other side has answered."""

    capabilities = MemoryStore.capabilities._replace(remote=True)

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.here, self.there = socket.socketpair()
        self.is_ready = True
        self.conflicts = 0
        self.is_answered_at_once = True
        self.begun: list[int] = []
        """The threads in which transactions were begun,"""
        self.ended: list[int] = []
        """and those in which they ended."""

    def ready(self, _keys: Sequence[str]) -> bool:
        return self.is_ready

    def begin(self) -> FarTransaction:
        self.begun.append(threading.get_ident())
        self.memory.enter()
        return FarTransaction(self)

    def answer(self) -> None:
        self.there.send(b".")

    def close(self) -> None:
        self.here.close()
        self.there.close()
        super().close()


class FarTransaction(MemoryTransaction, NetworkTransaction):
    """It can be left until it is answered."""

    def __init__(self, store: Far) -> None:
        super().__init__(store)
        self._far = store

    def load(self, keys: Iterable[str]) -> Mapping[str, Record]:
        return {**super().load(keys), **self._memory.records}  # it remembers all of them

    def committing(
        self,
        changes: Sequence[Put | Drop],
        events: Sequence[Event],
        fence: int,
        after: Mapping[str, Record] | None = None,
    ) -> Steps[None]:
        if self._far.is_answered_at_once:
            self._far.answer()
        yield self
        self._far.here.recv(1)
        self._far.ended.append(threading.get_ident())
        if self._far.conflicts:
            self._far.conflicts -= 1
            raise Conflict("another process was quicker")
        self.commit(changes, events, fence, after)

    def confirming(self) -> Steps[None]:
        return
        yield

    def fileno(self) -> int:
        return self._far.here.fileno()

    def is_answered(self) -> bool:
        return bool(select.select([self._far.here], [], [], 0)[0])


LOOP = threading.get_ident()


async def on_its_way(store: Far, engine: Engine, driver: LoopDriver) -> asyncio.Future[Outcome]:
    """A request whose commit was sent, and is not answered until the test does."""
    store.is_answered_at_once = False
    asking = asyncio.ensure_future(driver.ask(acquire(engine, "r"), "token"))
    await until_so(lambda: bool(store.begun), "it was begun")
    return asking


def play(scene: Callable[[Far, Engine, LoopDriver], Awaitable[None]]) -> None:
    """In a loop of its own, on a store that is done with its first turn, in which it sweeps."""

    async def main() -> None:
        store = Far(Memory())
        engine = Engine(store)
        driver = LoopDriver(engine, asyncio.get_running_loop())
        try:
            assert isinstance(await driver.ask(acquire(engine, "first"), "token"), Granted)
            store.begun.clear()
            store.ended.clear()
            await scene(store, engine, driver)
        finally:
            driver.close()
            store.close()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_ready_turn_that_is_answered_is_done_by_the_loop() -> None:
    async def scene(store: Far, engine: Engine, driver: LoopDriver) -> None:
        granted = await driver.ask(acquire(engine, "r"), "token")
        assert isinstance(await driver.ask(release(granted)), Released)
        assert store.begun == store.ended == [LOOP, LOOP]

    play(scene)


def test_the_loop_goes_on_until_it_is_answered() -> None:
    async def scene(store: Far, engine: Engine, driver: LoopDriver) -> None:
        asking = await on_its_way(store, engine, driver)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not asking.done()
        assert not store.ended
        store.answer()
        assert isinstance(await asking, Granted)
        assert store.ended == [LOOP]

    play(scene)


def test_requests_that_arrive_meanwhile_are_the_next_turn() -> None:
    async def scene(store: Far, engine: Engine, driver: LoopDriver) -> None:
        first = await on_its_way(store, engine, driver)
        others = [asyncio.ensure_future(driver.ask(acquire(engine, f"r{place}"), "token")) for place in range(5)]
        await asyncio.sleep(0)
        assert len(store.begun) == 1
        store.answer()
        assert isinstance(await first, Granted)
        store.answer()
        assert all(isinstance(each, Granted) for each in await asyncio.gather(*others))
        assert len(store.begun) == 2

    play(scene)


def test_a_turn_that_is_not_ready_is_left_to_a_thread() -> None:
    async def scene(store: Far, engine: Engine, driver: LoopDriver) -> None:
        store.is_ready = False
        assert isinstance(await driver.ask(acquire(engine, "r"), "token"), Granted)
        assert LOOP not in store.begun
        assert store.begun == store.ended

    play(scene)


def test_an_answer_that_takes_long_is_waited_for_by_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_drivers, "PATIENCE", 0.01)

    async def scene(store: Far, engine: Engine, driver: LoopDriver) -> None:
        asking = await on_its_way(store, engine, driver)
        await until_so(lambda: driver._listening is None, "the loop has given up")
        store.answer()
        assert isinstance(await asking, Granted)
        assert store.begun == [LOOP]
        assert store.ended != [LOOP]

    play(scene)


def test_a_turn_in_conflict_is_decided_again_in_a_thread() -> None:
    async def scene(store: Far, engine: Engine, driver: LoopDriver) -> None:
        store.conflicts = 1
        assert isinstance(await driver.ask(acquire(engine, "r"), "token"), Granted)
        first, second = store.begun
        assert first == LOOP
        assert second != LOOP

    play(scene)


def test_closing_waits_for_the_answer_that_is_on_its_way() -> None:
    async def scene(store: Far, engine: Engine, driver: LoopDriver) -> None:
        asking = await on_its_way(store, engine, driver)
        late = asyncio.ensure_future(driver.ask(acquire(engine, "s"), "token"))
        await asyncio.sleep(0)
        store.answer()
        driver.close()
        assert isinstance(await asking, Granted)
        with pytest.raises(Closed):
            await late

    play(scene)


def test_a_breakage_in_the_loop_is_reported_to_every_caller() -> None:
    async def scene(store: Far, engine: Engine, driver: LoopDriver) -> None:
        told: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, said: told.append(str(said["exception"])))
        store.here.close()
        with pytest.raises(OSError, match="Broken pipe"):
            await driver.ask(acquire(engine, "r"), "token")
        await until_so(lambda: bool(told), "the loop has told it")
        with pytest.raises(Closed):
            await driver.ask(acquire(engine, "s"), "token")

    play(scene)


def test_a_caller_without_a_loop_runs_all_steps() -> None:
    store = Far(Memory())
    engine = Engine(store)
    pending = engine.submit(acquire(engine, "r"), "token")
    assert through(engine.turning()) == 1
    assert isinstance(pending.result(), Granted)
    assert engine.turn() == 0
    store.close()

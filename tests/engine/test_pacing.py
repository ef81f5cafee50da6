"""A server's turns are the loop's own while the disk is fast, a thread's while it is slow."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

from leasehold.domain.outcomes import Granted, Released
from leasehold.engine.engine import Engine
from leasehold.engine.loop_driver import FAST, SLOW, SMOOTHING, TRIES, TRY_EVERY, Pace, PacedDriver
from leasehold.stores.memory import Memory, MemoryStore
from tests.engine.rig import acquire, release

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.domain.events import Event

FOR_EVER = 10_000
"""Turns; a pace that has not changed by then never will."""


class Disk:
    """Where commits are made, and how long each of them waits."""

    def __init__(self) -> None:
        self.wait = 0.0
        self.threads: list[int] = []
        self.memory = Memory(fault=self._reached)

    def _reached(self, point: str) -> None:
        if point == "before_commit":
            self.threads.append(threading.get_ident())
            time.sleep(self.wait)

    @property
    def is_loop(self) -> bool:
        """Whether the last commit was made by the loop, which is the main thread here."""
        return self.threads[-1] == threading.main_thread().ident


class TestPace:
    def test_a_fast_disk_never_takes_a_thread(self) -> None:
        pace = Pace()
        for _ in range(1_000):
            pace.saw(SLOW / 2)
            assert not pace.wants_thread()

    def test_one_slow_commit_is_no_reason(self) -> None:
        pace = Pace()
        pace.saw(SLOW * SMOOTHING / 2)
        assert not pace.wants_thread()

    def test_a_slow_disk_takes_a_thread_and_is_tried_again_now_and_then(self) -> None:
        now = 0.0
        pace = Pace(lambda: now)
        for _ in range(2 * SMOOTHING):
            pace.saw(10 * SLOW)
        assert pace.wants_thread()
        assert pace.wants_thread()
        now += TRY_EVERY
        assert not pace.wants_thread(), "time to try"
        assert pace.wants_thread(), "one at a time"

    def test_only_a_disk_that_is_fast_several_times_in_a_row_counts_as_fast(self) -> None:
        pace = Pace()
        for _ in range(2 * SMOOTHING):
            pace.saw(10 * SLOW)
        for _ in range(TRIES - 1):
            pace.saw(FAST / 2)
        pace.saw(2 * FAST)
        assert pace.wants_thread()
        for _ in range(TRIES):
            pace.saw(FAST / 2)
        assert not pace.wants_thread()


async def cycle(driver: PacedDriver, engine: Engine, name: str) -> None:
    granted = await driver.ask(acquire(engine, name), "token")
    assert isinstance(granted, Granted)
    assert isinstance(await driver.ask(release(granted)), Released)


async def until_commits_are_made(driver: PacedDriver, engine: Engine, disk: Disk, *, by_the_loop: bool) -> None:
    for number in range(FOR_EVER):
        await cycle(driver, engine, f"r{number}")
        if disk.is_loop is by_the_loop:
            return
    raise AssertionError("it never changed its mind")


class TestPacedDriver:
    def test_turns_go_to_a_thread_and_come_back(self) -> None:
        async def play() -> None:
            disk, now = Disk(), [0.0]
            engine = Engine(MemoryStore(disk.memory))
            driver = PacedDriver(engine, asyncio.get_running_loop(), pace=Pace(lambda: now[0]))
            await cycle(driver, engine, "first")
            assert disk.is_loop
            disk.wait = 4 * SLOW
            await until_commits_are_made(driver, engine, disk, by_the_loop=False)
            disk.wait = 0.0
            for _ in range(FOR_EVER):
                now[0] += TRY_EVERY
                await cycle(driver, engine, "next")
                if not driver._pace.wants_thread():
                    break
            await cycle(driver, engine, "last")
            assert disk.is_loop
            driver.close()

        asyncio.run(play())

    def test_the_loop_goes_on_while_a_slow_commit_waits_and_is_the_one_that_tells(self) -> None:
        async def play() -> None:
            disk, told = Disk(), list[int]()
            engine = Engine(MemoryStore(disk.memory))
            pace = Pace(lambda: 0.0)  # never time to try the loop
            driver = PacedDriver(engine, asyncio.get_running_loop(), pace=pace)

            def hear(_events: Sequence[Event]) -> None:
                told.append(threading.get_ident())

            driver.observing(hear)
            disk.wait = 4 * SLOW
            await until_commits_are_made(driver, engine, disk, by_the_loop=False)
            rounds = 0
            asking = asyncio.ensure_future(cycle(driver, engine, "slow"))
            while not asking.done():
                rounds += 1
                await asyncio.sleep(0)
            assert rounds > 10, "nobody was heard while the commit waited"
            assert set(told) == {threading.main_thread().ident}
            driver.close()

        asyncio.run(play())

    def test_several_at_once_are_waited_for_and_one_alone_is_not(self) -> None:
        async def play() -> None:
            disk, loop = Disk(), asyncio.get_running_loop()
            engine = Engine(MemoryStore(disk.memory))
            driver, told = PacedDriver(engine, loop), list[object]()

            def ask(*names: str) -> None:
                for name in names:
                    driver.submit(acquire(engine, name), "token", told.append)

            async def answered(count: int) -> int:
                for _ in range(FOR_EVER):
                    if len(told) == count:
                        return len(disk.threads)
                    await asyncio.sleep(0)
                raise AssertionError("nobody was told")

            loop.call_soon(ask, "a", "b")
            loop.call_soon(loop.call_soon, ask, "c", "d")
            assert await answered(4) == 1, "two at once, and two more right after them, are one commit"
            loop.call_soon(ask, "e")
            loop.call_soon(loop.call_soon, loop.call_soon, ask, "f")
            assert await answered(6) == 3, "nobody is made to wait for who may come"
            loop.call_soon(ask, "g", "h")
            loop.call_soon(driver.enough)
            loop.call_soon(loop.call_soon, ask, "i", "j")
            assert await answered(10) == 5, "who brings all that it has is not made to wait"
            driver.close()

        asyncio.run(play())

    def test_how_long_turns_take_is_told_either_way(self) -> None:
        async def play() -> None:
            disk, told = Disk(), list[tuple[int, bool]]()
            engine = Engine(MemoryStore(disk.memory))
            driver = PacedDriver(engine, asyncio.get_running_loop())
            driver.measure = lambda asked, _seconds: told.append((asked, disk.is_loop))
            disk.wait = 4 * SLOW
            await until_commits_are_made(driver, engine, disk, by_the_loop=False)
            driver.close()
            assert {by_the_loop for _, by_the_loop in told} == {True, False}
            assert all(asked == 1 for asked, _ in told)

        asyncio.run(play())

"""A server's turns are the loop's own while the disk is fast, a thread's while it is slow; and when it stays awake."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import pytest

from leasehold import processors
from leasehold.engine import Engine
from leasehold.model import Granted, Released
from leasehold.pacing import ASKS_AGAIN, AWAKE, FAST, SLOW, SMOOTHING, TRIES, TRY_EVERY, Pace, PacedDriver, Vigil
from leasehold.stores.memory import Memory, MemoryStore
from tests.engine.rig import acquire, release, until_so

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from leasehold.model import Event, Outcome

FOR_EVER = 10_000
"""Turns; whoever has not changed its mind by then never will."""


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


class TestVigil:
    """After a turn of a millisecond's tenth, at various distances from the one before."""

    def after(self, pause: float, *, waiting: int = 1, available: float = 2) -> tuple[Vigil, list[float]]:
        now = [0.0]
        vigil = Vigil(lambda: now[0], available)
        vigil.begins(now[0], waiting)
        now[0] += pause + AWAKE / 10
        assert vigil.begins(now[0] - AWAKE / 10, waiting) is vigil.lasts()
        return vigil, now

    def test_it_lasts_for_a_while_if_somebody_waits_and_requests_come_in_close_order(self) -> None:
        vigil, now = self.after(AWAKE / 2)
        assert vigil.lasts()
        now[0] += 0.9 * AWAKE
        assert vigil.lasts()
        now[0] += 0.2 * AWAKE
        assert not vigil.lasts()

    def test_there_is_none_where_it_would_be_for_nothing(self) -> None:
        assert not self.after(2 * AWAKE)[0].lasts(), "requests are far between"
        assert not self.after(AWAKE / 2, waiting=0)[0].lasts(), "nobody waits for what may be given back"
        assert not self.after(AWAKE / 2, available=1)[0].lasts(), "whoever asks next needs the processor"

    def test_it_is_over_when_nobody_waits_any_more(self) -> None:
        vigil, now = self.after(AWAKE / 2)
        vigil.begins(now[0], 0)
        assert not vigil.lasts()

    def test_what_comes_next_is_rehearsed_once_after_each_turn(self) -> None:
        vigil, now = self.after(AWAKE / 2)
        for _ in range(2):
            assert vigil.lasts()
            assert vigil.wants_rehearsal()
            for _ in range(9):
                now[0] += AWAKE / 10
                assert vigil.lasts()
                assert not vigil.wants_rehearsal()
            vigil.begins(now[0], 1)

    def test_after_a_hand_off_it_is_rehearsed_when_whoever_gave_back_has_asked_again_or_has_not(self) -> None:
        vigil, now = self.after(AWAKE / 2)
        for has_asked in (True, False):
            vigil.begins(now[0], 1, handed_on=True)
            now[0] += 0.9 * ASKS_AGAIN
            assert vigil.lasts()
            assert not vigil.wants_rehearsal(), "it would be for nothing"
            if has_asked:
                vigil.begins(now[0], 1)
            else:
                now[0] += 0.2 * ASKS_AGAIN
            assert vigil.lasts()
            assert vigil.wants_rehearsal()


@pytest.mark.parametrize(
    ("limit", "expected"), [("50000 100000", 0.5), ("max 100000", None), ("rubbish", None), (None, None)]
)
def test_a_control_group_that_allows_less_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None, expected: float | None
) -> None:
    everything = processors.count()
    (tmp_path / "own").write_text("1:cpu:/\n0::/here\n")
    (tmp_path / "here").mkdir()
    if limit is not None:
        (tmp_path / "here" / "cpu.max").write_text(f"{limit}\n")
    monkeypatch.setattr(processors, "OWN", tmp_path / "own")
    monkeypatch.setattr(processors, "GROUPS", tmp_path)
    assert processors.count() == (everything if expected is None else expected)


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


async def handed_on(driver: PacedDriver, engine: Engine) -> tuple[Outcome, asyncio.Future[Outcome]]:
    """What `next` has got who waited for it, and somebody who waits behind."""
    first = await driver.ask(acquire(engine, "hot"), "alice")
    waiting = asyncio.ensure_future(driver.ask(acquire(engine, "hot", holder="next", wait=60), "next"))
    last = asyncio.ensure_future(driver.ask(acquire(engine, "hot", holder="last", wait=60), "last"))
    await until_so(lambda: engine.waiting == 2, "both wait")
    await driver.ask(release(first))
    return await waiting, last


class TestPacedDriver:
    def test_turns_go_to_a_thread_and_come_back(self) -> None:
        async def play() -> None:
            disk, now = Disk(), [0.0]
            engine = Engine(MemoryStore(disk.memory))
            driver = PacedDriver(engine, asyncio.get_running_loop(), Pace(lambda: now[0]))
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
            driver = PacedDriver(engine, asyncio.get_running_loop(), Pace(lambda: 0.0))  # never time to try the loop

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

    def test_the_loop_does_not_fall_asleep_while_a_vigil_lasts(self) -> None:
        async def play() -> None:
            loop, now = asyncio.get_running_loop(), [time.perf_counter() + 3_600]  # so that every turn follows closely
            engine = Engine(MemoryStore(Memory()))
            driver = PacedDriver(engine, loop, vigil=Vigil(lambda: now[0], available=2))
            granted = await driver.ask(acquire(engine, "hot"), "token")
            assert isinstance(granted, Granted)
            assert not driver._is_awake, "nobody waits"
            waiting = asyncio.ensure_future(driver.ask(acquire(engine, "hot", wait=60), "token"))
            await until_so(lambda: engine.waiting == 1, "somebody waits")
            assert driver._is_awake
            for _ in range(100):
                await asyncio.sleep(0)
            assert driver._is_awake, "there is always something to do: the loop has no time to sleep"
            now[0] += 2 * AWAKE
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not driver._is_awake
            await driver.ask(release(granted))
            assert isinstance(await waiting, Granted)
            driver.close()

        asyncio.run(play())

    def test_a_vigil_rehearses_and_rests_at_its_end(self) -> None:
        async def play() -> None:
            loop, now = asyncio.get_running_loop(), [time.perf_counter() + 3_600]
            done = list[str]()
            engine = Engine(EarlyStore(done))
            driver = PacedDriver(engine, loop, vigil=Vigil(lambda: now[0], available=2))
            _, last = await handed_on(driver, engine)
            assert not done, "whoever gave it back may ask again first"
            now[0] += ASKS_AGAIN
            for _ in range(4):
                await asyncio.sleep(0)
            assert done == ["early"]
            now[0] += AWAKE
            await until_so(lambda: not driver._is_awake, "the vigil is over")
            assert done[-1] == "rest"
            assert done.count("rest") == 1
            last.cancel()
            driver.close()

        asyncio.run(play())

    def test_nothing_is_rehearsed_while_a_thread_has_its_turn(self) -> None:
        async def play() -> None:
            loop, now = asyncio.get_running_loop(), [time.perf_counter() + 3_600]
            pace, done = Pace(), list[str]()
            store = EarlyStore(done)
            engine = Engine(store)
            driver = PacedDriver(engine, loop, pace, Vigil(lambda: now[0], available=2))
            granted, last = await handed_on(driver, engine)
            assert driver._is_awake
            pace.is_slow, pace._try_at = True, pace._clock() + 3_600
            store.may_commit.clear()
            giving_back = asyncio.ensure_future(driver.ask(release(granted, "next")))
            await until_so(lambda: driver._turning is not None, "a thread is at it")
            assert done[-1] == "rest", "whoever began early lets go before a thread begins"
            for _ in range(10):
                now[0] += ASKS_AGAIN / 2
                await asyncio.sleep(0)
            assert driver._is_awake
            assert done[-1] == "rest"
            store.may_commit.set()
            assert isinstance(await giving_back, Released)
            assert isinstance(await last, Granted)
            driver.close()

        asyncio.run(play())


class EarlyStore(MemoryStore):
    """One that tells when a turn begins early, and when that is given up."""

    def __init__(self, done: list[str]) -> None:
        super().__init__(Memory(fault=self._reached))
        self._done = done
        self.may_commit = threading.Event()
        self.may_commit.set()

    def _reached(self, point: str) -> None:
        if point == "before_commit":
            assert self.may_commit.wait(30)

    def begin_early(self) -> bool:
        self._done.append("early")
        return True

    def leave_early(self) -> None:
        self._done.append("rest")

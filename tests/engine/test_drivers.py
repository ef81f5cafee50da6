"""Who drives an engine: a thread, the caller, an event loop. Real threads, real time, bounded waits."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.domain.outcomes import Granted, Released, TimedOut
from leasehold.engine.engine import BATCH, Engine
from leasehold.engine.loop_driver import PacedDriver
from leasehold.engine.pending import Latch
from leasehold.errors import Closed, StoreError
from leasehold.locks.local import CallerDriver, ThreadDriver
from leasehold.stores.memory import Memory, MemoryStore
from leasehold.testing.conformance.asking import PATIENCE, Asking, at_once, until
from tests.engine.rig import acquire, release, striking, until_so

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class _Interrupt(Exception):
    """What a signal's handler raises in the main thread."""


def _engine(memory: Memory | None = None) -> Engine:
    return Engine(MemoryStore(memory or Memory()))


def _nobody_waits(memory: Memory) -> bool:
    return not any(record.waiters for record in list(memory.records.values()))


def _nothing_held(memory: Memory) -> bool:
    return not any(record.holds for record in list(memory.records.values()))


def _ask_until_closed(driver: ThreadDriver, engine: Engine, started: threading.Barrier, place: int) -> int:
    started.wait(PATIENCE)
    answers = 0
    try:
        while True:
            driver.ask(acquire(engine, f"r{place}", reentrant=True, token="alice"), "token")
            answers += 1
    except Closed:
        return answers


class _Restless(Engine):
    """It always wants to be turned again after a microsecond, which is over before anybody can wait for it."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(Memory()))
        self.turns = 0

    def next_time(self) -> float:
        return time.monotonic() + 1e-6

    def turn(self) -> int:
        self.turns += 1
        return super().turn()

    def has_turned(self, so_often: int) -> bool:
        return self.turns >= so_often


class TestThreadDriver:
    def test_a_wait_that_is_over_before_it_begins_does_not_last_for_ever(self) -> None:
        # Once in some thousand times CPython's own queue, which was used here, would not have gone on.
        engine = _Restless()
        driver = ThreadDriver(engine)
        assert isinstance(driver.ask(acquire(engine, "r"), "token"), Granted)
        for _ in range(2_000):
            turned = engine.turns
            engine.wake()  # a thread that waits, or looks, or is about to
            until(partial(engine.has_turned, turned + 4), "the thread goes on although nobody signals any more")
        driver.close()

    def test_a_latch_is_waited_for_no_longer_than_said(self) -> None:
        latch = Latch()

        def wait_briefly() -> int:
            seen = 0
            for number in range(20_000):
                if number % 3 == 0:
                    latch.set()
                    latch.set()  # which says no more than the first
                seen += latch.wait(number % 4 * 1e-7)
            return seen

        assert Asking(wait_briefly).answer() == len(range(0, 20_000, 3))

    def test_answers_more_than_a_batch_although_nobody_asks_any_more(self) -> None:
        go_on = threading.Event()

        def hold_up(point: str) -> None:
            assert point != "begin" or go_on.wait(PATIENCE)

        engine = _engine(Memory(fault=hold_up))
        driver = ThreadDriver(engine)
        answered = threading.Semaphore(0)
        count = 2 * BATCH + 100
        for place in range(count):
            driver.submit(acquire(engine, f"r{place}"), "token", lambda _pending: answered.release())
        go_on.set()
        for _ in range(count):
            assert answered.acquire(timeout=PATIENCE)
        driver.close()

    def test_many_threads_take_turns(self) -> None:
        engine = _engine()
        driver = ThreadDriver(engine)
        inside: list[str] = []

        def work(name: str) -> int:
            for _ in range(25):
                granted = driver.ask(acquire(engine, "r", name, wait=600), name)
                inside.append(name)
                assert inside == [name]
                inside.remove(name)
                driver.ask(release(granted, name))
            return 25

        assert sum(at_once(work, [f"thread {place}" for place in range(16)])) == 400
        driver.close()

    def test_closing_answers_everybody_whenever_they_ask(self) -> None:
        for _ in range(60):
            engine = _engine()
            driver = ThreadDriver(engine)
            started = threading.Barrier(5)
            asked = [Asking(partial(_ask_until_closed, driver, engine, started, place)) for place in range(4)]
            started.wait(PATIENCE)
            driver.close()
            assert all(asking.answer() >= 0 for asking in asked)

    def test_closing_tells_that_the_store_could_not_be_told_and_is_done_nonetheless(self) -> None:
        trouble: list[Callable[[str], None]] = []
        memory = Memory(fault=lambda point: trouble[0](point) if trouble else None)
        engine = _engine(memory)
        driver = ThreadDriver(engine)
        driver.ask(acquire(engine, "r"), "token")
        waiting = driver.submit(acquire(engine, "r", "bob", wait=60), "token", lambda _: None)
        until(lambda: not _nobody_waits(memory), "bob is in the queue")
        trouble.append(striking("begin", StoreError("the disk is full"), times=10**9))
        with pytest.raises(StoreError, match="disk is full"):
            driver.close()
        with pytest.raises(Closed):
            waiting.result()
        driver.close()  # it is done already

    def test_closing_twice_and_without_having_asked(self) -> None:
        driver = ThreadDriver(_engine())
        driver.close()
        driver.close()
        with pytest.raises(Closed):
            driver.ask(acquire(_engine(), "r"))

    def test_a_bug_is_told_to_those_who_ask_and_to_those_who_come(self) -> None:
        trouble: list[Exception] = []

        def fault(point: str) -> None:
            if trouble and point == "before_commit":
                raise trouble[0]

        engine = _engine(Memory(fault=fault))
        driver = ThreadDriver(engine)
        driver.ask(acquire(engine, "r"), "alice")
        waiting: Asking[object] = Asking(lambda: driver.ask(acquire(engine, "r", "bob", wait=600), "bob"))
        until(lambda: engine.waiting == 1, "bob waits")
        trouble.append(ZeroDivisionError("a bug"))
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                driver.ask(acquire(engine, "other"))
        with pytest.raises(ZeroDivisionError):
            waiting.answer()
        driver.close()


@pytest.mark.parametrize("driver_of", [ThreadDriver, CallerDriver])
class TestInterrupted:
    """Control-C while waiting: out of the queue, and nothing is held."""

    def test_while_waiting(self, driver_of: Callable[[Engine], ThreadDriver | CallerDriver]) -> None:
        memory = Memory()
        holder, waiter = _engine(memory), _engine(memory)
        held = CallerDriver(holder).ask(acquire(holder, "r"), "alice")
        driver = driver_of(waiter)

        def interrupt(_number: int, _frame: object) -> None:
            raise _Interrupt

        def interrupt_once_it_waits() -> None:
            until(lambda: not _nobody_waits(memory), "somebody waits")
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

        before = signal.signal(signal.SIGUSR1, interrupt)
        try:
            killer = Asking(interrupt_once_it_waits)
            with pytest.raises(_Interrupt):
                driver.ask(acquire(waiter, "r", "bob", wait=600), "bob")
            killer.answer()
        finally:
            signal.signal(signal.SIGUSR1, before)
        until(lambda: _nobody_waits(memory), "bob has left the queue")
        CallerDriver(holder).ask(release(held))
        assert _nothing_held(memory)
        driver.close()


class TestCallerDriver:
    def test_waits_without_a_thread(self) -> None:
        engine = _engine()
        driver = CallerDriver(engine)
        before = threading.active_count()
        driver.ask(acquire(engine, "r", ttl=0.05), "alice")
        granted = driver.ask(acquire(engine, "r", "bob", wait=600), "bob")
        assert isinstance(granted, Granted)
        assert isinstance(driver.ask(acquire(engine, "r", "carol", wait=0.05), "carol"), TimedOut)
        assert isinstance(driver.ask(release(granted, "bob")), Released)
        assert threading.active_count() == before
        driver.close()
        with pytest.raises(Closed):
            driver.ask(acquire(engine, "r"))


class TestLoopDriver:
    def test_asks_waits_and_cancels(self) -> None:
        async def main() -> None:
            memory = Memory()
            engine = _engine(memory)
            driver = PacedDriver(engine, asyncio.get_running_loop())
            first = await driver.ask(acquire(engine, "r"), "alice")
            waiting = [asyncio.ensure_future(driver.ask(acquire(engine, "r", name, wait=600), name)) for name in "xyz"]
            await until_so(lambda: engine.waiting == 3, "three are waiting")
            waiting[0].cancel()
            await driver.ask(release(first))
            second = await waiting[1]
            assert isinstance(second, Granted)
            assert waiting[0].cancelled()
            driver.close()
            with pytest.raises(Closed):
                await waiting[2]
            assert _nobody_waits(memory)

        asyncio.run(asyncio.wait_for(main(), PATIENCE))

    def test_serves_at_an_expiry(self) -> None:
        async def main() -> None:
            engine = _engine()
            driver = PacedDriver(engine, asyncio.get_running_loop())
            await driver.ask(acquire(engine, "r", ttl=0.05), "alice")
            assert isinstance(await driver.ask(acquire(engine, "r", "bob", wait=600), "bob"), Granted)
            driver.close()

        asyncio.run(asyncio.wait_for(main(), PATIENCE))


FORKED = """
import os, sys, leasehold
locks = leasehold.connect(sys.argv[1], holder="parent", threaded=sys.argv[2] == "threaded")
granted = locks.acquire("r", ttl=600)
child = os.fork()
if child == 0:
    told = []
    for call in (
        lambda: locks.acquire("other", ttl=600),
        lambda: locks.renew(granted.lease.id, granted.token),
        lambda: locks.inspect("r"),
        lambda: locks.list(),
        lambda: locks.history(),
    ):
        try:
            told.append(repr(call()))
        except leasehold.StoreError as error:
            told.append("fork" if "fork" in str(error) else str(error))
    locks.close()
    print(*told, sep="\\n", flush=True)
    os._exit(0)
os.waitpid(child, 0)
again = locks.renew(granted.lease.id, granted.token)
print(type(again).__name__, len(locks.list()), flush=True)
locks.close()
"""


class TestFork:
    @pytest.mark.parametrize("driven", ["threaded", "by the caller"])
    def test_is_noticed_in_every_verb_and_harms_nobody(self, tmp_path: Path, driven: str) -> None:
        url = f"sqlite://{tmp_path}/locks.db"
        done = subprocess.run(
            [sys.executable, "-c", FORKED, url, driven],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert done.stdout.split("\n") == ["fork"] * 5 + ["Renewed 1", ""]
        with leasehold.connect(url) as locks:
            assert isinstance(locks.acquire("other", ttl=1), Granted)

    def test_is_told_what_to_do_about(self) -> None:
        engine = _engine()
        driver = ThreadDriver(engine)
        driver._pid += 1
        with pytest.raises(StoreError, match="connect again in the child"):
            driver.ask(acquire(engine, "r"))

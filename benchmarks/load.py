"""A load on an engine in this process: so many callers, acquire and release on distinct names, durably."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING, NamedTuple

from leasehold.domain.outcomes import Granted, Held
from leasehold.engine.engine import Engine
from leasehold.engine.loop_driver import PacedDriver
from leasehold.requests.checks import Settings
from leasehold.requests.to_command import Order, order
from leasehold.stores.sqlite import SqliteStore, long_running

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from leasehold.domain.entries import Drop, Put, Record
    from leasehold.domain.events import Event
    from leasehold.stores.protocol import Transaction

SETTINGS = Settings()


class Counted:
    """A transaction that counts what it commits."""

    def __init__(self, inner: Transaction, rows: list[int]) -> None:
        self._inner = inner
        self._rows = rows
        self.now = inner.now
        self.fence = inner.fence
        self.opens_at = inner.opens_at
        self.load = inner.load
        self.due = inner.due
        self.close = inner.close

    def commit(
        self,
        changes: Sequence[Put | Drop],
        events: Sequence[Event],
        fence: int,
        after: Mapping[str, Record] | None = None,
    ) -> None:
        self._inner.commit(changes, events, fence, after)
        self._rows.append(len(changes) + len(events) + 1)  # and the one row with the fence and the time


class CountingStore:
    """The embedded store, counting the rows of each transaction."""

    def __init__(self, path: Path) -> None:
        self._inner = inner = SqliteStore(str(path))
        self.rows: list[int] = []
        self.capabilities = inner.capabilities
        self.hint, self.read, self.scan, self.loss_mark = inner.hint, inner.read, inner.scan, inner.loss_mark
        self.history, self.prune, self.close = inner.history, inner.prune, inner.close
        self.listen, self.wake = inner.listen, inner.wake

    def pragma(self, setting: str) -> None:
        """Set something of this connection."""
        self._inner._database.connection.execute(f"PRAGMA {setting}")

    def begin(self) -> Counted:
        return Counted(self._inner.begin(), self.rows)


class Load(NamedTuple):
    """The figures of a run."""

    cycles: int
    seconds: float
    rows: list[int]
    latencies: list[float]
    """Of each acquire, in seconds."""


def ordered(verb: str, engine: Engine, **arguments: object) -> Order:
    made = order(verb, arguments, SETTINGS, engine.key)
    assert isinstance(made, Order), made
    return made


async def cycle(driver: PacedDriver, engine: Engine, name: str, holder: str) -> float:
    """One acquire and release; how long the acquire took."""
    asked = ordered("acquire", engine, resources=name, ttl=60, holder=holder)
    started = time.perf_counter()
    granted = await driver.ask(asked.command, asked.secret)
    took = time.perf_counter() - started
    assert isinstance(granted, Granted), granted
    back = ordered("release", engine, lease=granted.lease.id, token=granted.token, status="completed", error=None)
    await driver.ask(back.command)
    return took


async def _run(store: CountingStore, callers: int, seconds: float, tag: str) -> Load:
    engine = Engine(store)
    driver = PacedDriver(engine, asyncio.get_running_loop())
    latencies: list[float] = []
    store.rows.clear()
    started = time.perf_counter()

    async def call(number: int) -> None:
        count = 0
        while time.perf_counter() - started < seconds:
            latencies.append(await cycle(driver, engine, f"{tag}-{number}-{count}", f"holder-{number}"))
            count += 1

    await asyncio.gather(*(call(number) for number in range(callers)))
    took = time.perf_counter() - started
    driver.close()
    return Load(len(latencies), took, list(store.rows), latencies)


def run(store: CountingStore, callers: int = 64, seconds: float = 3.0, tag: str = "job") -> Load:
    """Load the store for a while."""
    return asyncio.run(_run(store, callers, seconds, tag))


def fill(path: Path, leases: int) -> None:
    """So many live leases, of ten thousand holders, taken through the engine like any other.

    This is not what is measured, so it need not survive a power cut, and Python need not look for cycles in it.
    """
    gc.disable()
    long_running.CHECKPOINT = 50_000
    store = CountingStore(path)
    store.pragma("synchronous = OFF")
    store.pragma("cache_size = -200000")
    engine = Engine(store)
    started = time.perf_counter()
    for number in range(leases):
        asked = ordered("acquire", engine, resources=live(number, leases), ttl=3600 * 12, holder=f"h{number % 10_000}")
        engine.submit(asked.command, asked.secret)
        if number % 1_000 == 999:
            engine.turn()
        if number % 100_000 == 99_999:
            print(f"  filling: {number + 1:,} leases, {time.perf_counter() - started:.0f} s", flush=True)
    while engine.has_work:
        engine.turn()
    engine.close()
    store.close()


def live(number: int, leases: int) -> str:
    """The name of a live lease; in no order, as names have none."""
    return f"live://{number * 7919 % leases}"


def touch(store: CountingStore, names: Sequence[str]) -> None:
    """Ask for each of these, which others hold, so that the engine remembers as much as it ever does."""
    engine = Engine(store)
    tries = []
    for number, name in enumerate(names):
        asked = ordered("acquire", engine, resources=name, ttl=60, holder="somebody-else")
        tries.append(engine.submit(asked.command, asked.secret))
        if number % 1_000 == 999 or number == len(names) - 1:
            engine.turn()
            assert all(isinstance(each.result(), Held) for each in tries)
            tries.clear()
    engine.close()

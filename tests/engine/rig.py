"""What the engine's tests are made with: a clock that only they move, and a store that counts. No threads, no sleep."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from leasehold.domain import keys
from leasehold.domain.commands import Proof, Release
from leasehold.domain.outcomes import Granted
from leasehold.domain.timestamps import SECOND
from leasehold.engine.engine import Engine
from leasehold.engine.waiters import BEATS
from leasehold.requests import checks
from leasehold.requests.checks import Settings
from leasehold.stores.memory import Memory, MemoryStore
from leasehold.testing.asking import asking
from leasehold.testing.conformance.asking import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.domain.commands import Acquire
    from leasehold.engine.pending import Pending
    from leasehold.stores.memory import MemoryTransaction

START = 1_000_000 * SECOND
BEAT_EVERY = MemoryStore.capabilities.beat / SECOND
ALIVE = BEATS * BEAT_EVERY
"""For so long waiters count as alive after each heartbeat, in seconds."""
TURNS = 100_000
"""An engine that needs more turns than this for one answer is spinning."""


class CountingStore(MemoryStore):
    """A connection that counts its transactions, and whose hints can be lost."""

    def __init__(self, memory: Memory, poll: int) -> None:
        super().__init__(memory)
        self.capabilities = MemoryStore.capabilities._replace(poll=poll)
        self.begun = 0
        self.hears = True

    def begin(self) -> MemoryTransaction:
        self.begun += 1
        return super().begin()

    def hint(self) -> bool:
        return super().hint() and self.hears


class Rig:
    """Engines on one memory, under one clock that stands still unless it is moved."""

    def __init__(self, *, poll: int = 20_000) -> None:
        self.now = 0.0
        """Seconds since the beginning, the same for all engines and for the store."""
        self.apart = 0.0
        """By how much the store's clock was set forward, in seconds."""
        self.memory = Memory(clock=lambda: START + round((self.now + self.apart) * SECOND), fault=self._fault)
        self.poll = poll
        self.trouble: Callable[[str], None] | None = None
        """Called at each of the store's fault points; see `Memory`."""

    def _fault(self, point: str) -> None:
        if self.trouble is not None:
            self.trouble(point)

    def engine(self, name: str = "") -> Engine:
        return Engine(CountingStore(self.memory, self.poll), clock=lambda: self.now, engine_id=name)

    def until_answered(self, pending: Pending, *engines: Engine, within: float = 3600.0) -> float:
        """Move the clock from one moment at which an engine wants its turn to the next; when it was answered."""
        for _ in range(TURNS):
            for engine in engines:
                engine.turn()
            if pending.is_done:
                return self.now
            if not any(engine.has_work for engine in engines):
                times = [at for at in (engine.next_time() for engine in engines) if at is not None]
                assert times, "nobody will ever look again"
                self.now = max(self.now, min(times))
                assert self.now <= within, f"no answer by {within} s"
        raise AssertionError("the engine spins")

    def is_empty(self) -> bool:
        """Whether nobody holds and nobody waits."""
        return not any(record.holds or record.waiters for record in self.memory.records.values())


def striking(point: str, error: Exception, times: int = 1) -> Callable[[str], None]:
    """Trouble that strikes so many times at this point."""
    left = [times]

    def strike(where: str) -> None:
        if where == point and left[0] > 0:
            left[0] -= 1
            raise error

    return strike


async def until_so(condition: Callable[[], bool], what: str) -> None:
    """Let others run until the condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"after {PATIENCE:.0f} s still not so: {what}"
        await asyncio.sleep(0.002)


def begun(engine: Engine) -> int:
    """How many transactions this engine has begun."""
    assert isinstance(engine.store, CountingStore)
    return engine.store.begun


def acquire(engine: Engine, resources: object, holder: str = "alice", ttl: object = 600, **asked: object) -> Acquire:
    """The command behind an acquire; its token is the holder's name."""
    return checks.acquire(asking(resources, ttl, holder, **asked), Settings(), holder, engine.key)


def release(granted: object, token: str = "alice") -> Release:
    """The command that gives this lease back."""
    assert isinstance(granted, Granted), granted
    return Release(granted.lease.id, Proof(token=keys.secret_hash(token)))


def take(engine: Engine, resources: object, holder: str = "alice", ttl: object = 600, **asked: object) -> Granted:
    """A lease on something free, in one turn."""
    pending = engine.submit(acquire(engine, resources, holder, ttl, **asked), holder)
    engine.turn()
    outcome = pending.result()
    assert isinstance(outcome, Granted), outcome
    return outcome


def begin_waiting(engine: Engine, resources: object, holder: str, ttl: object = 600, **asked: object) -> Pending:
    """Somebody in the queue, in one turn."""
    pending = engine.submit(acquire(engine, resources, holder, ttl, **{"wait": 3600, **asked}), holder)
    engine.turn()
    assert not pending.is_done, pending.outcome or pending.error
    assert pending.waiter is not None
    return pending

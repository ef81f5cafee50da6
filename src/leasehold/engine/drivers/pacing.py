"""Who carries out a server's turns on a local disk: the event loop while the disk is fast, a thread while it is slow.

A commit in the loop is the faster way as long as it hardly waits; but while it waits nobody is heard, so that with
slow commits a thread does better. Which of the two it is shows while serving. It decides nothing about leases.
"""

from __future__ import annotations

import time

from leasehold.engine.drivers.loop import LoopThreadDriver

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from leasehold.engine.engine import Engine

SLOW = 0.006
"""If turns wait longer than this, in seconds, on average, a thread takes over."""
FAST = 0.003
"""If they wait less than this, several times in a row, the loop takes over again."""
TIMED_EVERY = 4
"""Of so many turns the waiting of one is measured: to ask how long a thread has worked invites others to take over."""
SMOOTHING = 8
"""How many of those an average is made of, roughly."""
TRY_EVERY = 1.0
"""While a thread does it, the loop tries one by itself so often, to see how it would be."""
TRIES = 3


class Pace:
    """How long turns wait for the disk."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waited = 0.0
        self.is_slow = False
        self._try_at = 0.0
        self._good = 0

    def wants_thread(self) -> bool:
        """Whether the next turn is for a thread."""
        if not self.is_slow:
            return False
        now = self._clock()
        if now < self._try_at:
            return True
        self._try_at = now + TRY_EVERY
        return False

    def saw(self, waited: float) -> None:
        """A turn of the loop's own waited so long."""
        if self.is_slow:
            self._good = self._good + 1 if waited < FAST else 0
            if self._good >= TRIES:
                self.is_slow, self._waited = False, waited
            return
        self._waited += (waited - self._waited) / SMOOTHING
        if self._waited > SLOW:
            self.is_slow, self._good, self._try_at = True, 0, self._clock() + TRY_EVERY


class PacedDriver(LoopThreadDriver):
    """An event loop turns the engine itself, or has a thread do it."""

    def __init__(
        self,
        engine: Engine,
        loop: asyncio.AbstractEventLoop,
        pace: Pace | None = None,
    ) -> None:
        self._pace = pace or Pace()
        self._turns = 0
        super().__init__(engine, loop)

    def deliver(self, tell: Callable[[], None]) -> None:
        """Called by a turn: have this called by the loop, now or, if the turn is in the thread, when it is over."""
        if self._turning is None:
            tell()
        else:
            self._told.append(tell)

    def _begin(self) -> None:
        if self._pace.wants_thread():
            super()._begin()
        else:
            self._turn_here()

    def _turn_here(self) -> None:
        self._turns += 1
        is_timed = self._pace.is_slow or self._turns % TIMED_EVERY == 0
        worked = time.thread_time() if is_timed else 0.0
        commands = self._engine.turn()
        if commands:
            if is_timed:
                self._pace.saw(time.perf_counter() - self._begun - (time.thread_time() - worked))
            self._took(commands)
        if self._engine.has_work:
            self._wake()
        self._set_timer()

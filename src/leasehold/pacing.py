"""Who carries out a server's turns on a local disk: the event loop while the disk is fast, a thread while it is slow.

A commit in the loop is the faster way as long as it hardly waits; but while it waits nobody is heard, so that with
slow commits a thread does better (house decision 4). Which of the two it is shows while serving. And while something
goes from hand to hand, the loop does not fall asleep between two turns (docs/adr/0037), and prepares what comes next
(docs/adr/0040). It decides nothing about leases.
"""

from __future__ import annotations

import time

from leasehold import processors
from leasehold.loop_drivers import LoopThreadDriver
from leasehold.pending import NEVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from leasehold.engine import Engine

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
AWAKE = 0.001
"""For so many seconds the loop looks for the next request without falling asleep, if the last one came as soon."""
ASKS_AGAIN = 0.0001
"""Whoever gave something back that another got asks for the next thing within so many seconds, if it does."""


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


class Vigil:
    """Whether to look for the next request without falling asleep."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter, available: float | None = None) -> None:
        self._clock = clock
        self._is_possible = (processors.count() if available is None else available) > 1
        """Whoever is to ask next has to run somewhere, too."""
        self._idle_since = 0.0
        """When the last turn was over that somebody had asked for."""
        self._until = 0.0
        self._now = 0.0
        """When somebody last wanted to know whether it lasts."""
        self._rehearse_at = 0.0

    def begins(self, begun: float, waiting: int, *, handed_on: bool = False) -> bool:
        """A turn is over that began then: whether to stay awake, as somebody waits and requests come in close order.

        `handed_on`: something went from hand to hand in it. Then there is another request to come before that is given
        back, as a rule: whatever is prepared until then is for nothing.
        """
        now = self._clock()
        is_lively = begun - self._idle_since < AWAKE
        self._idle_since = now
        self._rehearse_at = now + ASKS_AGAIN if handed_on else now
        self._until = now + AWAKE if is_lively and waiting and self._is_possible else 0.0
        return self._until > 0.0

    def lasts(self) -> bool:
        """Whether it is not over yet."""
        self._now = self._clock()
        return self._now < self._until

    def wants_rehearsal(self) -> bool:
        """Whether it is time to, as of the last look at the clock; once after each turn."""
        if self._now < self._rehearse_at:
            return False
        self._rehearse_at = NEVER
        return True


class PacedDriver(LoopThreadDriver):
    """An event loop turns the engine itself, or has a thread do it."""

    def __init__(
        self,
        engine: Engine,
        loop: asyncio.AbstractEventLoop,
        pace: Pace | None = None,
        vigil: Vigil | None = None,
    ) -> None:
        self._pace = pace or Pace()
        self._turns = 0
        self._vigil = vigil or Vigil()
        self._is_awake = False
        super().__init__(engine, loop)

    def deliver(self, tell: Callable[[], None]) -> None:
        """Called by a turn: have this called by the loop, now or, if the turn is in the thread, when it is over."""
        if self._turning is None:
            tell()
        else:
            self._told.append(tell)

    def _begin(self) -> None:
        if self._pace.wants_thread():
            self._engine.rest()
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
            engine = self._engine
            is_lively = self._vigil.begins(self._begun, engine.waiting, handed_on=engine.has_handed_on)
            if is_lively and not self._is_awake:
                self._is_awake = True
                self._loop.call_soon(self._stay_awake)
        if self._engine.has_work:
            self._wake()
        self._set_timer()

    def _stay_awake(self) -> None:
        """A loop that has something to do soon only glances at its connections: it is there when the request is."""
        self._is_awake = self._vigil.lasts() and not self._closed
        if not self._is_awake:
            self._engine.rest()
            return
        self._loop.call_soon(self._stay_awake)  # first: whatever happens, there is a rest at the end
        if self._turning is None and not self._engine.has_work and self._vigil.wants_rehearsal():
            self._engine.rehearse()
            if self.rehearse is not None:
                self.rehearse()

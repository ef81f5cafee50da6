"""Event loops that turn an engine for a server, with a thread for what may block. They decide nothing about leases.

`LoopDriver` is for stores behind a network: the loop leaves the turn while an answer is on its way. `PacedDriver` is
for stores on a local disk: the loop carries out whole turns while the disk is fast, and a thread while it is slow. A
commit in the loop takes less time than one handed to a thread, but while it blocks, the loop hears no request.
"""

from __future__ import annotations

import time
from _thread import get_ident
from typing import TYPE_CHECKING

from leasehold.engine.pending import Pending
from leasehold.steps import through
from leasehold.stores.layout import LANES_MOST

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from typing import Any, TypeVar

    from leasehold.domain.commands import Command
    from leasehold.domain.events import Event
    from leasehold.domain.outcomes import Outcome
    from leasehold.engine.engine import Engine
    from leasehold.steps import Steps
    from leasehold.stores.protocol import Answering

    T = TypeVar("T")

PATIENCE = 0.25
"""Seconds for which the loop awaits a store's answer; then a thread does."""
LOOKS = 3
"""At most this many rounds the loop waits for more requests to share a turn."""
SLOW = 0.006
"""A thread takes over when turns block for longer than this on average, in seconds."""
FAST = 0.003
"""The loop takes over again when several turns in a row block for less than this, in seconds."""
TIMED_EVERY = 4
"""One turn of so many is measured: reading a thread's time invites the kernel to switch to another one."""
SMOOTHING = 8
"""The average is made of roughly so many measured turns."""
TRY_EVERY = 1.0
"""While a thread turns the engine, the loop tries one turn itself so often, in seconds."""
TRIES = 3


class Fleet:
    """The drivers of one event loop for the lanes of one store, which may commit together. They share threads."""

    def __init__(self) -> None:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (only for servers)

        self.drivers: list[LoopDriver] = []
        self.aside = ThreadPoolExecutor(LANES_MOST + 1, "leasehold")
        """A thread for each lane at most; as many as have to wait at the same time are started."""

    @property
    def backlog(self) -> int:
        """The number of requests in all inboxes."""
        return sum([driver.engine.backlog for driver in self.drivers])

    def leave(self, driver: LoopDriver) -> None:
        """Remove a driver that has closed; without any, end the threads. Idempotent."""
        if driver in self.drivers:
            self.drivers.remove(driver)
        if not self.drivers:
            self.aside.shutdown()

    def is_turn_ahead(self) -> bool:
        """Return True if a driver is about to begin a turn."""
        return any(driver.is_scheduled for driver in self.drivers)


class LoopDriver:
    """An event loop turns the engine, once for all requests of one round, and leaves it while the store answers.

    Whatever else may block is left to a thread, with the rest of that turn. Answers are delivered by the loop, all
    together, when the turn is over.
    """

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop, fleet: Fleet | None = None) -> None:
        self.engine = engine
        self._loop = loop
        self._fleet = Fleet() if fleet is None else fleet
        self._fleet.drivers.append(self)
        self._home = get_ident()
        """The loop's own thread."""
        self._rest: Future[int] | None = None
        """The rest of a turn that is left to a thread."""
        self.is_scheduled = False
        """True if the next turn is about to begin."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        """The time of the engine's clock that it is set to."""
        self._turning: Steps[int] | None = None
        """The turn that is under way, if it goes step by step."""
        self._listening: int | None = None
        """The socket on which the loop expects the store's answer, in the midst of a turn."""
        self._patience: asyncio.TimerHandle | None = None
        self._begun = 0.0
        self._again = False
        """True if a request came during the turn."""
        self._seen = 0
        """The number of requests at the last look."""
        self._looks = 0
        self._to_deliver: list[tuple[Callable[[Any], None], Any]] = []
        self._deliver_pending: Callable[[Callable[[Pending], None], Pending], None] = self.deliver
        self._closed = False
        self.measure: Callable[[int, float], None] | None = None
        """Called after each turn with its number of commands and its seconds."""
        engine.wake = self._wake

    async def ask(self, command: Command, token: str = "") -> Outcome:
        """Return the answer to this command. A task that is cancelled leaves the queue."""
        answer: asyncio.Future[Outcome] = self._loop.create_future()

        def deliver(pending: Pending) -> None:
            if answer.done():
                return
            if pending.error is not None:
                answer.set_exception(pending.error)
            else:
                answer.set_result(pending.result())

        pending = self.submit(command, token, deliver)
        try:
            return await answer
        except BaseException:
            if not isinstance(pending.error, Exception):
                self.engine.abandon(pending)
            raise

    def submit(self, command: Command, token: str, done: Callable[[Pending], None]) -> Pending:
        """Submit without waiting; the loop calls `done` with the answer."""
        pending = Pending(command, token, done, self._deliver_pending)
        self.engine.enter(pending)
        if pending.error is not None:  # at once: the engine is closed
            self._loop.call_soon(self._deliver)
        return pending

    def deliver(self, call: Callable[[T], None], argument: T) -> None:
        """Have the loop make this call when the turn is over. Called by a turn, perhaps in the thread."""
        self._to_deliver.append((call, argument))

    def observing(self, told: Callable[[Sequence[Event]], None]) -> None:
        """Have the loop call this with the events of each committed batch."""
        self.engine.observe = lambda events: self.deliver(told, events)

    def enough(self) -> None:
        """Start the next turn without waiting for more requests: one caller has just brought many."""
        self._looks = LOOKS

    # ---------------------------------------------------------------------------------- when to turn

    def _wake(self) -> None:
        if self.is_scheduled:
            return  # that turn has not taken its requests yet
        if get_ident() == self._home:
            self._wake_here()
        elif not self._closed:  # by the store, or by the engine itself, in their threads
            try:
                self._loop.call_soon_threadsafe(self._wake_here)
            except RuntimeError:
                if not self._loop.is_closed():
                    raise

    def _wake_here(self) -> None:
        if self._turning is not None:
            self._again = True
        elif not self.is_scheduled:
            self.is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        if self._closed or self._turning is not None:
            self.is_scheduled = False
        elif self._are_more_likely():
            self._loop.call_soon(self._turn)  # after the loop has read from its other connections
        else:
            self.is_scheduled = self._again = False
            self._begun = time.perf_counter()
            self._begin()

    def _are_more_likely(self) -> bool:
        """Return True if several requests came since the last look: then others follow, and can share the turn."""
        asked = self._fleet.backlog  # for any lane: they commit together
        if asked > self._seen + 1 and self._looks < LOOKS:
            self._seen, self._looks = asked, self._looks + 1
            return True
        self._seen = self._looks = 0
        return False

    def _set_timer(self) -> None:
        at = self.engine.next_time()
        if at == self._timer_at:
            return
        self._timer_at = at
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at is not None:
            self._timer = self._loop.call_at(self._loop.time() + max(0.0, at - time.monotonic()), self._time_has_come)

    def _time_has_come(self) -> None:
        self._timer = self._timer_at = None
        self._turn()

    # ----------------------------------------------------------------------------------- step by step

    def _begin(self) -> None:
        self._turning = self.engine.turning()
        self._go_on(self._turning)

    def _go_on(self, turning: Steps[int]) -> None:
        """Take the next step, in the loop."""
        try:
            answering = next(turning)
        except StopIteration as end:
            self._turned(end.value)
        except Exception:
            self._turned(0)
            raise  # a breakage: the engine has reported it to its callers, the loop reports it as well
        else:
            if answering is None:
                self._leave_to_thread(turning)
            else:
                self._listening = answering.fileno()
                self._loop.add_reader(self._listening, self._heard, turning, answering)
                self._patience = self._loop.call_later(PATIENCE, self._lose_patience, turning)

    def _heard(self, turning: Steps[int], answering: Answering) -> None:
        if answering.is_answered():
            self._stop_listening()
            self._go_on(turning)

    def _lose_patience(self, turning: Steps[int]) -> None:
        """Leave a slow store to the thread, which can wait and repeat."""
        self._stop_listening()
        self._leave_to_thread(turning)

    def _stop_listening(self) -> None:
        # Before the next step: that one may close the socket, and another may get its number.
        if self._listening is not None:
            self._loop.remove_reader(self._listening)
            self._listening = None
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _leave_to_thread(self, turning: Steps[int]) -> None:
        self._rest = rest = self._fleet.aside.submit(through, turning)
        rest.add_done_callback(lambda rest: self._loop.call_soon_threadsafe(self._turned_there, rest))

    def _turned_there(self, rest: Future[int]) -> None:
        error = rest.exception()
        self._turned(0 if error is not None else rest.result())
        if error is not None:
            raise error

    def _turned(self, commands: int) -> None:
        self._turning = None
        self._deliver()
        if self._closed:
            return
        self._set_timer()
        if self._again or self.engine.has_work:
            self._wake()
        self._took(commands)

    def _took(self, commands: int) -> None:
        if commands and self.measure is not None:
            self.measure(commands, time.perf_counter() - self._begun)

    def _deliver(self) -> None:
        to_deliver, self._to_deliver = self._to_deliver, []
        for call, argument in to_deliver:
            call(argument)

    def close(self) -> None:
        """Finish the turn that is under way, answer every request and stop."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        is_midway = self._listening is not None
        self._stop_listening()
        if self._rest is not None:
            self._rest.exception()  # wait until it is done
        try:
            if is_midway and self._turning is not None:
                through(self._turning)
            self.engine.close()
        finally:
            self._fleet.leave(self)
            self._deliver()


class Pace:
    """How long turns block for the disk: the average decides whether the loop or a thread carries them out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waited = 0.0
        self.is_slow = False
        self._try_at = 0.0
        self._good = 0

    def wants_thread(self) -> bool:
        """Return True if the next turn is for a thread."""
        if not self.is_slow:
            return False
        now = self._clock()
        if now < self._try_at:
            return True
        self._try_at = now + TRY_EVERY
        return False

    def saw(self, waited: float) -> None:
        """Count a turn of the loop that blocked for so many seconds."""
        if self.is_slow:
            self._good = self._good + 1 if waited < FAST else 0
            if self._good >= TRIES:
                self.is_slow, self._waited = False, waited
            return
        self._waited += (waited - self._waited) / SMOOTHING
        if self._waited > SLOW:
            self.is_slow, self._good, self._try_at = True, 0, self._clock() + TRY_EVERY


class PacedDriver(LoopDriver):
    """An event loop turns the engine itself, or leaves whole turns to a thread while the disk is slow."""

    def __init__(
        self,
        engine: Engine,
        loop: asyncio.AbstractEventLoop,
        fleet: Fleet | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._pace = pace or Pace()
        self._turns = 0
        super().__init__(engine, loop, fleet)

    def deliver(self, call: Callable[[T], None], argument: T) -> None:
        """Make this call now, or have the loop make it when the turn in the thread is over. Called by a turn."""
        if self._turning is None:
            call(argument)
        else:
            self._to_deliver.append((call, argument))

    def _begin(self) -> None:
        if self._pace.wants_thread():
            super()._begin()
            return
        self._turns += 1
        is_timed = self._pace.is_slow or self._turns % TIMED_EVERY == 0
        worked = time.thread_time() if is_timed else 0.0
        commands = self.engine.turn()
        if commands:
            if is_timed:
                self._pace.saw(time.perf_counter() - self._begun - (time.thread_time() - worked))
            self._took(commands)
        if self.engine.has_work:
            self._wake()
        self._set_timer()

"""Event loops that drive an engine: alone, or with a thread for what has to wait. They move it; they decide nothing."""

from __future__ import annotations

import time
from _thread import get_ident

from leasehold.engine.pending import Pending
from leasehold.steps import through

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from leasehold.domain.commands import Command
    from leasehold.domain.events import Event
    from leasehold.domain.outcomes import Outcome
    from leasehold.engine.engine import Engine
    from leasehold.steps import Steps
    from leasehold.stores.protocol import Answering

PATIENCE = 0.25
"""So many seconds a loop listens for a store's answer; then a thread waits for it."""
LOOKS = 3
"""So often a loop looks around for more to do in one turn, at most."""


class LoopDriver:
    """An event loop turns the engine, once for all that arrived in one round of the loop."""

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._loop = loop
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        """The time of the engine's clock that it is set to."""
        self._closed = False
        engine.wake = self._wake

    async def ask(self, command: Command, token: str = "") -> Outcome:
        """Ask, and let others run until the answer is there. Cancelled: out of the queue."""
        answer: asyncio.Future[Outcome] = self._loop.create_future()

        def tell(pending: Pending) -> None:
            if answer.done():
                return
            if pending.error is not None:
                answer.set_exception(pending.error)
            else:
                answer.set_result(pending.result())

        pending = self.submit(command, token, tell)
        try:
            return await answer
        except BaseException:
            if not isinstance(pending.error, Exception):
                self._engine.abandon(pending)
            raise

    def submit(self, command: Command, token: str, done: Callable[[Pending], None]) -> Pending:
        """Ask without waiting; `done` is called with the answer, by the loop."""
        pending = Pending(command, token, lambda pending: self.deliver(lambda: done(pending)))
        self.enter(pending)
        return pending

    def enter(self, pending: Pending) -> None:
        """The same, of what somebody has ready; it has the loop told of its answer by `deliver`."""
        self._engine.enter(pending)

    def deliver(self, tell: Callable[[], None]) -> None:
        """Called by a turn: have this called by the loop."""
        tell()

    def observing(self, told: Callable[[Sequence[Event]], None]) -> None:
        """Have the events of each committed batch told, by the loop."""
        self._engine.observe = lambda events: self.deliver(lambda: told(events))

    def enough(self) -> None:
        """Whoever has just asked brought much at once: nobody else is waited for."""

    def _wake(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if self._closed:
            return
        self._engine.turn()
        if self._engine.has_work:
            self._wake()
        self._set_timer()

    def _set_timer(self) -> None:
        at = self._engine.next_time()
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

    def close(self) -> None:
        """Answer everybody and stop."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._engine.close()


class LoopThreadDriver(LoopDriver):
    """An event loop turns the engine, and leaves it while an answer is on its way: for stores behind a network.

    Whatever else may wait for the store, which no loop may do, is left to a thread, with the rest of that turn. What a
    turn has to tell is told by the loop, all together, when the turn is over.
    """

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (only for servers)

        self._aside = ThreadPoolExecutor(1, "leasehold")
        self._home = get_ident()
        """The loop's own thread."""
        self._turning: Steps[int] | None = None
        self._listening: int | None = None
        """The socket by which the loop expects an answer in the midst of a turn,"""
        self._giving_up: asyncio.TimerHandle | None = None
        """and until when."""
        self._begun = 0.0
        self._again = False
        self._seen = 0
        """How many had asked when the loop last looked."""
        self._looks = 0
        self._told: list[Callable[[], None]] = []
        """What is to be told by the loop."""
        self.measure: Callable[[int, float], None] | None = None
        """Told how many commands each turn took on, and how many seconds it took."""
        super().__init__(engine, loop)

    def enter(self, pending: Pending) -> None:
        """Ask without waiting, with what somebody has ready."""
        self._engine.enter(pending)
        if pending.is_done:  # at once: the engine is closed
            self._loop.call_soon(self._deliver)

    def deliver(self, tell: Callable[[], None]) -> None:
        """Called by a turn, perhaps in the thread: have this called by the loop, when the turn is over."""
        self._told.append(tell)

    def _wake(self) -> None:
        if self._scheduled:
            return  # that turn has not looked into the inbox yet
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
        else:
            super()._wake()

    def _turn(self) -> None:
        if self._closed or self._turning is not None:
            self._scheduled = False
        elif self._are_more_likely():
            self._loop.call_soon(self._turn)  # after the loop has looked who else has something to say
        else:
            self._scheduled = self._again = False
            self._begun = time.perf_counter()
            self._begin()

    def enough(self) -> None:
        """Whoever has just asked brought much at once, and has nothing to do meanwhile: nobody else is waited for."""
        self._looks = LOOKS

    def _are_more_likely(self) -> bool:
        """Whether several have asked since the last look: then others are about to, and one turn for all costs less."""
        asked = self._engine.backlog
        if asked > self._seen + 1 and self._looks < LOOKS:
            self._seen, self._looks = asked, self._looks + 1
            return True
        self._seen = self._looks = 0
        return False

    # ----------------------------------------------------------------------------------- step by step

    def _begin(self) -> None:
        self._turning = self._engine.turning()
        self._go_on(self._turning)

    def _go_on(self, turning: Steps[int]) -> None:
        """The next step, in the loop."""
        try:
            answering = next(turning)
        except StopIteration as end:
            self._turned(end.value)
        except Exception:
            self._turned(0)
            raise  # a breakage: the engine has told all callers, the loop tells it
        else:
            if answering is None:
                self._leave_to_thread(turning)
            else:
                self._listen(turning, answering)

    def _listen(self, turning: Steps[int], answering: Answering) -> None:
        self._listening = answering.fileno()
        self._loop.add_reader(self._listening, self._heard, turning, answering)
        self._giving_up = self._loop.call_later(PATIENCE, self._give_up, turning)

    def _heard(self, turning: Steps[int], answering: Answering) -> None:
        if answering.is_answered():
            self._stop_listening()
            self._go_on(turning)

    def _give_up(self, turning: Steps[int]) -> None:
        """It takes long: whoever can wait knows what to do about that."""
        self._stop_listening()
        self._leave_to_thread(turning)

    def _stop_listening(self) -> None:
        # Before the next step: that one may close the socket, and another may get its number.
        if self._listening is not None:
            self._loop.remove_reader(self._listening)
            self._listening = None
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _leave_to_thread(self, turning: Steps[int]) -> None:
        rest = self._aside.submit(through, turning)
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
        if self._again or self._engine.has_work:
            self._wake()
        self._took(commands)

    def _took(self, commands: int) -> None:
        if commands and self.measure is not None:
            self.measure(commands, time.perf_counter() - self._begun)

    def _deliver(self) -> None:
        told, self._told = self._told, []
        for tell in told:
            tell()

    def close(self) -> None:
        """Answer everybody and stop, after the turn that is under way."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        is_midway = self._listening is not None
        self._stop_listening()
        self._aside.shutdown()
        try:
            if is_midway and self._turning is not None:
                through(self._turning)
            self._engine.close()
        finally:
            self._deliver()

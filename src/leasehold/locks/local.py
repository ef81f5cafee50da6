"""Answers from an engine in this process: from a call to a command to an outcome. It decides nothing.

A driver turns the engine: the caller itself, or a thread. For a server's event loop see ``hosted``.
"""

from __future__ import annotations

import os
import time

from leasehold.domain.api_keys import KeyCreated, KeyRotated, Whoami
from leasehold.domain.commands import Sweep
from leasehold.domain.outcomes import Collected, Held, Planned, Refused, TimedOut
from leasehold.domain.sessions import SessionStarted
from leasehold.engine.pending import Latch
from leasehold.errors import StoreError
from leasehold.requests import checks
from leasehold.requests import to_command as orders
from leasehold.stores import observes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from leasehold.domain.commands import Command
    from leasehold.domain.outcomes import Outcome
    from leasehold.engine.engine import Engine
    from leasehold.engine.pending import Pending
    from leasehold.requests.calls import Call, LossSource
    from leasehold.requests.checks import Settings
    from leasehold.stores.protocol import Store

    Driver: TypeAlias = "CallerDriver | ThreadDriver"


def finished(outcome: Outcome, secret: str, store: Store) -> Outcome:
    """Add the secret of a new session or key, which only its caller may see, and what an observing store knows."""
    if isinstance(outcome, Held | TimedOut) and observes(store):
        from leasehold.locks.observed import with_watch  # noqa: PLC0415 (only for those whose locks are at a git remote)

        return with_watch(outcome, store)
    if isinstance(outcome, SessionStarted):
        return outcome._replace(secret=secret)
    if isinstance(outcome, Planned):
        return outcome._replace(token=secret)
    return outcome._replace(credential=secret) if isinstance(outcome, KeyCreated | KeyRotated) else outcome


def collected(outcome: Outcome, store: Store) -> Outcome:
    """Add to a clean-up what it had to leave, on a store that counts leases from when it first saw them."""
    if isinstance(outcome, Collected) and observes(store):
        from leasehold.locks.observed import left_behind  # noqa: PLC0415 (as above)

        return outcome._replace(kept=left_behind(store))
    return outcome


def look(engine: Engine, settings: Settings, call: Call) -> Any:  # noqa: ANN401 (each verb knows what it gets)
    """Answer a verb that only looks. Raises `InvalidInput` for a wrong argument."""
    from leasehold.locks import queries as reading  # noqa: PLC0415 (an acquire does not need it)

    given = dict(call.arguments)
    if call.verb == "inspect":
        return reading.inspect(engine.store, settings, **given)
    if call.verb == "list":
        return reading.leases(engine.store, **given)
    if call.verb == "plans":
        return reading.plans(engine.store, **given)
    if call.verb == "graph":
        return reading.graph(engine.store, **given)
    if call.verb == "sessions":
        return reading.sessions(engine.store, **given)
    if call.verb == "whoami":
        return Whoami("", "admin", None)
    if call.verb == "keys":
        return tuple(key._replace(secret="") for key in reading.keys_of(engine.store))
    return reading.history(engine.store, given)


def losses_of(engine: Engine) -> LossSource:
    """Return the source of hints that a lease held through this engine may be lost."""
    from leasehold.locks.holding.losses import StoreLosses  # noqa: PLC0415 (only for those who hold something for a while)

    return StoreLosses(engine)


LOOKS = frozenset(("inspect", "list", "plans", "graph", "sessions", "history", "keys", "whoami"))


TERMS = 1_024
"""Checked arguments of so many holders are remembered for coroutines."""


class EngineAnswers:
    """For plain code."""

    def __init__(self, engine: Engine, driver: Driver, settings: Settings) -> None:
        self.engine = engine
        self._driver = driver
        self._settings = settings

    def ask(self, call: Call) -> Any:  # noqa: ANN401 (see `calls.Answers`)
        """Return the answer to this call."""
        if call.verb in LOOKS:
            return look(self.engine, self._settings, call)
        if call.verb == "gc":
            return collected(self._driver.ask(Sweep(())), self.engine.store)
        order = orders.order(call.verb, call.arguments, self._settings, self.engine.key)
        if isinstance(order, Refused):
            return order
        return finished(self._driver.ask(order.command, order.secret), order.secret, self.engine.store)

    def losses(self) -> LossSource:
        """Return the source of hints that a held lease may be lost."""
        return losses_of(self.engine)

    def close(self) -> None:
        """Answer every waiting request, then close the store."""
        try:
            self._driver.close()
        finally:
            self.engine.store.close()

    def __del__(self) -> None:
        """Stop the thread and close the database of locks that were never closed."""
        self._driver.dismiss()


class AsyncEngineAnswers:
    """For coroutines: the engine has a thread of its own, so that no commit ever blocks the event loop."""

    def __init__(self, engine: Engine, driver: Driver, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        self.engine = engine
        self._driver = driver
        self._settings = settings
        self._loop = loop
        from collections import deque  # noqa: PLC0415 (not for plain code)
        from functools import partial  # noqa: PLC0415

        self._partial = partial
        self._memory = checks.TermsCache(TERMS)
        self._told: deque[tuple[asyncio.Future[Outcome], Pending]] = deque()
        """Answers that the loop has not handed over yet."""
        self._is_woken = False

    async def ask(self, call: Call) -> Any:  # noqa: ANN401 (see `calls.Answers`)
        """Return the answer to this call. A task that is cancelled leaves the queue and holds nothing."""
        if self._loop.is_closed():
            self._move()
        if call.verb in LOOKS:
            return await self._loop.run_in_executor(None, look, self.engine, self._settings, call)
        if call.verb == "gc":
            order: orders.Order | Refused = orders.Order(Sweep(()))
        else:
            order = orders.order(call.verb, call.arguments, self._settings, self.engine.key, self._memory)
        if isinstance(order, Refused):
            return order
        secret = order.secret
        answer: asyncio.Future[Outcome] = self._loop.create_future()
        pending = self._driver.submit(order.command, secret, self._partial(self._tell, answer))
        try:
            outcome = await answer
        except BaseException:
            if pending.error is None:
                self.engine.abandon(pending)
            raise
        return finished(outcome, secret, self.engine.store)

    def losses(self) -> LossSource:
        """Return the source of hints that a held lease may be lost."""
        return losses_of(self.engine)

    def _move(self) -> None:
        """Move to the running loop: the one before has ended, and its callers with it."""
        from asyncio import get_running_loop  # noqa: PLC0415 (not for plain code)

        self._loop = get_running_loop()
        self._is_woken = False  # the call that would have said so never came
        self._hand_over()

    def _tell(self, answer: asyncio.Future[Outcome], pending: Pending) -> None:
        """Called by the engine's thread. Wake the loop once for all answers that it has not handed over yet."""
        self._told.append((answer, pending))
        if self._is_woken:
            return
        self._is_woken = True
        try:
            self._loop.call_soon_threadsafe(self._hand_over)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            self._is_woken = False
            while self._told:
                self.engine.abandon(self._told.popleft()[1])  # its caller ended with the loop

    def _hand_over(self) -> None:
        self._is_woken = False  # first: later answers wake the loop again
        while self._told:
            answer, pending = self._told.popleft()
            if answer.get_loop() is self._loop:
                _hand_over(answer, pending)
            else:
                self.engine.abandon(pending)  # see `_move`

    async def close(self) -> None:
        """Answer every waiting request, then close the store. Also from a later loop, if the first has ended."""
        from asyncio import get_running_loop  # noqa: PLC0415 (not for plain code)

        try:
            await get_running_loop().run_in_executor(None, self._driver.close)
        finally:
            self.engine.store.close()

    def __del__(self) -> None:
        """See `EngineAnswers`."""
        self._driver.dismiss()


def _hand_over(answer: asyncio.Future[Outcome], pending: Pending) -> None:
    if answer.done():
        return  # cancelled meanwhile: `ask` abandons it
    if pending.error is not None:
        answer.set_exception(pending.error)
    else:
        answer.set_result(pending.result())


# ---------------------------------------------------------------------------------- who turns the engine


class CallerDriver:
    """The caller turns the engine: no thread, no event loop. For one caller at a time, as in a command line."""

    def __init__(self, engine: Engine, progress: Callable[[], None] | None = None) -> None:
        self._engine = engine
        self._progress = progress
        """Called repeatedly while the caller waits."""
        self._signal = Latch()
        engine.wake = self._signal.set

    def ask(self, command: Command, token: str = "") -> Outcome:
        """Submit, turn the engine until it answers, and return the answer."""
        pending = self._engine.submit(command, token)
        try:
            while not pending.is_done:
                self._engine.turn()
                if not pending.is_done:
                    if self._progress is not None:
                        self._progress()
                    at = self._engine.next_time()
                    if at is not None and not self._engine.has_work:
                        self._signal.wait(max(0.0, at - time.monotonic()))
        except BaseException:  # an interrupt, for example: the caller no longer waits
            self._engine.abandon(pending)
            self._engine.turn()
            raise
        return pending.result()

    def submit(self, command: Command, token: str, done: Callable[[Pending], None]) -> Pending:
        """Submit, and turn the engine once; a caller that waits must go on turning it."""
        pending = self._engine.submit(command, token, done)
        self._engine.turn()
        return pending

    def close(self) -> None:
        """Leave every queue."""
        self._engine.close()

    def dismiss(self) -> None:
        """Do nothing: without a thread, the engine is garbage-collected with the locks."""


class ThreadDriver:
    """A thread of its own turns the engine for any number of threads. The first request starts it."""

    def __init__(self, engine: Engine) -> None:
        import threading  # noqa: PLC0415 (`CallerDriver` does without)

        self._engine = engine
        self._pid = os.getpid()
        self._signal = Latch()
        """Set once for all requests that arrive before the thread takes them."""
        self._closing = False
        self._is_dismissed = False
        self._breakage: Exception | None = None
        self._unclosed: Exception | None = None
        """Why closing the engine failed."""
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        engine.wake = self._signal.set

    def ask(self, command: Command, token: str = "") -> Outcome:
        """Submit, sleep until the engine answers, and return the answer."""
        latch = Latch()
        pending = self.submit(command, token, latch.set)
        try:
            if not pending.is_done:
                latch.wait()
        except BaseException:  # an interrupt, for example: the caller no longer waits
            self._engine.abandon(pending)
            raise
        return pending.result()

    def submit(self, command: Command, token: str, done: Callable[[Pending], None]) -> Pending:
        """Submit without waiting; the engine's thread calls `done` with the answer."""
        if os.getpid() != self._pid:
            raise StoreError("these locks were opened before a fork; connect again in the child process")
        if self._breakage is not None:
            raise self._breakage
        if self._thread is None:
            self._start()
        return self._engine.submit(command, token, done)

    def _start(self) -> None:
        import threading  # noqa: PLC0415

        with self._starting:
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="leasehold", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._closing:
            at = self._engine.next_time()
            if not self._engine.has_work:  # a turn may leave some: more than a batch holds, or a request made anew
                self._signal.wait(-1 if at is None else max(0.0, at - time.monotonic()))
            try:
                self._engine.turn()
            except Exception as error:  # noqa: BLE001 (reported to all callers, and to each later one)
                self._breakage = error
                return
        try:
            self._engine.close()
        except Exception as error:  # noqa: BLE001 (raised by `close`)
            self._unclosed = error
        if self._is_dismissed:
            self._engine.store.close()

    def close(self) -> None:
        """Answer every request, stop, and wait until the thread has stopped. Raises if the store failed meanwhile."""
        with self._starting:
            if self._closing:
                return
            self._closing = True
        if self._thread is None or os.getpid() != self._pid:
            if os.getpid() == self._pid:
                self._engine.close()
            return
        self._signal.set()
        self._thread.join()
        if self._unclosed is not None:
            raise self._unclosed

    def dismiss(self) -> None:
        """Have the thread leave the queues and close the store. Safe from a finalizer in any thread."""
        if self._thread is not None and not self._closing:
            self._is_dismissed = True
            self._closing = True
            self._signal.set()

"""Who drives an engine: the caller, or a thread; an event loop does in ``loop_drivers``. They decide nothing."""

from __future__ import annotations

import os
import time

from leasehold.engine.pending import Latch, Pending
from leasehold.errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from leasehold.domain.commands import Command
    from leasehold.domain.outcomes import Outcome
    from leasehold.engine.engine import Engine

    class Driver(Protocol):
        """Asks an engine and waits for the answer."""

        def ask(self, command: Command, token: str = "") -> Outcome:
            """The answer to this command."""

        def submit(self, command: Command, token: str, done: Callable[[Pending], None]) -> Pending:
            """Ask without waiting; `done` is called with the answer."""

        def close(self) -> None:
            """Answer everybody and stop."""

        def dismiss(self) -> None:
            """Nobody is left who could ask, nor close: let go of everything, and keep nobody waiting for that."""


class CallerDriver:
    """The caller drives: no thread, no event loop. For one caller at a time, as in a command line."""

    def __init__(self, engine: Engine, progress: Callable[[], None] | None = None) -> None:
        self._engine = engine
        self._progress = progress
        """Called again and again while the caller waits."""

    def ask(self, command: Command, token: str = "") -> Outcome:
        """Ask, and turn the engine until the answer is there."""
        pending = self._engine.submit(command, token)
        try:
            while not pending.is_done:
                self._engine.turn()
                if not pending.is_done:
                    if self._progress is not None:
                        self._progress()
                    self._sleep()
        except BaseException:  # an interrupt, for example: nobody is waiting any more
            self._engine.abandon(pending)
            self._engine.turn()
            raise
        return pending.result()

    def submit(self, command: Command, token: str, done: Callable[[Pending], None]) -> Pending:
        """Ask, and turn the engine once; who waits has to go on turning it."""
        pending = self._engine.submit(command, token, done)
        self._engine.turn()
        return pending

    def _sleep(self) -> None:
        at = self._engine.next_time()
        if at is not None and not self._engine.has_work:
            time.sleep(max(0.0, at - time.monotonic()))

    def close(self) -> None:
        """Leave every queue."""
        self._engine.close()

    def dismiss(self) -> None:
        """Nothing: there is no thread that keeps the engine, so it goes with whoever had it."""


class ThreadDriver:
    """A thread of its own turns the engine; any number of threads ask. Started by the first that does."""

    def __init__(self, engine: Engine) -> None:
        import threading  # noqa: PLC0415 (not for those who drive by themselves)

        self._engine = engine
        self._pid = os.getpid()
        self._signal = Latch()
        """One is enough for all that arrives before the thread looks."""
        self._closing = False
        self._is_dismissed = False
        self._breakage: Exception | None = None
        self._unclosed: Exception | None = None
        """Why the queues could not be left at the end."""
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        engine.wake = self._signal.set

    def ask(self, command: Command, token: str = "") -> Outcome:
        """Ask, and sleep until the answer is there."""
        latch = Latch()
        pending = self.submit(command, token, latch.set)
        try:
            if not pending.is_done:
                latch.wait()
        except BaseException:  # an interrupt, for example: nobody is waiting any more
            self._engine.abandon(pending)
            raise
        return pending.result()

    def submit(self, command: Command, token: str, done: Callable[[Pending], None]) -> Pending:
        """Ask without waiting; `done` is called with the answer, by the engine's thread."""
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
            except Exception as error:  # noqa: BLE001 (the engine has told all callers, and each that comes is told)
                self._breakage = error
                return
        try:
            self._engine.close()
        except Exception as error:  # noqa: BLE001 (told to whoever closes)
            self._unclosed = error
        if self._is_dismissed:
            self._engine.store.close()

    def close(self) -> None:
        """Answer everybody, stop, and wait until it has stopped. Raises if the store could not be told."""
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
        """The thread leaves the queues and closes the store. Safe from a finalizer, in whatever thread that runs."""
        if self._thread is not None and not self._closing:
            self._is_dismissed = True
            self._closing = True
            self._signal.set()

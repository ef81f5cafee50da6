"""Drivers that turn an engine: the caller itself, or a thread; for event loops see ``loop``. They decide nothing."""

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
        """Submits commands to an engine and waits for the answers."""

        def ask(self, command: Command, token: str = "") -> Outcome:
            """Return the answer to this command."""

        def submit(self, command: Command, token: str, done: Callable[[Pending], None]) -> Pending:
            """Submit without waiting; `done` is called with the answer."""

        def close(self) -> None:
            """Answer every request and stop."""

        def dismiss(self) -> None:
            """Stop without waiting: the locks were garbage-collected before they were closed."""


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

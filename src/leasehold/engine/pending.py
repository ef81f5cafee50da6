"""A request on its way through an engine, the inbox that it enters, and the latch of a thread that awaits its answer.

All are light: a one-shot command loads neither futures nor `threading`.
"""

from __future__ import annotations

import _thread

from leasehold.domain.commands import Cancel, EndSession, Release
from leasehold.domain.outcomes import Granted
from leasehold.errors import CLOSED, Closed

try:
    # A one-shot command need not load `collections`. Unused where mypyc compiles it: that ignores missing imports.
    from _collections import deque  # type: ignore[import-not-found, unused-ignore]
except ImportError:  # a Python without it
    from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from leasehold.domain.commands import Command
    from leasehold.domain.outcomes import Outcome

NEVER: Final = 1e300
"""A time that never comes, on a process's own clock."""


class Pending:
    """One command for an engine, and its answer once there is one."""

    __slots__ = (
        "_deliver",
        "_done",
        "abandoned",
        "command",
        "error",
        "is_internal",
        "outcome",
        "stays",
        "token",
        "waiter",
        "was_sent_elsewhere",
    )

    def __init__(
        self,
        command: Command,
        token: str = "",
        done: Callable[[Pending], None] | None = None,
        deliver: Callable[[Callable[[Pending], None], Pending], None] | None = None,
    ) -> None:
        self.command = command
        self.token = token
        """Added to a grant: the store and the engine know only its hash."""
        self.outcome: Outcome | None = None
        self.error: Exception | None = None
        self.abandoned = False
        """True once the caller has disconnected."""
        self.waiter: str | None = None
        """The id of its place in the queue, while it waits."""
        self.stays = False
        """True if its place is kept for a while when the engine closes, for a caller that comes back to another one."""
        self.is_internal = False
        """True if no caller waits for the answer: the engine repeats it until the store accepts it."""
        self.was_sent_elsewhere = False
        """True if another server, which did not answer, may have received it, too."""
        self._done = done
        self._deliver = deliver
        """Calls `done` in the right thread; None: the thread that turns the engine calls it."""

    @property
    def is_done(self) -> bool:
        """True once there is an answer or an error."""
        return self.outcome is not None or self.error is not None

    @property
    def must_be_done(self) -> bool:
        """True if the caller has disconnected and the command ends something: undone, it keeps others out."""
        return self.abandoned and isinstance(self.command, Release | EndSession | Cancel)

    def result(self) -> Outcome:
        """Return the answer, or raise the error."""
        if self.error is not None:
            raise self.error
        if self.outcome is None:
            raise AssertionError("asked for an answer before it was there")
        return self.outcome

    def resolve(self, outcome: Outcome) -> None:
        """Set the answer and call `done`. A grant gets the token that only its caller knows."""
        if isinstance(outcome, Granted):
            outcome = Granted(outcome.lease, self.token, outcome.fresh, outcome.unapplied)
        self.outcome = outcome
        self._report()

    def fail(self, error: Exception) -> None:
        """Set the error and call `done`."""
        self.error = error
        self._report()

    def _report(self) -> None:
        done, self._done = self._done, None  # it refers to this object: without the cycle both are freed at once
        if done is None:
            return
        if self._deliver is None:
            done(self)
        else:
            self._deliver(done, self)


class Inbox:
    """The requests that no turn has taken yet. Any thread may add some; one at a time takes them."""

    __slots__ = ("_requests", "is_closed", "to_repeat")

    def __init__(self) -> None:
        self._requests: deque[Pending] = deque()
        self.to_repeat: list[Pending] = []
        """Internal requests that a failed transaction left undone."""
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, pending: Pending) -> None:
        """Add a caller's request, or fail it if the engine is closed."""
        if not self.is_closed:
            self._requests.append(pending)
            if not self.is_closed:
                return
            try:  # closed meanwhile, by another thread: the thread that takes the request out answers it
                self._requests.remove(pending)
            except ValueError:
                return
        pending.fail(Closed(CLOSED))

    def put(self, pending: Pending) -> None:
        """Add a request from within a turn."""
        self._requests.append(pending)

    def take(self, most: int, repeats: bool) -> list[Pending]:
        """Take the next requests, at most so many, and those `to_repeat` if it `repeats`."""
        taken: list[Pending] = []
        if repeats and self.to_repeat:
            taken, self.to_repeat = self.to_repeat, []
        requests = self._requests
        while requests and len(taken) < most:
            pending = requests.popleft()
            if pending.abandoned and not pending.must_be_done:
                pending.fail(Closed("the caller has disconnected"))
            else:
                taken.append(pending)
        return taken

    def close(self) -> list[Pending]:
        """Accept no more requests, and return those that are left."""
        self.is_closed = True
        left, self.to_repeat = self.to_repeat, []
        while self._requests:
            try:
                left.append(self._requests.popleft())
            except IndexError:  # `add` has just taken it back
                break
        return left


class Latch:
    """A flag that one thread waits for and others set; a successful wait clears it.

    A plain lock: `queue.SimpleQueue`, asked to wait for a few microseconds, may wait for ever (CPython before 3.13).
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._lock.acquire()

    def set(self, _pending: Pending | None = None) -> None:
        """Set the flag and wake the waiting thread."""
        try:  # noqa: SIM105 (a one-shot command does not load contextlib)
            self._lock.release()
        except RuntimeError:
            pass  # it is set already

    def wait(self, seconds: float = -1) -> bool:
        """Wait until the flag is set; return False if the time runs out first."""
        return self._lock.acquire(timeout=seconds)

"""An answer to come. Light enough for a process that asks once: no futures, no threads unless somebody waits."""

from __future__ import annotations

import _thread

from leasehold.domain.nouns import new
from leasehold.domain.outcomes import Granted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from leasehold.domain.commands import Command
    from leasehold.domain.outcomes import Outcome

NEVER: Final = 1e300
"""A time that never comes, on any process's own clock."""
_new: Final = new
_Granted: Final = Granted


class Pending:
    """What somebody asked and is waiting for."""

    __slots__ = ("_done", "abandoned", "command", "error", "outcome", "stays", "token", "waiter")

    def __init__(self, command: Command, token: str = "", done: Callable[[Pending], None] | None = None) -> None:
        self.command = command
        self.token = token
        self.outcome: Outcome | None = None
        self.error: Exception | None = None
        self.abandoned = False
        self.waiter: str | None = None
        """Its place in the queue, once it has one."""
        self.stays = False
        """Whether that is kept for a while when the engine goes, because whoever asks comes back to another."""
        self._done = done

    @property
    def is_done(self) -> bool:
        """Whether the answer is here."""
        return self.outcome is not None or self.error is not None

    def result(self) -> Outcome:
        """The answer; raises if something broke."""
        if self.error is not None:
            raise self.error
        if self.outcome is None:
            raise AssertionError("asked for an answer before it was there")
        return self.outcome

    def resolve(self, outcome: Outcome) -> None:
        """Here is the answer; a grant comes with the token that only its caller knows."""
        self.outcome = self._complete(outcome) if isinstance(outcome, _Granted) else outcome
        self._tell()

    def _complete(self, outcome: Granted) -> Granted:
        return _new(_Granted, (outcome.lease, self.token, outcome.fresh, outcome.unapplied))

    def fail(self, error: Exception) -> None:
        """Something broke."""
        self.error = error
        self._tell()

    def _tell(self) -> None:
        done, self._done = self._done, None  # which knows us: kept, both would stay until the collector comes by
        if done is not None:
            done(self)


class Errand(Pending):
    """What an engine has to see to by itself: tried again until it is done."""

    __slots__ = ()


class Latch:
    """A flag that one thread waits for and others set; to have waited for it takes it down again.

    A plain lock: `queue.SimpleQueue`, asked to wait for a few microseconds, may wait for ever (CPython before 3.13).
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._lock.acquire()

    def set(self, _pending: Pending | None = None) -> None:
        """Let the waiting thread go on."""
        try:  # noqa: SIM105 (whoever asks once need not load contextlib)
            self._lock.release()
        except RuntimeError:
            pass  # it is set, and nobody has seen it yet

    def wait(self, seconds: float = -1) -> bool:
        """Wait until it is set; False if the time ran out first."""
        return self._lock.acquire(timeout=seconds)

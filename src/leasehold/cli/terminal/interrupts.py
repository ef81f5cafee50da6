"""Signals that would end us, obeyed where it is safe: between two looks at the queue, never in the middle of a change.

A process that dies in a queue is forgotten within two seconds. But one that is ended between being granted a lease and
noticing it would keep the lease until it expires, and nobody would know its token.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
PATIENCE = 1.0
"""If no safe place was reached for so long (the store hangs), the signal is obeyed wherever we are."""


class Terminated(KeyboardInterrupt):
    """A signal told us to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


def disarm() -> None:
    """We have come to the end: nothing has to be hurried up any more."""
    signal.setitimer(signal.ITIMER_REAL, 0)


class Interrupts:
    """While this is in force, a signal that would end us is noted; `check` obeys it."""

    def __init__(self) -> None:
        self.noted: int | None = None
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        for each in ENDING:
            before = signal.getsignal(each)
            if before != signal.SIG_IGN:  # nohup, a job in the background: whoever started us wants it ignored
                self._before[each] = before
                signal.signal(each, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Terminated):
            return  # we are about to end: what is left to do must not hang either
        signal.setitimer(signal.ITIMER_REAL, 0)
        for each, before in self._before.items():
            signal.signal(each, before)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.noted is not None:
            raise Terminated(self.noted)  # somebody insists
        self.noted = number
        signal.signal(signal.SIGALRM, self._insist)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE, PATIENCE)

    def _insist(self, _number: int, _frame: FrameType | None) -> None:
        if self.noted is not None:
            raise Terminated(self.noted)

    def check(self) -> None:
        """Here it is safe to end, if we were told to."""
        if self.noted is not None:
            raise Terminated(self.noted)

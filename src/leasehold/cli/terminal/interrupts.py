"""Signals that end a command, obeyed where it is safe: between two checks of the queue, never during a change.

A process that dies in a queue leaves it within two seconds. A process that dies between the grant of a lease and its
answer would keep the lease until it expires, and no one would know its token.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
PATIENCE = 1.0
"""Seconds after which a signal is obeyed anywhere, if no safe place was reached (the store hangs)."""


class Terminated(KeyboardInterrupt):
    """A signal ended this command."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


def disarm(error: KeyboardInterrupt) -> int:
    """Stop the timer that enforces a signal, as the command is about to end; return the exit code for the signal."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    return error.exit_code if isinstance(error, Terminated) else 128 + signal.SIGINT


class Interrupts:
    """Notes ending signals while it is entered; `check` obeys them."""

    def __init__(self) -> None:
        self.noted: int | None = None
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        for each in ENDING:
            before = signal.getsignal(each)
            if before != signal.SIG_IGN:  # nohup or a background job: it stays ignored
                self._before[each] = before
                signal.signal(each, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Terminated):
            return  # the command is about to end, and the rest must not hang either
        signal.setitimer(signal.ITIMER_REAL, 0)
        for each, before in self._before.items():
            signal.signal(each, before)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.noted is not None:
            raise Terminated(self.noted)  # a second signal
        self.noted = number
        signal.signal(signal.SIGALRM, lambda *_: self.check())
        signal.setitimer(signal.ITIMER_REAL, PATIENCE, PATIENCE)

    def check(self) -> None:
        """Raise Terminated if a signal was noted: here it is safe to end."""
        if self.noted is not None:
            raise Terminated(self.noted)

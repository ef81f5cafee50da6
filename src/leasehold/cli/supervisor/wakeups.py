"""Wake the process that supervises a command: by a signal, or by a store's answer in another thread."""

from __future__ import annotations

import os
import select
import signal
import threading
from typing import TYPE_CHECKING, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType, TracebackType

T = TypeVar("T")


def _noticed(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the interpreter has written the signal's number into the pipe."""


class WakeupPipe:
    """Signals as bytes in a pipe: none is lost, and none interrupts a system call."""

    def __init__(self, signals: Iterable[signal.Signals]) -> None:
        self._reading, self._writing = os.pipe()
        for end in (self._reading, self._writing):
            os.set_blocking(end, False)
        # A signal that was ignored at start (nohup, a background job) stays ignored.
        self.signals = [each for each in signals if signal.getsignal(each) != signal.SIG_IGN]
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        self._fd_before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._before = {each: signal.signal(each, _noticed) for each in self.signals}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each, before in self._before.items():
            signal.signal(each, before)
        signal.set_wakeup_fd(self._fd_before)
        # The pipe stays open: a thread that still waits for its answer may write to it.

    def wake(self) -> None:
        """Wake the waiting process."""
        try:
            os.write(self._writing, b"\0")
        except BlockingIOError:
            return  # the pipe is full, so the process wakes up in any case

    def wait(self, seconds: float) -> list[signal.Signals]:
        """Wait for a wake-up, at most so many seconds. Return the signals that arrived."""
        if not select.select([self._reading], [], [], max(0.0, seconds))[0]:
            return []
        return [signal.Signals(number) for number in os.read(self._reading, 512) if number]


class StoreCall(Generic[T]):
    """One call of the store in a thread of its own, so that a store that hangs blocks nothing else."""

    def __init__(self, ask: Callable[[], T], wakeups: WakeupPipe, asked_at: float) -> None:
        self.asked_at = asked_at
        self.is_answered = False
        self._ask = ask
        self._wakeups = wakeups
        self._answer: list[T] = []
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="store-call", daemon=True).start()

    def _run(self) -> None:
        try:
            self._answer.append(self._ask())
        except BaseException as error:  # noqa: BLE001 (`result` raises it)
            self._error = error
        self.is_answered = True
        self._wakeups.wake()

    def result(self) -> T:
        """Return the answer, or raise the error, of a call that is answered."""
        if self._error is not None:
            raise self._error
        return self._answer[0]

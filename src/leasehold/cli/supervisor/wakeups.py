"""What wakes the process that attends to a command: a signal, or an answer that another thread has got."""

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
    """The interpreter has written its number into the pipe; there is nothing else to do."""


class WakeupPipe:
    """Signals as bytes in a pipe: none is lost, none interrupts anything."""

    def __init__(self, signals: Iterable[signal.Signals]) -> None:
        self._reading, self._writing = os.pipe()
        for end in (self._reading, self._writing):
            os.set_blocking(end, False)
        # Who was started to ignore a signal (nohup, a job in the background) goes on ignoring it.
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
        # The pipe stays open: a thread that still waits for its answer may ring.

    def ring(self) -> None:
        """Wake whoever waits."""
        try:
            os.write(self._writing, b"\0")
        except BlockingIOError:
            return  # it is full: whoever waits wakes up in any case

    def wait(self, seconds: float) -> list[signal.Signals]:
        """Until something happens, but not longer than this; the signals that came."""
        if not select.select([self._reading], [], [], max(0.0, seconds))[0]:
            return []
        return [signal.Signals(number) for number in os.read(self._reading, 512) if number]


class StoreCall(Generic[T]):
    """One question to the store, asked by a thread, so that a store that hangs holds up nobody else."""

    def __init__(self, ask: Callable[[], T], bell: WakeupPipe, asked_at: float) -> None:
        self.asked_at = asked_at
        self.is_answered = False
        self._ask = ask
        self._bell = bell
        self._answer: list[T] = []
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="question", daemon=True).start()

    def _run(self) -> None:
        try:
            self._answer.append(self._ask())
        except BaseException as error:  # noqa: BLE001 (raised where the answer is wanted)
            self._error = error
        self.is_answered = True
        self._bell.ring()

    def result(self) -> T:
        """The answer, once it is there; raises what the question raised."""
        if self._error is not None:
            raise self._error
        return self._answer[0]

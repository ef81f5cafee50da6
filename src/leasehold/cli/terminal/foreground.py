"""The terminal that `leasehold run` shares with its command: the foreground process group, and Ctrl-Z."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Self

from leasehold.cli.supervisor.watchdog import end

if TYPE_CHECKING:
    from types import TracebackType


class Foreground:
    """Puts the command into the terminal's foreground, so that it can read from it and Ctrl-C reaches it."""

    def __init__(self) -> None:
        self._terminal = _ours()
        self._group = 0

    def take(self) -> None:
        """Take the terminal. The child calls it before it becomes the command."""
        self._hand_to(os.getpid())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hand_to(os.getpgrp())

    def _hand_to(self, group: int) -> None:
        if self._terminal is None:
            return
        # A background process that changes the terminal would be stopped by SIGTTOU.
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            os.tcsetpgrp(self._terminal, group)
        except OSError:
            return  # the group has ended, or the terminal is gone
        finally:
            signal.signal(signal.SIGTTOU, before)

    def stop_with(self, group: int) -> None:
        """Stop with the stopped command (Ctrl-Z), so that the shell notices; continue together with it."""
        if self._terminal is None:
            return
        self._hand_to(os.getpgrp())
        os.kill(os.getpid(), signal.SIGSTOP)
        self._hand_to(group)
        end(group, signal.SIGCONT)


def _ours() -> int | None:
    """Return the terminal on standard input, if this process is in its foreground."""
    if sys.stdin is None or not sys.stdin.isatty():
        return None
    try:
        terminal = sys.stdin.fileno()
        return terminal if os.tcgetpgrp(terminal) == os.getpgrp() else None
    except OSError:
        return None  # a terminal, but not the controlling one

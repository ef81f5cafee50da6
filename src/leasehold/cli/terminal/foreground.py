"""The terminal that a command shares with us: who is in the foreground, and what Ctrl-Z does."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Self

from leasehold.cli.supervisor.watchdog import end

if TYPE_CHECKING:
    from types import TracebackType


class Foreground:
    """While the command runs, it has the terminal, so that it can read it and Ctrl-C reaches it."""

    def __init__(self) -> None:
        self._terminal = _ours()
        self._group = 0

    def take(self) -> None:
        """Called by the child, before it becomes the command: it must not read the terminal before it has it."""
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
        # Who is in the background and touches the terminal would be stopped.
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            os.tcsetpgrp(self._terminal, group)
        except OSError:
            return  # the group has ended, or the terminal is gone: there is nothing to hand over
        finally:
            signal.signal(signal.SIGTTOU, before)

    def stop_with(self, group: int) -> None:
        """The command was stopped (Ctrl-Z): so that our shell notices, we stop with it, and go on with it."""
        if self._terminal is None:
            return
        self._hand_to(os.getpgrp())
        os.kill(os.getpid(), signal.SIGSTOP)
        self._hand_to(group)
        end(group, signal.SIGCONT)


def _ours() -> int | None:
    """The terminal on standard input, if we are in its foreground."""
    if sys.stdin is None or not sys.stdin.isatty():
        return None
    try:
        terminal = sys.stdin.fileno()
        return terminal if os.tcgetpgrp(terminal) == os.getpgrp() else None
    except OSError:
        return None  # a terminal, but not the one that we are controlled by

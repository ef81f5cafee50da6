"""A live line on a terminal while a store is slow to answer."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Self

from leasehold.cli import output
from leasehold.cli.terminal.columns import cut

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from leasehold.cli.context import Context

EVERY = 1.0
"""Seconds before the line is first shown, and between its updates."""
UNKNOWN_WIDTH = 80
NOT_ASKING = frozenset({"run", "watch", "serve", "mcp", "hook", "git-hook", "install", "uninstall"})
"""Commands that run for long, or show their own progress."""


def may_be_shown(context: Context) -> bool:
    """True if standard error is a terminal, and the command has no live line of its own."""
    if context.out.json or sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return False
    return context.verb not in NOT_ASKING and context.values.get("wait", "0") == "0"


class Patience:
    """Shows, while it is entered, how long the command has waited for the store's answer."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._seconds = 0
        self._is_shown = False

    def __enter__(self) -> Self:
        signal.signal(signal.SIGALRM, self._show)
        signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
        output.LIVE.append(self._stop)  # the next output erases the line first
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        if self._stop in output.LIVE:
            output.LIVE.remove(self._stop)

    def _show(self, _number: int, _frame: FrameType | None) -> None:
        self._seconds += 1
        where = self._context.address
        if where is None:
            return
        self._is_shown = True
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or UNKNOWN_WIDTH
        sys.stderr.write("\r\x1b[K" + cut(f"waiting {self._seconds}s for an answer of {where}", columns - 1))
        sys.stderr.flush()

    def _stop(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self._is_shown:
            self._is_shown = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

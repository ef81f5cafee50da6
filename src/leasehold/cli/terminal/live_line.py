"""Wait in a queue with a live line (position, holder, time left), and leave the queue if the command is interrupted."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from leasehold.cli.terminal.columns import cut
from leasehold.domain import durations
from leasehold.domain.leases import Inspection
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Granted
from leasehold.errors import StoreError
from leasehold.pictures.waits import together
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.cli.context import Context
    from leasehold.cli.terminal.interrupts import Interrupts
    from leasehold.domain.leases import Waiting
    from leasehold.domain.outcomes import Acquired

FIRST = 0.3
"""Seconds before the line is first shown."""
EVERY = 1.0
PAUSE = 8
"""A query that takes t seconds is repeated after 8 t: the wait itself goes on only in between."""
UNKNOWN_WIDTH = 80
"""Columns of a terminal that does not report its width."""


def wait_for(
    context: Context,
    ask: Callable[[], Acquired],
    interrupts: Interrupts,
    *,
    events: bool,
    meanwhile: Callable[[], None] | None = None,
) -> Acquired:
    """Acquire and wait, with a live line; with `events` and --json, with JSON lines instead."""
    line = WaitingLine(context, events=events)

    def progress() -> None:
        interrupts.check()
        if meanwhile is not None:
            meanwhile()
        line.show()

    context.progress = progress
    try:
        outcome = ask()
    finally:
        context.progress = None
        line.done()
    if interrupts.noted is not None and isinstance(outcome, Granted) and outcome.fresh:
        context.locks.release(outcome.lease.id, outcome.token, status="cancelled")
    interrupts.check()
    return outcome


class WaitingLine:
    """Rewrites one line on a terminal, or prints JSON lines, or prints nothing."""

    def __init__(self, context: Context, *, events: bool) -> None:
        self._context = context
        self._next = time.monotonic() + FIRST
        self._events = events and context.out.json
        is_terminal = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._is_live = is_terminal and not context.out.json
        self._shown = False
        self._last: object = None

    def show(self) -> None:
        """Show the state of the queue, once a second."""
        if time.monotonic() < self._next or not (self._is_live or self._events):
            return
        begun = time.monotonic()
        try:
            # Any of the names may be the held one.
            looks = [self._context.locks.inspect(name) for name in self._context.values["resources"]]
        except StoreError:
            looks = []  # the wait itself reports a failure, if it matters
        now = time.monotonic()
        self._next = max(begun + EVERY, now + (now - begun) * PAUSE)
        seen = [each for each in looks if isinstance(each, Inspection)]
        if seen:
            self._show(together(seen, self._place, any_of=self._context.values["any_of"]))

    def _mine(self, waiting: Sequence[Waiting]) -> Waiting | None:
        return next((each for each in waiting if self._context.is_mine(each)), None)

    def _place(self, waiting: Sequence[Waiting]) -> int:
        mine = self._mine(waiting)
        return mine.position if mine else 0

    def _show(self, seen: Inspection) -> None:
        """Show the state of the wait: an event in JSON if it changed, or the line on the terminal, drawn anew."""
        mine = self._mine(seen.waiting)
        if self._events:
            state = {
                "position": mine.position if mine else None,
                "holders": [wire.lease(each) for each in seen.leases],
            }
            known = (state["position"], [(each.id, each.expires_us) for each in seen.leases])
            if known != self._last:
                self._last = known
                self._context.out.give({"schema_version": wire.SCHEMA_VERSION, "event": "waiting", **state})
            return
        waited = durations.in_seconds(seen.now_us - mine.since_us) if mine else "0s"
        place = f", place {mine.position}" if mine else ""
        asked = durations.format(durations.parse(self._context.values["wait"]))
        text = f"waiting {waited} of {asked}{place}: {_in_the_way(seen)}"
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or UNKNOWN_WIDTH
        sys.stderr.write("\r\x1b[K" + cut(text, columns - 1))
        sys.stderr.flush()
        self._shown = True

    def done(self) -> None:
        """Erase the line: the wait is over."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False


def _in_the_way(seen: Inspection) -> str:
    if seen.leases:
        first = seen.leases[0]
        work = f" ({first.name})" if first.name else ""
        more = f" and {len(seen.leases) - 1} more" if len(seen.leases) > 1 else ""
        # The work comes last: a narrow terminal may cut it off.
        left = durations.in_seconds(first.expires_us - seen.now_us)
        return shown(f"held by {first.holder}{more}, {left} left{work}")
    if seen.closed:
        return shown(f"closed after {seen.closed[0].holder} ended uncleanly")
    return "free soon"

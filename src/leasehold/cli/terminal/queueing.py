"""Waiting for a run to end: in the store's queue, or at a server by asking it again. A signal leaves nothing behind."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from leasehold.cli.command_line import settle_down
from leasehold.cli.terminal.interrupts import Interrupts
from leasehold.compat.agiflow import Conflict
from leasehold.domain.outcomes import TimedOut
from leasehold.locks.connect import is_served

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.cli.context import Context

AGAIN = 1.0
"""Seconds between two tries at a server: its route for runs answers at once."""


def queued(context: Context, begin: Callable[[], Any], abandon: Callable[[], None], wait: float) -> Any:  # noqa: ANN401 (a run, or why not)
    """Begin a run as soon as that is possible, within so many seconds. What a signal interrupts is given up."""
    settle_down()
    with Interrupts() as interrupts:
        context.progress = interrupts.check
        try:
            told = _again_and_again(begin, interrupts, wait) if is_served(context.choice.url) else begin()
        finally:
            context.progress = None
        if interrupts.noted is not None and isinstance(told, dict):
            abandon()
        interrupts.check()
    return told


def _again_and_again(begin: Callable[[], Any], interrupts: Interrupts, wait: float) -> Any:  # noqa: ANN401 (as above)
    give_up = time.monotonic() + wait
    while True:
        told = begin()
        left = give_up - time.monotonic()
        if not isinstance(told, Conflict):
            return told
        if left <= 0:
            return _timed_out(told)
        if interrupts.noted is None:
            time.sleep(min(AGAIN, left))
        interrupts.check()


def _timed_out(told: Conflict) -> Conflict:
    held = told.held
    return told._replace(held=TimedOut(held.resources, held.blockers, held.queue, held.retry_us))

"""wait: end once a resource is free, so that its end wakes an agent. It takes nothing and has no place in the queue."""

from __future__ import annotations

import time

from leasehold.cli.command_line import settle_down
from leasehold.cli.context import accepted
from leasehold.cli.terminal.interrupts import Interrupts
from leasehold.domain import durations
from leasehold.domain.leases import Queue
from leasehold.domain.names import shown
from leasehold.domain.outcomes import TimedOut
from leasehold.domain.timestamps import SECOND
from leasehold.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context
    from leasehold.domain.leases import Inspection

EVERY = 0.5
"""Seconds between two looks at the store: an agent needs longer than that to wake up."""
PAUSE = 8
"""A query that takes t seconds is repeated after 8 t at the earliest."""


def wait(context: Context) -> int:
    """Wait until the resource is free for the caller, or until --timeout."""
    settle_down()
    begun = time.monotonic()
    deadline = None if context.values["timeout"] is None else begun + _timeout(context)
    with Interrupts() as interrupts:
        while True:
            asked = time.monotonic()
            seen = accepted(context.locks.inspect(context.values["resource"]))
            now = time.monotonic()
            if _is_free(context, seen) or (deadline is not None and now >= deadline):
                return _end(context, seen, now - begun)
            pause = max(EVERY, (now - asked) * PAUSE)
            time.sleep(pause if deadline is None else min(pause, max(0.0, deadline - now)))
            interrupts.check()


def _timeout(context: Context) -> float:
    try:
        return durations.parse(context.values["timeout"]) / SECOND
    except durations.BadDuration as error:
        raise InvalidInput("timeout", str(error)) from None


def _is_free(context: Context, seen: Inspection) -> bool:
    """Return True if an acquire would be granted: nothing is held or closed, and no other request waits."""
    is_held = any(not context.is_mine(each) for each in seen.leases)
    return not is_held and not seen.closed and not any(not context.is_mine(each) for each in seen.waiting)


def _end(context: Context, seen: Inspection, waited: float) -> int:
    if not _is_free(context, seen):
        return context.end(TimedOut((seen.resource,), (), Queue(len(seen.waiting), 0), 0), "")
    name = shown(seen.resource)
    free = f"{name} is free. Acquire it before you touch it:\n  {context.suggest('acquire', seen.resource)}"
    text = f"{name} is yours already" if seen.leases else free
    return context.end(seen, text, {"resource": seen.resource, "waited_seconds": round(waited, 3)})

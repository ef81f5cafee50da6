"""watch: a live table of who holds what and who waits; plain lines when nobody looks at a terminal."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

from leasehold import durations, wire
from leasehold.cli import settle_down
from leasehold.cli.looking import lease_table
from leasehold.cli.tables import counted, cut
from leasehold.errors import InvalidInput
from leasehold.model import SECOND, Inspection, Refused
from leasehold.names import shown
from leasehold.noun import Noun

if TYPE_CHECKING:
    from leasehold.cli.context import Context
    from leasehold.model import Lease, Waiting

CLEAR = "\x1b[H\x1b[2J"


class Look(Noun):
    """What was seen at one moment."""

    now: int
    leases: tuple[Lease, ...]
    waiting: dict[str, Waiting]


def watch(context: Context) -> int:
    """Look again and again, until Ctrl-C, so many times, or until nobody reads any more."""
    settle_down()
    every, count = _interval(context), _count(context)
    looks = 0
    while True:
        seen = _look(context)
        if isinstance(seen, Refused):
            return context.end(seen, "")
        _show(context, seen)
        looks += 1
        if context.out.is_over or context.out.trouble or (count is not None and looks >= count):
            return 0
        time.sleep(every)


def _interval(context: Context) -> float:
    try:
        every = durations.parse(context.values["interval"])
    except durations.BadDuration as error:
        raise InvalidInput("interval", str(error)) from None
    if not SECOND // 20 <= every <= 3600 * SECOND:
        raise InvalidInput("interval", "must be 50ms to 1h")
    return every / SECOND


def _count(context: Context) -> int | None:
    if context.values["count"] is None:
        return None
    count = context.number("count")
    if count < 1:
        raise InvalidInput("count", "must be at least 1")
    return count


def _look(context: Context) -> Look | Refused:
    resource = context.values["resource"]
    if resource is not None:  # also what is held above and below it
        seen = context.locks.inspect(resource)
        if isinstance(seen, Refused):
            return seen
        return Look(seen.now, seen.leases, {each.id: each for each in seen.waiting})
    leases = context.locks.list(space=context.space)
    return leases if isinstance(leases, Refused) else _with_queues(context, leases)


def _with_queues(context: Context, leases: tuple[Lease, ...]) -> Look:
    """Everybody who waits for something that is held, each once."""
    now = 0
    waiting: dict[str, Waiting] = {}
    for name in dict.fromkeys(name for lease in leases for name in lease.resources):
        seen = context.locks.inspect(name)
        if isinstance(seen, Inspection):
            now = seen.now
            waiting.update((waiter.id, waiter) for waiter in seen.waiting)
    return Look(now, leases, waiting)


def _show(context: Context, seen: Look) -> None:
    if context.out.json:
        data = {**wire.leases(seen.leases), "waiting": [wire.waiting(each, seen.now) for each in seen.waiting.values()]}
        context.out.give({"schema_version": wire.SCHEMA_VERSION, "ok": True, "data": data})
        return
    is_live = sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    size = shutil.get_terminal_size() if is_live else None
    head = time.strftime("%H:%M:%S  ") + f"{counted(len(seen.leases), 'lease')}, {len(seen.waiting)} waiting"
    lines = [head, *_lines(seen, size.columns if size is not None else None)]
    if size is not None:
        lines = [cut(line, size.columns) for line in _within(lines, size.lines)]
    context.out.say((CLEAR if is_live else "") + "\n".join(lines))


def _lines(seen: Look, width: int | None) -> list[str]:
    lines = lease_table(seen.leases, width).splitlines() if seen.leases else ["No live leases."]
    return lines + [
        f"  waiting {each.position}. {shown(each.holder)} for {shown(' '.join(each.resources))}"
        for each in seen.waiting.values()
    ]


def _within(lines: list[str], height: int) -> list[str]:
    """As many lines as the terminal has, the last of them saying how many are missing."""
    room = max(2, height - 1)
    return lines if len(lines) <= room else [*lines[: room - 1], f"… and {len(lines) - room + 1} more"]

"""watch: a live table of holders and waiters on a terminal; elsewhere plain lines."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

from leasehold.cli.command_line import settle_down
from leasehold.cli.commands.queries import lease_table
from leasehold.cli.context import accepted
from leasehold.cli.terminal.columns import counted
from leasehold.cli.terminal.keyboard import Keyboard
from leasehold.cli.terminal.screen import Details, Screen, ScreenSnapshot, queue_of
from leasehold.domain import durations
from leasehold.domain.leases import Inspection
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Refused
from leasehold.domain.timestamps import SECOND
from leasehold.errors import InvalidInput
from leasehold.pictures.waits import waits_of
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from leasehold.cli.context import Context
    from leasehold.domain.graph import Graph
    from leasehold.domain.leases import Lease, Waiting

HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
LATELY = 8
EDGES_MOST = 3_000
"""The most edges fetched each time. Each waiter waits for all before it, so this covers 75 waiters of one resource."""


def watch(context: Context) -> int:
    """Print the table repeatedly, until Ctrl-C, `q`, --count is reached, or the reader closes the stream."""
    settle_down()
    every, count = _interval(context), _count(context)
    is_terminal = sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if context.out.json or not is_terminal:
        return _watch_plainly(context, every, count)
    return _watch_live(context, every, count)


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


# ------------------------------------------------------------------------------------------------ looking


def _snapshot(context: Context) -> ScreenSnapshot:
    resource = context.values["resource"]
    if resource is not None:  # includes leases above and below it
        seen = accepted(context.locks.inspect(resource))
        graph = _graph(context) if seen.waiting else None
        return ScreenSnapshot(
            seen.now_us, seen.leases, {each.id: each for each in seen.waiting}, _queues(graph), is_all=True
        )
    return _with_queues(context, accepted(context.locks.list(space=context.space)))


def _with_queues(context: Context, leases: tuple[Lease, ...]) -> ScreenSnapshot:
    """Return the leases with each of their waiters once."""
    now = max((lease.as_of_us for lease in leases), default=0)
    graph = _graph(context) if leases else None
    waiting: dict[str, Waiting] = {}
    if graph is None:  # then each name has to be inspected
        names = [name for lease in leases for name in lease.resources]
    else:  # of thousands of leases, most have no queue
        names = [edge.resource for edge in graph.edges]
    for name in dict.fromkeys(names):
        seen = context.locks.inspect(name)
        if isinstance(seen, Inspection):
            now = seen.now_us
            waiting.update((waiter.id, waiter) for waiter in seen.waiting)
    return ScreenSnapshot(now, leases, waiting, _queues(graph), is_all=graph is None or graph.complete)


def _graph(context: Context) -> Graph | None:
    """Return the wait-for graph; None if the store has none."""
    graph = context.locks.graph(space=context.space, limit=EDGES_MOST)
    return None if isinstance(graph, Refused) else graph


def _queues(graph: Graph | None) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for wait in () if graph is None else waits_of(graph):
        for lease in () if wait.polls else wait.leases:
            found.setdefault(lease, set()).add(wait.id)
    return {lease: frozenset(ids) for lease, ids in found.items()}


# ----------------------------------------------------------------------------------------- line after line


def _watch_plainly(context: Context, every: float, count: int | None) -> int:
    looks = 0
    while True:
        seen = _snapshot(context)
        _print(context, seen)
        looks += 1
        if context.out.is_over or context.out.trouble or (count is not None and looks >= count):
            return 0
        time.sleep(every)


def _print(context: Context, seen: ScreenSnapshot) -> None:
    if context.out.json:
        data = {**wire.leases(seen.leases), "waiting": wire.encoded("Waiting[]", seen.waiting.values(), seen.now)}
        context.out.give({"schema_version": wire.SCHEMA_VERSION, "ok": True, "data": data})
        return
    lines = [f"{_clock()}  {counted(len(seen.leases), 'lease')}, {len(seen.waiting)}{seen.more} waiting"]
    lines += lease_table(seen.leases).splitlines() if seen.leases else ["No live leases."]
    lines += [
        f"  waiting {each.position}. {shown(each.holder)} for {shown(' '.join(each.resources))}"
        for each in seen.waiting.values()
    ]
    context.out.say("\n".join(lines))


def _clock() -> str:
    return time.strftime("%H:%M:%S")


# ------------------------------------------------------------------------------------------ on a terminal


def _watch_live(context: Context, every: float, count: int | None) -> int:
    screen, looks = Screen(), 0
    with Keyboard() as keyboard:
        while True:
            seen = _snapshot(context)
            _draw(context, screen, seen)
            looks += 1
            if context.out.is_over or context.out.trouble or (count is not None and looks >= count):
                return 0
            if not _listen(context, screen, seen, keyboard, every):
                return 0


def _listen(context: Context, screen: Screen, seen: ScreenSnapshot, keyboard: Keyboard, every: float) -> bool:
    """Handle keys until the next refresh; False if the user quits."""
    until = time.monotonic() + every
    while (left := until - time.monotonic()) > 0:
        key = keyboard.wait(left)
        if key is not None:
            screen.press(key)
            if screen.is_over:
                return False
            _draw(context, screen, seen)
    return True


def _draw(context: Context, screen: Screen, seen: ScreenSnapshot) -> None:
    """Overwrite the screen in one write, without clearing it, so that nothing flickers."""
    size = shutil.get_terminal_size()
    details = _details(context, screen, seen)
    lines = screen.lines(seen, _clock(), size.columns, size.lines, details)
    context.out.say(HOME + "\n".join(line + REST_OF_LINE for line in lines) + REST_OF_SCREEN)


def _details(context: Context, screen: Screen, seen: ScreenSnapshot) -> Details | None:
    lease = next((each for each in seen.leases if each.id == screen.details), None)
    if lease is None:
        screen.details = None
        return None
    events = context.locks.history(resource=lease.resources[0], space=lease.space, limit=LATELY)
    return Details(lease, tuple(queue_of(lease, seen)), () if isinstance(events, Refused) else tuple(events))

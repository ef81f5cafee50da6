"""The newest events of all lanes, read once for all streams of a server. It knows no client.

A stream that has read the store to its end goes on from here, without reading the store again. One that falls behind
by more events than are kept reads the store until it has caught up.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from leasehold.errors import LeaseholdError
from leasehold.routing.cursors import is_after, moved
from leasehold.routing.history import EVERYTHING, PAGE
from leasehold.server.api.sse import wait_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.domain.events import Event
    from leasehold.locks.hosted import Served, Watched
    from leasehold.routing.cursors import Cursor

KEPT = 10_000
"""Events that are kept, and at most twice as many for a moment."""
POLL_EVERY = 1.0
"""How often to read what other processes on the same store did, of which this one is not notified, in seconds."""
PAUSE = 0.1
"""Between two reads of the history while much happens, in seconds: each then finds more."""


class EventTail:
    """Events in the order in which they were read. A place is how many events there were before it."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._events: list[Event] = []
        self._first = 0
        """The place of the oldest event that is kept."""
        self._end: Cursor = ()
        self._failure: LeaseholdError | None = None
        self._reading: asyncio.Task[None] | None = None
        self._is_begun = asyncio.Event()
        self._committed = asyncio.Event()
        self._news = asyncio.Event()

    @property
    def news(self) -> asyncio.Event:
        """Set when there are further events. Get it before you look, or you miss what happens meanwhile."""
        return self._news

    @property
    def end(self) -> int:
        """The place after the newest event."""
        return self._first + len(self._events)

    async def begin(self) -> None:
        """Read from now on: every later event will be here."""
        if self._reading is None or self._reading.done():
            self._first, self._events, self._failure = self.end + 1, [], None
            self._is_begun.clear()
            self._served.watch(self._observe)
            self._reading = asyncio.get_running_loop().create_task(self._read())
        await self._is_begun.wait()
        self._raise_failure()

    def close(self) -> None:
        """Stop reading: nobody listens."""
        self._is_begun.set()
        self._tell()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
            self._served.unwatch(self._observe)

    def after(self, place: int, cursor: Cursor, query: Watched) -> list[Event] | None:
        """Return the events from this place on that the query wants and the cursor has not seen; None: not kept."""
        self._raise_failure()
        if place < self._first:
            return None
        later = self._events[place - self._first :]
        return [event for event in later if query.wants(event) and is_after(event.seq, cursor)]

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _observe(self, _events: Sequence[Event]) -> None:
        committed, self._committed = self._committed, asyncio.Event()
        committed.set()

    async def _read(self) -> None:
        """Read until nobody listens; a failure of the store ends the streams, whose clients come back."""
        try:
            await self._follow()
        except LeaseholdError as error:
            self._failure = error
            self._served.unwatch(self._observe)
            self._is_begun.set()
            self._tell()

    async def _follow(self) -> None:
        loop, history = asyncio.get_running_loop(), self._served.history
        self._end = await loop.run_in_executor(None, history.end)
        self._is_begun.set()
        while True:
            committed, read_at = self._committed, time.monotonic()
            if await loop.run_in_executor(None, history.end) != self._end:
                found, has_gap = await loop.run_in_executor(None, history.after, self._end, EVERYTHING, KEPT)
                self._add(found, has_gap=has_gap)
                if len(found) >= PAGE:
                    continue
            await wait_for(committed, POLL_EVERY)
            await asyncio.sleep(max(0.0, read_at + PAUSE - time.monotonic()))

    def _add(self, found: Sequence[Event], *, has_gap: bool) -> None:
        if has_gap:  # some are left out: each stream reads the store
            self._first, self._events = self.end + 1, []
        for event in found:
            self._end = moved(self._end, event.seq)
        self._events += found
        if len(self._events) > 2 * KEPT:
            self._first += len(self._events) - KEPT
            del self._events[:-KEPT]
        if found:
            self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

"""Server-sent events: the history as it grows, for whoever watches.

A reader is a place in the history, not a buffer: what it is sent is read from the store, a page at a time, when it is
ready for more. So a slow one costs nothing but its connection and a page, and is dropped after a while. It resumes with
`Last-Event-ID`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from leasehold.errors import LeaseholdError
from leasehold.server.access import permissions
from leasehold.server.access.shares import Shares, payer
from leasehold.server.api import problems
from leasehold.server.api.problems import Problem
from leasehold.server.api.routes import of_verb
from leasehold.server.dashboard import login as signing
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Receive, Scope, Send

    from leasehold.domain.events import Event
    from leasehold.locks.hosted import Served, Watched
    from leasehold.server.access.keys import Door
    from leasehold.server.access.principals import Principal

log = logging.getLogger("leasehold.server")
READERS_EACH = 100
"""So many streams may one principal have open,"""
READERS_MOST = 400
"""and so many all of them together."""
CATCH_UP = 10_000
"""Whoever comes back after more events than this is told that there is a gap."""
LOOK_EVERY = 1.0
"""Other processes on the same store do not tell us what they do: look this often, in seconds."""
PIECE = 64 * 1024
"""So many bytes are sent at once; the next are made when these are on their way."""
PAUSE = 0.1
"""Between two looks at the history while much is going on, in seconds: they then find more at once."""
BEAT = 15.0
"""A reader that hears nothing of interest is sent a comment this often, in seconds: so proxies keep the line open."""
SLOW = 30.0
"""A reader that has not taken its events for so long is dropped, in seconds."""
LAST = 1.0
"""And so soon if the server goes away: nobody else's place in a queue is to be lost over it."""
GAP = b"event: gap\ndata: {}\n\n"
HANG_UP = "leasehold.hang_up"
"""What a connection lets its requests do: hang up at once, whatever is still to be sent."""
ROUTE = of_verb("events", ("too_many",))


class Streams:
    """Everybody who watches."""

    def __init__(self, served: Served, door: Door) -> None:
        self.served = served
        self.door = door
        """Where a stream asks again who reads it, as what never ends has to."""
        self.readers = Shares[Stream](READERS_EACH, READERS_MOST, Stream.drop, lambda _: False)
        self.is_closing = False
        self.writing: set[asyncio.Timeout] = set()
        """What ends each write that is under way."""
        self._news: asyncio.Event | None = None
        served.watchers.append(self._observe)

    def _observe(self, _events: Sequence[Event]) -> None:
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, None
        if news is not None:
            news.set()

    def close(self) -> None:
        """The server goes away: every stream ends."""
        self.is_closing = True
        self._wake()
        soon = asyncio.get_running_loop().time() + LAST
        for write in self.writing:
            if not write.expired():
                write.reschedule(soon)

    @property
    def news(self) -> asyncio.Event:
        """Set when something happens; ask for it before you look, or what happens meanwhile is missed."""
        if self._news is None:
            self._news = asyncio.Event()
        return self._news

    @staticmethod
    async def heard(news: asyncio.Event) -> None:
        """Returns when something may have happened."""
        try:
            async with asyncio.timeout(LOOK_EVERY):
                await news.wait()
        except TimeoutError:
            return

    async def open(self, who: Principal, asked: dict[str, Any], header: str | None) -> Response:
        """A stream of these events, after the one that was seen last."""
        last = asked.pop("last_event_id")
        if header is not None:
            if not (header.isascii() and header.isdigit() and len(header) < 17):
                raise Problem("invalid", "Last-Event-ID: must be the id of an event", field="last_event_id")
            last = int(header)
        if last is not None and not 0 <= last < 2**53:
            raise Problem("invalid", "last_event_id: must be the id of an event", field="last_event_id")
        query = self.served.watched(**asked)
        loop = asyncio.get_running_loop()
        newest = await loop.run_in_executor(None, self.served.newest)
        if last is not None and last > newest:
            # It saw another history: that of a store which was replaced, or restored from a copy. Where it was in this
            # one nobody knows.
            stream = Stream(self, payer(who), query, 0, has_gap=True)
        else:
            stream = Stream(self, payer(who), query, newest if last is None else last)
        if not self.readers.take(stream.payer, stream):
            raise Problem("too_many", f"you watch {READERS_EACH} streams of events already; close one first")
        return stream


class Stream(Response):
    """One reader."""

    media_type = "text/event-stream"

    def __init__(self, streams: Streams, payer: str, query: Watched, last: int, *, has_gap: bool = False) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._streams = streams
        self.payer = payer
        """Whose share of the streams it is taken from."""
        self._dropped = asyncio.get_running_loop().create_future()
        self._query = query
        self._last = last
        self._has_gap = has_gap
        self._is_slow = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what happens until the reader goes away, or the server, or another reader needs the room."""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b""})
            else:
                await self._stream(scope, receive, send)
        finally:
            self._streams.readers.leave(self.payer, self)

    def drop(self) -> None:
        """End at once: another principal, which watches less, needs the room."""
        if not self._dropped.done():
            self._dropped.set_result(None)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send_all(Request(scope), send))
        leaving = asyncio.ensure_future(gone(receive))
        try:
            await asyncio.wait((sending, leaving, self._dropped), return_when=asyncio.FIRST_COMPLETED)
            if self._is_slow or self._dropped.done():
                # What it has not taken would keep the connection open.
                scope["extensions"][HANG_UP]["now"]()
                await leaving  # or it would look as if the answer had been forgotten
        finally:
            for task in (sending, leaving):
                task.cancel()

    async def _send_all(self, request: Request, send: Send) -> None:
        try:
            await self._write(send, b": leasehold\n\n" + (GAP if self._has_gap else b""))
            try:
                await self._follow(request, send)
            except LeaseholdError as error:
                log.warning("a stream of events ends: %s", error)  # the store is in trouble
            await self._write(send, b"", is_last=True)
        except TimeoutError:
            self._is_slow = True  # it comes back with the last id that it saw

    async def _follow(self, request: Request, send: Send) -> None:
        silent_since = time.monotonic()
        while not self._streams.is_closing and await self._may_see(request):
            looked_at, news = time.monotonic(), self._streams.news
            if await self._send_page(send):
                silent_since = looked_at
            elif looked_at - silent_since > BEAT:
                await self._write(send, b":\n\n")
                silent_since = looked_at
            else:
                await self._streams.heard(news)
                await asyncio.sleep(max(0.0, looked_at + PAUSE - time.monotonic()))

    async def _may_see(self, request: Request) -> bool:
        """Whether whoever opened it would be let in now: a key may be revoked, a session over, an open door closed."""
        door = self._streams.door
        space = self._query.space
        try:
            who = await door.admit(request.headers.get("authorization"), space, lambda: signing.shown(request))
            permissions.allow(who, ROUTE.verb)
            return permissions.space_of(who, ROUTE.verb, space) == space
        except Problem:
            return False  # it hears why when it comes back

    async def _send_page(self, send: Send) -> bool:
        """Send what comes next, as far as it fits on a page; whether there was anything."""
        look = self._streams.served.after
        loop = asyncio.get_running_loop()
        found, has_gap = await loop.run_in_executor(None, look, self._last, self._query, CATCH_UP)
        content = GAP if has_gap else b""
        for event in found:
            content += _frame(event)
            if len(content) > PIECE or event is found[-1]:
                await self._write(send, content)
                self._last, content = event.seq, b""
                if self._streams.is_closing:
                    break  # the rest is there when it comes back
        return bool(found)

    async def _write(self, send: Send, content: bytes, *, is_last: bool = False) -> None:
        writing = self._streams.writing
        async with asyncio.timeout(LAST if self._streams.is_closing else SLOW) as write:
            writing.add(write)
            try:
                await send({"type": "http.response.body", "body": content, "more_body": not is_last})
            finally:
                writing.discard(write)


def _frame(event: Event) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.kind.encode(), problems.encode(wire.event(event)))


async def gone(receive: Receive) -> None:
    """Returns when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass

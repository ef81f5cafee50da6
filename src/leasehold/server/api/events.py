"""The history as it grows, for clients that watch it, as server-sent events.

A stream is a place in the history, not a buffer: it takes what is new when its client is ready for more, from the tail
that all streams share, or from the store if that is further back. So a slow client costs only its connection and a
page. It resumes with `Last-Event-ID`.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from leasehold.errors import InvalidInput
from leasehold.routing.cursors import moved, text_of
from leasehold.routing.history import is_of_servers
from leasehold.server.access.shares import Shares, payer
from leasehold.server.api import problems
from leasehold.server.api.problems import Problem
from leasehold.server.api.routes import of_verb
from leasehold.server.api.sse import BEAT, COMMENT, OpenStreams, SseStream, wait_for
from leasehold.server.api.tail import EventTail
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from starlette.types import Receive, Scope, Send

    from leasehold.domain.events import Event
    from leasehold.locks.hosted import Served, Watched
    from leasehold.routing.cursors import Cursor
    from leasehold.server.access.authentication import Authenticator
    from leasehold.server.access.principals import Principal

READERS_EACH = 100
"""Streams that one principal may have open."""
READERS_MOST = 400
"""Streams that may be open in all."""
CATCH_UP = 10_000
"""A client that comes back after more events than this gets a `gap` first."""
POLL_EVERY = 1.0
"""How often a stream without news looks whether its client may still read, in seconds."""
PIECE = 64 * 1024
"""Bytes that are sent at once; the next are made when these are on their way."""
PAUSE = 0.1
"""Between two reads of the store by a stream that the tail does not serve, in seconds."""
NOWHERE = -1
GAP = b"event: gap\ndata: {}\n\n"
ROUTE = of_verb("events", ("too_many",))


class EventStreams(OpenStreams):
    """Every stream of events."""

    verb = ROUTE.verb

    def __init__(self, served: Served, authenticator: Authenticator) -> None:
        super().__init__(authenticator)
        self.served = served
        self.readers = Shares[EventStream](READERS_EACH, READERS_MOST, EventStream.drop, lambda _: False)
        self.tail = EventTail(served)

    def close(self) -> None:
        """End every stream, because the server stops."""
        super().close()
        self.tail.close()

    def _start(self, last: str | None) -> tuple[Cursor, bool]:
        """Return the place after the event with this id, and whether the id comes from another history."""
        history = self.served.history
        newest = history.end()
        if last is None:
            return newest, False
        try:
            start = history.cursor(last)
        except InvalidInput as error:
            raise Problem("invalid", str(error), field=error.field) from None
        # An id that is not there yet comes from another history: the store was replaced, or restored from a copy.
        is_foreign = any(one > other for one, other in zip(start, newest, strict=True))
        return (history.start() if is_foreign else start), is_foreign

    def leave(self, stream: EventStream) -> None:
        """Free the room of a stream."""
        self.readers.leave(stream.payer, stream)
        if not self.readers.taken:
            self.tail.close()

    async def open(self, who: Principal, asked: dict[str, Any], header: str | None) -> EventStream:
        """Return a stream of these events, from after the last one that the client has seen."""
        number = asked.pop("last_event_id")
        last = header if header is not None else None if number is None else str(number)
        query = self.served.watched(**asked)
        start, is_foreign = await asyncio.get_running_loop().run_in_executor(None, self._start, last)
        stream = EventStream(self, payer(who), query, start, has_gap=is_foreign)
        if not self.readers.take(stream.payer, stream):
            raise Problem("too_many", f"you watch {READERS_EACH} streams of events already; close one first")
        try:
            await self.tail.begin()
        except BaseException:
            self.leave(stream)
            raise
        return stream


class EventStream(SseStream):
    """One client."""

    def __init__(self, streams: EventStreams, payer: str, query: Watched, last: Cursor, *, has_gap: bool) -> None:
        super().__init__(streams, query.space)
        self._streams = streams
        self.payer = payer
        """The principal whose share of the streams it is taken from."""
        self._query = query
        self._last = last
        self._place = NOWHERE
        """Its place in the tail, once it has read the store to its end."""
        self._has_gap = has_gap

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until either side ends the stream, or another principal needs the room."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.leave(self)

    async def frames(self) -> AsyncGenerator[bytes]:
        """Yield events, some at a time."""
        if self._has_gap:
            yield GAP
        silent_since = time.monotonic()
        while not self._streams.is_closing:
            read_at, news = time.monotonic(), self._streams.tail.news
            found, has_gap = await self._next()
            content, at = GAP if has_gap else b"", self._last
            for event in found:
                at = moved(at, event.seq)
                told = text_of(at).encode(), event.kind.encode(), problems.encode(wire.event(event))
                content += b"id: %b\nevent: %s\ndata: %s\n\n" % told
                if len(content) > PIECE or event is found[-1]:
                    yield content
                    self._last, content, silent_since = at, b"", read_at
                    if self._streams.is_closing:
                        return  # the client gets the rest when it comes back
            if found:
                continue
            is_silent = read_at - silent_since > BEAT
            yield COMMENT if is_silent else b""
            silent_since = read_at if is_silent else silent_since
            await wait_for(news, POLL_EVERY)
            if self._place == NOWHERE:
                await asyncio.sleep(max(0.0, read_at + PAUSE - time.monotonic()))

    async def _next(self) -> tuple[Sequence[Event], bool]:
        """Return the next events, and whether some before them are left out."""
        tail = self._streams.tail
        end, found = tail.end, tail.after(self._place, self._last, self._query)
        if found is not None:
            self._place = end
            return found, False
        loop, read = asyncio.get_running_loop(), self._streams.served.history.after
        read_now, has_gap = await loop.run_in_executor(None, read, self._last, self._query, CATCH_UP)
        is_at_end = not read_now and not is_of_servers(self._query)  # the tail has none of those
        self._place = end if is_at_end else NOWHERE
        return read_now, has_gap

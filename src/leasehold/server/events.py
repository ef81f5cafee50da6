"""Server-sent events: the history as it grows, for whoever watches.

A reader is a place in the history, not a buffer: what it is sent is read from the store when it is ready for more, so
a slow one costs nothing but its connection, and is dropped after a while. It resumes with `Last-Event-ID`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from leasehold import wire
from leasehold.errors import LeaseholdError
from leasehold.server import answers, problems
from leasehold.server.problems import Problem
from leasehold.server.requests import Watch
from leasehold.server.routes import Route

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Receive, Scope, Send

    from leasehold.model import Event
    from leasehold.served import Served, Watched

READERS_MOST = 200
AT_ONCE = 500
"""A reader is sent at most so many events in one piece."""
CATCH_UP = 10_000
"""Whoever comes back after more events than this is told that there is a gap."""
LOOK_EVERY = 1.0
"""Other processes on the same store do not tell us what they do: look this often, in seconds."""
SLOW = 30.0
"""A reader that has not taken its events for so long is dropped, in seconds."""
ROUTE = Route("GET", "/v1/events", "events", Watch, answers.Event)


class Streams:
    """Everybody who watches."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.readers = 0
        self.is_closing = False
        self._news = asyncio.Event()
        served.watchers.append(self._observe)

    def _observe(self, _events: Sequence[Event]) -> None:
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def close(self) -> None:
        """The server goes away: every stream ends."""
        self.is_closing = True
        self._wake()

    async def news(self) -> None:
        """Returns when something may have happened."""
        try:
            async with asyncio.timeout(LOOK_EVERY):
                await self._news.wait()
        except TimeoutError:
            return

    async def open(self, asked: dict[str, Any], header: str | None) -> Response:
        """A stream of these events, after the one that was seen last."""
        if self.readers >= READERS_MOST:
            raise Problem("too_many", f"{READERS_MOST} are watching already; try again later")
        last = asked.pop("last_event_id")
        if header is not None:
            if not (header.isascii() and header.isdigit() and len(header) < 17):
                raise Problem("invalid", "Last-Event-ID: must be the id of an event", field="last_event_id")
            last = int(header)
        if last is not None and not 0 <= last < 2**53:
            raise Problem("invalid", "last_event_id: must be the id of an event", field="last_event_id")
        query = self.served.watched(**asked)
        loop = asyncio.get_running_loop()
        start = last if last is not None else await loop.run_in_executor(None, self.served.newest)
        return Stream(self, query, start)


class Stream(Response):
    """One reader."""

    media_type = "text/event-stream"

    def __init__(self, streams: Streams, query: Watched, last: int) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._streams = streams
        self._query = query
        self._last = last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 (as ASGI has it)
        """Send what happens until somebody goes away: the reader, or the server."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.ensure_future(self._send_all(send))
        leaving = asyncio.ensure_future(_gone(receive))
        self._streams.readers += 1
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                await send({"type": "http.response.body", "body": b""})
        finally:
            self._streams.readers -= 1
            for task in (sending, leaving):
                task.cancel()

    async def _send_all(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        await self._write(send, b": leasehold\n\n")
        try:
            while not self._streams.is_closing:
                found = await loop.run_in_executor(None, self._streams.served.after, self._last, self._query, CATCH_UP)
                if len(found) == CATCH_UP:
                    await self._write(send, b"event: gap\ndata: {}\n\n")
                for start in range(0, len(found), AT_ONCE):
                    page = found[start : start + AT_ONCE]
                    await self._write(send, b"".join(map(_frame, page)))
                    self._last = page[-1].seq
                await self._streams.news()
        except (LeaseholdError, TimeoutError):
            return  # the store is in trouble, or the reader too slow: it comes back with the last id it saw

    async def _write(self, send: Send, content: bytes) -> None:
        async with asyncio.timeout(SLOW):
            await send({"type": "http.response.body", "body": content, "more_body": True})


def _frame(event: Event) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.kind.encode(), problems.encode(wire.event(event)))


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

"""Streams of server-sent events: sent until the client or the server ends them, each write within a time limit.

A stream outlives the request that opened it, so its caller is identified again with everything that is sent.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, ClassVar

from starlette.requests import Request
from starlette.responses import Response

from leasehold.errors import LeaseholdError
from leasehold.server.access import permissions
from leasehold.server.api.problems import Problem
from leasehold.server.dashboard import login

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import Receive, Scope, Send

    from leasehold.server.access.authentication import Authenticator

log = logging.getLogger("leasehold.server")
BEAT = 15.0
"""A stream with nothing to send sends a comment this often, in seconds, so that proxies keep the connection open."""
SLOW = 30.0
"""A client that reads nothing for so long is disconnected, in seconds."""
LAST = 1.0
"""The same limit while the server stops: other clients' places in a queue must not be lost over a slow reader."""
COMMENT = b":\n\n"
ABORT = "leasehold.abort"
"""The extension of ASGI that closes a connection at once, whatever is still to be sent."""


class OpenStreams:
    """The streams of one kind."""

    verb: ClassVar[str]
    """The verb that a caller must be allowed to call."""

    def __init__(self, authenticator: Authenticator) -> None:
        self.authenticator = authenticator
        self.is_closing = False
        self.writes: set[asyncio.Timeout] = set()
        """The time limit of each write that is under way."""

    def close(self) -> None:
        """End every stream, because the server stops."""
        self.is_closing = True
        soon = asyncio.get_running_loop().time() + LAST
        for write in self.writes:
            if not write.expired():
                write.reschedule(soon)


class SseStream(Response):
    """One stream."""

    media_type = "text/event-stream"

    def __init__(self, streams: OpenStreams, space: str | None) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._all = streams
        self._space = space
        self._is_slow = False
        self._dropped = asyncio.get_running_loop().create_future()

    def frames(self) -> AsyncGenerator[bytes]:
        """Yield what to send next. Yield nothing (b"") now and then, for the caller to be identified again."""
        raise NotImplementedError

    def drop(self) -> None:
        """Disconnect the client: another principal, which has fewer streams, needs the room."""
        if not self._dropped.done():
            self._dropped.set_result(None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until either side ends the stream, or it is dropped."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        sending = asyncio.ensure_future(self._send_all(Request(scope), send))
        leaving = asyncio.ensure_future(gone(receive))
        try:
            await asyncio.wait((sending, leaving, self._dropped), return_when=asyncio.FIRST_COMPLETED)
            if self._is_slow or self._dropped.done():
                scope["extensions"][ABORT]()  # what the client has not read would keep the connection open
                await leaving  # or it would seem that the answer was forgotten
            elif sending.done():
                sending.result()
        finally:
            sending.cancel()
            leaving.cancel()

    async def _send_all(self, request: Request, send: Send) -> None:
        try:
            await self._write(send, b": leasehold\n\n")
            try:
                async with aclosing(self.frames()) as frames:
                    async for content in frames:
                        if not await self._may_read(request):
                            break
                        if content:
                            await self._write(send, content)
            except LeaseholdError as error:
                log.warning("the store cannot be read; a stream ends: %s", error)
            await self._write(send, b"", is_last=True)
        except TimeoutError:
            self._is_slow = True  # the client comes back and says what it saw last

    async def _may_read(self, request: Request) -> bool:
        """True if the client could open this stream now: meanwhile its key may be revoked, or its session over."""
        verb, space, header = self._all.verb, self._space, request.headers.get("authorization")
        try:
            who = await self._all.authenticator.identify(header, space, lambda: login.header_of(request))
            permissions.allow(who, verb)
            return permissions.space_of(who, verb, space) == space
        except Problem:
            return False  # the client learns why when it opens another

    async def _write(self, send: Send, content: bytes, *, is_last: bool = False) -> None:
        async with asyncio.timeout(LAST if self._all.is_closing else SLOW) as write:
            self._all.writes.add(write)
            try:
                await send({"type": "http.response.body", "body": content, "more_body": not is_last})
            finally:
                self._all.writes.discard(write)


async def wait_for(news: asyncio.Event, seconds: float) -> None:
    """Return when there is news, or after so long."""
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return


async def gone(receive: Receive) -> None:
    """Return when the client has disconnected. The body must have been read before."""
    while (await receive())["type"] != "http.disconnect":
        pass

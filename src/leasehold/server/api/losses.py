"""Tell holders which leases were taken from them: one stream for each client, and one look at the history for all.

The events of this process go out at once. Those of other processes on the same store are looked for while somebody
listens, whenever the store says that there may be some.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from starlette.requests import Request
from starlette.responses import Response

from leasehold.domain.events import LOSS_KINDS
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.requests import checks
from leasehold.server.access import permissions
from leasehold.server.api import problems
from leasehold.server.api.events import BEAT, HANG_UP, SLOW, gone
from leasehold.server.api.problems import Problem
from leasehold.server.api.routes import of_verb
from leasehold.server.dashboard import login as signing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Receive, Scope, Send

    from leasehold.domain.events import Event
    from leasehold.locks.hosted import Served
    from leasehold.server.access.keys import Door

log = logging.getLogger("leasehold.server")
STREAMS_MOST = 10_000
HOLDERS_MOST = 64
LEASES_MOST = 1_000
LOOK_EVERY = 0.25
"""Seconds between two looks at what other processes did."""
LAST = 1.0
"""Seconds for a last word when the server stops."""
ROUTE = of_verb("losses", ("too_many",))


class Listener(Protocol):
    """What is told of losses."""

    def wants(self, event: Event) -> bool:
        """Whether it is about a lease that may be this client's."""

    def add(self, frame: bytes) -> None:
        """Send this, as soon as it can be sent."""

    def wake(self) -> None:
        """There is something to send, or an end."""


class Losses:
    """Every stream of losses, and what feeds them."""

    def __init__(self, served: Served, door: Door) -> None:
        self.served = served
        self.door = door
        self.is_closing = False
        self._streams: set[Listener] = set()
        self._looking: asyncio.Task[None] | None = None
        served.watchers.append(self._observe)

    def open(self, asked: dict[str, Any]) -> Response:
        """A stream of what happens from now on."""
        if len(self._streams) >= STREAMS_MOST:
            raise Problem("too_many", f"{STREAMS_MOST} clients are told of losses already; leases are still renewed")
        holders = asked["holders"]
        if holders is not None and len(holders) > HOLDERS_MOST:
            raise Problem("invalid", f"holders: at most {HOLDERS_MOST}; leave them out for all", field="holders")
        if len(asked["leases"]) > LEASES_MOST:
            raise Problem("invalid", f"leases: at most {LEASES_MOST}; renew the others", field="leases")
        try:
            leases = [checks.lease_id(lease) for lease in asked["leases"]]
        except InvalidInput as error:
            raise Problem("invalid", f"leases: {error.message}", field="leases") from None
        return LossStream(self, asked["space"], None if holders is None else frozenset(holders), leases)

    def join(self, stream: Listener) -> None:
        """Tell this one from now on."""
        self._streams.add(stream)
        if self._looking is None and self.served.has_history:
            self._looking = asyncio.ensure_future(self._look())

    def leave(self, stream: Listener) -> None:
        """Its client is gone."""
        self._streams.discard(stream)
        if not self._streams and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def close(self) -> None:
        """The server stops: every stream ends."""
        self.is_closing = True
        for stream in self._streams:
            stream.wake()

    def _observe(self, events: Sequence[Event]) -> None:
        for event in events if self._streams else ():
            if event.kind in LOSS_KINDS:
                self._tell(event)

    def _tell(self, event: Event) -> None:
        frame = b""
        for stream in tuple(self._streams):
            if stream.wants(event):
                frame = frame or _frame(event.lease, event.session if event.lease is None else None)
                stream.add(frame)

    async def _look(self) -> None:
        """What other processes on the same store did. Some of it we did ourselves: to be told twice does no harm."""
        loop = asyncio.get_running_loop()
        mark: object = None
        last: int | None = None
        while True:
            try:
                now = await loop.run_in_executor(None, self.served.loss_mark)
                if now != mark:
                    events = await loop.run_in_executor(None, self.served.recent, last)
                    self._observe(events)
                    mark, last = now, events[0].seq if events else last
            except LeaseholdError as error:
                log.warning("cannot look for lost leases: %s", error)  # the store is in trouble; renewals tell
            await asyncio.sleep(LOOK_EVERY)


class LossStream(Response):
    """One client."""

    media_type = "text/event-stream"

    def __init__(
        self, losses: Losses, space: str | None, holders: frozenset[str] | None, leases: Sequence[str]
    ) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._losses = losses
        self._space = space
        self._holders = holders
        self._leases = leases
        self._content = b""
        self._news = asyncio.Event()

    def wants(self, event: Event) -> bool:
        """Whether it is about a lease that may be this client's."""
        return (self._space is None or event.space == self._space) and (
            self._holders is None or event.holder in self._holders
        )

    def add(self, frame: bytes) -> None:
        """Send this, as soon as it can be sent."""
        self._content += frame
        self.wake()

    def wake(self) -> None:
        """There is something to send, or an end."""
        self._news.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what happens until either side goes away."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        self._losses.join(self)
        sending = asyncio.ensure_future(self._send_all(Request(scope), send))
        leaving = asyncio.ensure_future(gone(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and isinstance(sending.exception(), TimeoutError):
                scope["extensions"][HANG_UP]["now"]()  # what it has not taken would keep the connection open
                await leaving
        finally:
            self._losses.leave(self)
            for task in (sending, leaving):
                task.cancel()

    async def _send_all(self, request: Request, send: Send) -> None:
        await self._write(send, b": leasehold\n\n")
        for lease in await self._not_held():
            self.add(_frame(lease, None))
        while not self._losses.is_closing and await self._may_see(request):
            content, self._content = self._content, b""
            await self._write(send, content or b":\n\n")
            self._news.clear()
            if not self._content:
                await self._heard()
        await self._write(send, b"", is_last=True)

    async def _not_held(self) -> Sequence[str]:
        """Those that were lost before this stream was there."""
        if not self._leases:
            return ()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(None, self._losses.served.ended, self._leases)
        except LeaseholdError:
            return self._leases  # the client asks for each of them

    async def _heard(self) -> None:
        try:
            async with asyncio.timeout(BEAT):
                await self._news.wait()
        except TimeoutError:
            return

    async def _may_see(self, request: Request) -> bool:
        """Whether the client would be let in now: a key may be revoked, a session over."""
        door, verb = self._losses.door, ROUTE.verb
        try:
            who = await door.admit(request.headers.get("authorization"), self._space, lambda: signing.shown(request))
            permissions.allow(who, verb)
            return permissions.space_of(who, verb, self._space) == self._space
        except Problem:
            return False  # it is told why when it opens another one

    async def _write(self, send: Send, content: bytes, *, is_last: bool = False) -> None:
        async with asyncio.timeout(LAST if self._losses.is_closing else SLOW):
            await send({"type": "http.response.body", "body": content, "more_body": not is_last})


def _frame(lease: str | None, session: str | None) -> bytes:
    return b"event: loss\ndata: %b\n\n" % problems.encode({"lease": lease, "session": session})

"""Tell holders which leases they lost: one stream for each client, and one reader of the history for all.

The events of this process go out at once. Those of other processes on the same store are read while a client listens,
whenever the store says that there may be some.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from leasehold.domain.events import LOSS_KINDS
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.requests import checks
from leasehold.server.access.shares import Shares, payer
from leasehold.server.api import problems
from leasehold.server.api.problems import Problem
from leasehold.server.api.routes import of_verb
from leasehold.server.api.sse import BEAT, COMMENT, OpenStreams, SseStream, wait_for

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from starlette.types import Receive, Scope, Send

    from leasehold.domain.events import Event
    from leasehold.locks.hosted import Served
    from leasehold.routing.cursors import Cursor
    from leasehold.server.access.authentication import Authenticator
    from leasehold.server.access.principals import Principal

log = logging.getLogger("leasehold.server")
STREAMS_EACH, STREAMS_MOST = 5_000, 10_000
"""Streams that may be open, for one principal and in all. A client has one, however many leases it holds."""
HOLDERS_MOST = 64
LEASES_MOST = 1_000
POLL_EVERY = 0.25
"""Seconds between two reads of what other processes did."""
ROUTE = of_verb("losses", ("too_many",))


class LossListener(Protocol):
    """Receives the events by which leases are lost."""

    def notify(self, event: Event) -> None:
        """Take note of an event."""


class LossStreams(OpenStreams):
    """Every stream of losses, and what feeds them."""

    verb = ROUTE.verb

    def __init__(self, served: Served, authenticator: Authenticator) -> None:
        super().__init__(authenticator)
        self.served = served
        self.readers = Shares[LossStream](STREAMS_EACH, STREAMS_MOST, LossStream.drop, lambda _: False)
        self._listeners: dict[LossListener, None] = {}
        self._polling: asyncio.Task[None] | None = None

    def open(self, who: Principal, asked: dict[str, Any]) -> LossStream:
        """Return a stream of what happens from now on."""
        holders = asked["holders"]
        if holders is not None and len(holders) > HOLDERS_MOST:
            raise Problem("invalid", f"holders: at most {HOLDERS_MOST}; leave them out for all", field="holders")
        if len(asked["leases"]) > LEASES_MOST:
            raise Problem("invalid", f"leases: at most {LEASES_MOST}; renew the others", field="leases")
        try:
            leases = [checks.lease_id(lease) for lease in asked["leases"]]
        except InvalidInput as error:
            raise Problem("invalid", f"leases: {error.message}", field="leases") from None
        chosen = None if holders is None else frozenset(holders)
        stream = LossStream(self, payer(who), asked["space"], chosen, leases)
        if not self.readers.take(stream.payer, stream):
            told = f"you have {STREAMS_EACH} streams of losses open already; renewals still report losses"
            raise Problem("too_many", told)
        return stream

    def join(self, listener: LossListener) -> None:
        """Notify this listener from now on."""
        if not self._listeners:
            self.served.watch(self._observe, LOSS_KINDS)
        self._listeners[listener] = None
        if self._polling is None and self.served.has_history:
            self._polling = asyncio.ensure_future(self._poll())

    def leave(self, listener: LossListener) -> None:
        """Stop notifying this listener."""
        self._listeners.pop(listener, None)
        if not self._listeners:
            self.served.unwatch(self._observe)
            if self._polling is not None:
                self._polling.cancel()
                self._polling = None

    def close(self) -> None:
        """End every stream, because the server stops."""
        super().close()
        for listener in self._listeners:
            if isinstance(listener, LossStream):
                listener.news.set()

    def _observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.kind in LOSS_KINDS:
                for listener in tuple(self._listeners):
                    listener.notify(event)

    async def _poll(self) -> None:
        """Read what other processes did. Some of it this process did itself: a loss may be reported twice."""
        loop = asyncio.get_running_loop()
        mark: object = None
        last: Cursor | None = None
        while True:
            try:
                now = await loop.run_in_executor(None, self.served.loss_mark)
                if now != mark:
                    events, place = await loop.run_in_executor(None, self.served.history.recent, last)
                    self._observe(events)
                    mark, last = now, place
            except LeaseholdError as error:
                log.warning("cannot read which leases were lost, renewals report it: %s", error)
            await asyncio.sleep(POLL_EVERY)


class LossStream(SseStream):
    """One client."""

    def __init__(
        self,
        streams: LossStreams,
        payer: str,
        space: str | None,
        holders: frozenset[str] | None,
        leases: Sequence[str],
    ) -> None:
        super().__init__(streams, space)
        self._streams = streams
        self.payer = payer
        """The principal whose share of the streams it is taken from."""
        self._holders = holders
        self._leases = leases
        self._content = b""
        self.news = asyncio.Event()
        """Set when there is something to send, or the server stops."""

    def notify(self, event: Event) -> None:
        """Send an event that may be about a lease of this client."""
        is_here = self._space is None or event.space == self._space
        if is_here and (self._holders is None or event.holder in self._holders):
            self._content += _frame(event.lease, event.session if event.lease is None else None)
            self.news.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send losses until either side ends the stream, or another principal needs the room."""
        self._streams.join(self)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.leave(self)
            self._streams.readers.leave(self.payer, self)

    async def frames(self) -> AsyncGenerator[bytes]:
        """Yield losses, those first that happened before the stream was opened."""
        for lease in await self._lost_before():
            self._content += _frame(lease, None)
        while not self._streams.is_closing:
            content, self._content = self._content, b""
            yield content or COMMENT
            self.news.clear()
            if not self._content:
                await wait_for(self.news, BEAT)

    async def _lost_before(self) -> Sequence[str]:
        if not self._leases:
            return ()
        try:
            return await asyncio.get_running_loop().run_in_executor(None, self._streams.served.ended, self._leases)
        except LeaseholdError:
            return self._leases  # the client asks for each of them


def _frame(lease: str | None, session: str | None) -> bytes:
    return b"event: loss\ndata: %b\n\n" % problems.encode({"lease": lease, "session": session})

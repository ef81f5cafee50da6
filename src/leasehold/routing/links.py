"""Connections to the other servers of a store: one for each request under way, kept for the next one.

A server that does not answer in time, or refuses connections, is silent until it answers again: nothing is handed on
to it, and what waits there is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from leasehold.client.aio import connected
from leasehold.client.messages import address_of
from leasehold.errors import InvalidInput, LeaseholdError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    from leasehold.client.aio import AsyncConnection
    from leasehold.client.messages import AnswerHead
    from leasehold.routing.owning import Peer

    Heard: TypeAlias = Callable[["Exchange", "tuple[AnswerHead, bytes] | Exception"], None]

log = logging.getLogger("leasehold.server")
SILENCE = 0.5
"""Seconds after which an answer counts as missing."""
IDLE_MOST = 256
"""Most idle connections to one server."""
NOT_SENT = (ConnectionRefusedError,)


class Exchange:
    """One request on its way to another server."""

    __slots__ = ("_heard", "_link", "_over", "_time_out", "connection", "data", "is_open", "is_sent", "waits")

    def __init__(self, link: PeerLink, data: bytes, time_out: float, heard: Heard, *, waits: bool) -> None:
        self._link = link
        self._time_out = time_out
        self._heard = heard
        self.data = data
        self.waits = waits
        """True if it may be answered late: then the server is asked meanwhile whether it is there."""
        self.connection: AsyncConnection | None = None
        self.is_sent = False
        """True once it may have had an effect."""
        self.is_open = True
        self._over: asyncio.Future[None] | None = None

    @property
    def over(self) -> asyncio.Future[None]:
        """Done once it is over."""
        if self._over is None:
            self._over = asyncio.get_running_loop().create_future()
        return self._over

    def begin(self, connection: AsyncConnection) -> None:
        """Send it over this connection."""
        self.connection = connection
        try:
            answer = connection.ask(self.data, self._time_out)
        except OSError as error:
            self.end(error)
            return
        self.is_sent = True
        answer.add_done_callback(self._answered)

    def _answered(self, answer: asyncio.Future[tuple[AnswerHead, bytes]]) -> None:
        error = answer.exception()
        self.end(answer.result() if error is None else error)

    def end(self, outcome: tuple[AnswerHead, bytes] | BaseException) -> None:
        """Report the answer or the failure, once."""
        if not self.is_open:
            return
        self.is_open = False
        if self._over is not None:
            self._over.set_result(None)
        self._link.ended(self, outcome)
        try:
            self._heard(self, outcome if not isinstance(outcome, BaseException) else _error(outcome))
        except Exception:
            log.exception("an answer of another server could not be passed on")

    def give_up(self, why: Exception) -> None:
        """Give it up, and close its connection, unless it is over."""
        if not self.is_open:
            return
        connection = self.connection
        self.end(why)
        if connection is not None:
            connection.disconnect()


def _error(outcome: BaseException) -> Exception:
    return outcome if isinstance(outcome, Exception) else ConnectionAbortedError("given up")


class PeerLink:
    """The connections to one other server."""

    def __init__(self, peer: Peer, loop: asyncio.AbstractEventLoop) -> None:
        self.peer = peer
        self.base = base = address_of(peer.address)
        self.url = f"{'https' if base.tls else 'http'}://{base.name}"
        self.is_silent = False
        self.heads: dict[tuple[str, str | None], bytes] = {}
        """The start of the head of a request, by path and credential."""
        self._loop = loop
        self._idle: list[AsyncConnection] = []
        self._exchanges: set[Exchange] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._asking: Exchange | None = None

    def send(self, data: bytes, heard: Heard, *, waits: float | None = None, is_probe: bool = False) -> Exchange:
        """Send a request; `heard` is called with its answer, or with an error. `waits`: how long it may take."""
        time_out = SILENCE if waits is None else waits + SILENCE
        exchange = Exchange(self, data, time_out, heard, waits=waits is not None)
        self._exchanges.add(exchange)
        connection = None if is_probe else self._kept()
        if connection is not None:
            exchange.begin(connection)
        else:
            task = self._loop.create_task(self._connect(exchange))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return exchange

    def _kept(self) -> AsyncConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
        return None

    async def _connect(self, exchange: Exchange) -> None:
        try:
            async with asyncio.timeout(SILENCE):
                connection = await connected(self.base)
        except (OSError, LeaseholdError) as error:
            exchange.end(error)
            return
        if exchange.is_open:
            exchange.begin(connection)
        else:
            self._keep(connection)

    def _keep(self, connection: AsyncConnection) -> None:
        if connection.is_open and len(self._idle) < IDLE_MOST:
            self._idle.append(connection)
        else:
            connection.disconnect()

    def ended(self, exchange: Exchange, outcome: object) -> None:
        """Keep the connection of an exchange that is over; without an answer, the server is silent."""
        self._exchanges.discard(exchange)
        connection = exchange.connection
        if isinstance(outcome, BaseException):
            if connection is not None:
                connection.disconnect()
            if isinstance(outcome, OSError):  # a time-out is one, too
                self._note_silence()
        elif connection is not None:
            self._keep(connection)

    # ------------------------------------------------------------------------------------- is it there?

    def _note_silence(self) -> None:
        """Decide elsewhere what waits there. See `probe`."""
        if self.is_silent:
            return
        self.is_silent = True
        log.warning("another server does not answer", extra={"server": self.peer.address})
        for exchange in [each for each in self._exchanges if each.waits]:
            exchange.give_up(TimeoutError("the server is silent"))
        self.probe()  # perhaps only this connection broke

    def probe(self) -> None:
        """Ask whether it is there, if it is silent or something waits there. Called with each heartbeat."""
        if self._asking is not None or not (self.is_silent or any(each.waits for each in self._exchanges)):
            return
        head = f"GET /healthz HTTP/1.1\r\nHost: {self.base.name}\r\n\r\n".encode()
        self._asking = self.send(head, self._is_there, is_probe=self.is_silent)

    def _is_there(self, _: Exchange, outcome: object) -> None:
        self._asking = None
        if not isinstance(outcome, Exception) and self.is_silent:
            self.is_silent = False
            log.info("another server answers again", extra={"server": self.peer.address})

    @property
    def is_used(self) -> bool:
        """True while a request is under way there."""
        return bool(self._exchanges)

    async def flush(self) -> None:
        """Wait a moment for what is answered at once."""
        soon = [each.over for each in self._exchanges if not each.waits]
        if soon:
            await asyncio.wait(soon, timeout=SILENCE)

    def close(self) -> None:
        """Close all connections. Requests that wait there keep their places for a while."""
        for task in self._tasks:
            task.cancel()
        for exchange in [*self._exchanges]:
            exchange.is_open = False
            if exchange.connection is not None:
                exchange.connection.disconnect()
        self._exchanges.clear()
        for connection in self._idle:
            connection.disconnect()
        self._idle.clear()


# ------------------------------------------------------------------------------------- who is trusted


def is_trusted(address: str, own: str, named: Iterable[str]) -> bool:
    """Return True if this address, which the store names, may be sent the credentials of callers.

    Either the configuration names it; or, if that names no server, it is https, whose certificate is verified, or it
    is on this machine, as our own is.
    """
    try:
        place = _place(address)
    except InvalidInput:
        return False
    known = [_place(each) for each in named]
    if known:
        return place in known
    parts = urlsplit(address)
    return parts.scheme == "https" or (is_here(address) and is_here(own))


def is_here(address: str) -> bool:
    """Return True if this address cannot be reached from other machines."""
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _place(address: str) -> tuple[str, str, int]:
    base = address_of(address)
    return ("https" if base.tls else "http", base.host.lower(), base.port)


def checked_address(address: str, field: str) -> str:
    """Return the address of a server, without a slash at its end."""
    try:
        base = address_of(address)
    except InvalidInput as error:
        raise InvalidInput(field, error.message) from None
    if base.path:
        raise InvalidInput(field, "must not have a path")
    return address.rstrip("/")

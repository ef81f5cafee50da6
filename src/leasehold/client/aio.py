"""Answers from a server, for coroutines: a connection a request under way, kept alive for the next one."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, cast

from leasehold.client.deciding import GOING_AWAY, Again, Errand, NotSent
from leasehold.client.messages import END, HEAD_MOST, Base, Head, bases, body_of, parse_head, render, token
from leasehold.errors import Closed, Unreachable

if TYPE_CHECKING:
    from leasehold.calls import Call
    from leasehold.client.encoding import Request

CONNECT_WITHIN = 5.0
CLOSED = "these locks are closed; connect again"
IDLE_MOST = 256
"""So many idle connections are kept."""


class Connection(asyncio.Protocol):
    """One connection: one request at a time, and the answer to it."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self.is_open = False
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._head: Head | None = None
        self._answer: asyncio.Future[tuple[Head, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The server is there."""
        self._transport = cast("asyncio.Transport", transport)  # an event loop's own, such as uvloop's, is no subclass
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        """The server is gone."""
        self.is_open = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the server closed the connection"))

    async def ask(self, data: bytes, time_out: float) -> tuple[Head, bytes]:
        """Send a request; what comes back is its answer."""
        if self._transport is None or not self.is_open:
            raise ConnectionResetError("the server closed the connection")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[Head, bytes]] = loop.create_future()
        self._answer = answer
        self._received, self._head = b"", None
        timer = loop.call_later(time_out, _too_late, answer)  # `asyncio.timeout` costs three times as much
        self._transport.write(data)
        try:
            return await answer
        finally:
            timer.cancel()

    def data_received(self, data: bytes) -> None:
        """A part of the answer."""
        self._received = self._received + data if self._received else data
        if self._answer is None or self._answer.done():
            self.hang_up()  # nobody asked
            return
        try:
            self._read(self._answer)
        except Unreachable as error:
            self._answer.set_exception(error)
            self.hang_up()

    def _read(self, answer: asyncio.Future[tuple[Head, bytes]]) -> None:
        if self._head is None:
            end = self._received.find(END)
            if end < 0:
                if len(self._received) > HEAD_MOST:
                    raise Unreachable("what answers there is not a Leasehold server: its answer does not begin")
                return
            self._head = parse_head(self._received[:end])
            self._received = self._received[end + len(END) :]
        if len(self._received) >= self._head.length:
            answer.set_result((self._head, self._received[: self._head.length]))
            if not self._head.keeps:
                self.hang_up()

    def hang_up(self) -> None:
        """Close; a request under way is given up, and the server notices."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()


def _too_late(answer: asyncio.Future[tuple[Head, bytes]]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError("the server did not answer in time"))


class AsyncHttpAnswers:
    """A client of one Leasehold, wherever it is served."""

    def __init__(self, bases: tuple[Base, ...], token: str | None) -> None:
        self._bases = bases
        self._token = token
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._closed = False
        self._first = 0

    async def ask(self, call: Call) -> Any:  # noqa: ANN401 (see `locks.Answers`)
        """The answer to this call; a task that is cancelled hangs up, and so leaves the queue."""
        if self._closed:
            raise Closed(CLOSED)
        errand = Errand(call, time.monotonic())
        refused = errand.refused()
        if refused is not None:
            return refused
        todo: Again = Again(errand.next, 0.0)
        while True:
            if todo.pause:
                await asyncio.sleep(todo.pause)
                if self._closed:
                    raise Closed(CLOSED)
            try:
                head, data = await self._exchange(todo.request, errand.time_out())
            except (OSError, Unreachable) as error:
                self._first += 1
                todo = errand.failed(error, time.monotonic(), was_sent=not isinstance(error, NotSent))
                continue
            outcome = errand.answered(head.status, body_of(data), head.retry_after, time.monotonic())
            if not isinstance(outcome, Again):
                return outcome
            self._first += head.status == GOING_AWAY
            todo = outcome

    async def _exchange(self, request: Request, time_out: float) -> tuple[Head, bytes]:
        base = self._bases[self._first % len(self._bases)]
        connection = await self._connection(base)
        self._busy.add(connection)
        try:
            answer = await connection.ask(render(request, base, self._token), time_out)
        except BaseException as error:
            connection.hang_up()
            if self._closed and isinstance(error, OSError):
                raise Closed(CLOSED) from None
            raise
        finally:
            self._busy.discard(connection)
        if connection.is_open and len(self._idle) < IDLE_MOST and not self._closed:
            self._idle.append(connection)
        else:
            connection.hang_up()
        return answer

    async def _connection(self, base: Base) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and connection.base == base:
                return connection
            connection.hang_up()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_WITHIN):
                _, connection = await loop.create_connection(
                    lambda: Connection(base), base.host, base.port, ssl=True if base.tls else None
                )
        except OSError as error:
            raise NotSent(f"{base.name}: {str(error) or type(error).__name__}") from error
        return connection

    async def close(self) -> None:
        """Hang up; whoever still waits is told so, and leaves the queue."""
        self._closed = True
        for connection in (*self._idle, *self._busy):
            connection.hang_up()
        self._idle.clear()


def async_http_answers(url: str, api_key: str | None) -> AsyncHttpAnswers:
    """A client of the servers at this URL."""
    return AsyncHttpAnswers(bases(url), token(api_key, url))

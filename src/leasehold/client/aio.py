"""The client for coroutines: one connection for each concurrent request, kept alive for the next one."""

from __future__ import annotations

import asyncio
import math
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from leasehold.client import forking
from leasehold.client.batching import Gathering, HttpReply
from leasehold.client.deciding import GOING_AWAY, HUNG_UP, NoAnswer, NotSent, PendingCall, Resend, connect_within, told
from leasehold.client.following import Owners
from leasehold.client.messages import END, HEAD_MOST, AnswerHead, ServerAddress, bases, body_of, parse_head, render
from leasehold.client.sync import losses_of
from leasehold.client.unexpected import explained
from leasehold.errors import CLOSED, Closed, LeaseholdError, Unreachable
from leasehold.requests.calls import Call
from leasehold.steps import drive_async

if TYPE_CHECKING:
    from typing import TypeAlias

    from leasehold.client.encoding import HttpRequest
    from leasehold.client.framing import Reader
    from leasehold.requests.calls import LossSource

    Answer: TypeAlias = asyncio.Future[tuple[AnswerHead, bytes]]

IDLE_MOST = 256
"""Most idle connections to keep."""


class AsyncConnection(asyncio.Protocol):
    """One connection to one server: one request at a time."""

    def __init__(self, base: ServerAddress, loop: asyncio.AbstractEventLoop) -> None:
        self.base = base
        self.is_open = False
        self._loop = loop  # `asyncio.get_running_loop` makes a system call each time
        self._transport: asyncio.Transport | None = None
        self._pieces: list[bytes] = []
        """The parts of an answer that arrives in pieces."""
        self._missing = 0
        """Bytes of it that are missing, at least."""
        self._reader: Reader | None = None
        """Reads an answer without a length."""
        self._answer: Answer | None = None
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = math.inf
        """When the timer fires. It is kept for later requests: setting one costs as much as sending a request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the connection is open."""
        self._transport = cast("asyncio.Transport", transport)  # an event loop's own, such as uvloop's, is no subclass
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request under way, or end an answer that ends with the connection."""
        self.is_open = False
        self._stop_timer()
        if self._answer is None or self._answer.done():
            return
        if exc is not None or self._reader is None:
            self._answer.set_exception(exc or ConnectionResetError(HUNG_UP))
            return
        try:
            self._answer.set_result(self._reader.end())
        except ConnectionResetError as error:
            self._answer.set_exception(error)

    @property
    def is_usable(self) -> bool:
        """Return True if a request can be sent: the connection is open, and so is its event loop."""
        return self.is_open and not self._loop.is_closed()

    def ask(self, data: bytes, time_out: float) -> Answer:
        """Send a request; the future gets its answer."""
        if self._transport is None or not self.is_open:
            raise ConnectionResetError(HUNG_UP)
        self._answer = answer = self._loop.create_future()
        self._deadline = self._loop.time() + time_out
        if self._deadline < self._looks_at:
            self._look_at(self._deadline)
        self._transport.write(data)
        return answer

    # ------------------------------------------------------------------------------------------ in time

    def _look_at(self, at: float) -> None:
        self._stop_timer()
        self._looks_at = at
        self._timer = self._loop.call_at(at, self._look)

    def _look(self) -> None:
        """Time out the request under way, if it is due: a later one may be under way by now."""
        self._timer, self._looks_at = None, math.inf
        if self._answer is None or self._answer.done():
            return
        if self._loop.time() < self._deadline:
            self._look_at(self._deadline)
        else:
            self._answer.set_exception(TimeoutError("the server did not answer in time"))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._looks_at = None, math.inf

    # -------------------------------------------------------------------------------------- the answer

    def data_received(self, data: bytes) -> None:
        """Take the answer, or a piece of it."""
        if self._answer is None or self._answer.done():
            self.disconnect()  # no request is under way
            return
        if self._pieces and self._reader is None:
            self._missing -= len(data)
            self._pieces.append(data)
            if self._missing > 0:
                return
            data = b"".join(self._pieces)
        try:
            if self._reader is None:
                self._read(data, self._answer)
            else:
                self._read_on(self._reader, data, self._answer)
        except Unreachable as error:
            self._answer.set_exception(error)
            self.disconnect()

    def _read(self, data: bytes, answer: Answer) -> None:
        """Take the first bytes of an answer. Resolve the request if they are whole; otherwise wait for the rest."""
        end = data.find(END)
        if end < 0:
            if len(data) > HEAD_MOST:
                raise Unreachable("what answers there is not a Leasehold server: its answer does not begin")
            self._pieces = [data]
            return
        head = parse_head(data[:end])
        if head.length < 0:
            from leasehold.client.framing import Reader  # noqa: PLC0415 (our own server sends a length)

            self._pieces, self._reader = [], Reader()
            self._read_on(self._reader, data, answer)
            return
        begin = end + len(END)
        self._missing = begin + head.length - len(data)
        if self._missing > 0:
            self._pieces = [data]
            return
        self._pieces = []
        answer.set_result((head, data[begin : begin + head.length]))
        if self._missing or not head.keeps:  # what came after it nobody asked for
            self.disconnect()

    def _read_on(self, reader: Reader, data: bytes, answer: Answer) -> None:
        whole = reader.feed(data)
        if whole is None:
            return
        self._reader = None
        answer.set_result(whole)
        if not reader.keeps:
            self.disconnect()

    def disconnect(self) -> None:
        """Close the connection, and give up a request under way; the server notices."""
        self.is_open = False
        self._reader = None  # an answer that we cut off ourselves is not whole
        self._stop_timer()
        if self._transport is None:
            return
        if not self._loop.is_closed():
            self._transport.abort()
            return
        line = self._transport.get_extra_info("socket")  # its loop is over and closes nothing any more
        if line is not None:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)


class AsyncHttpAnswers:
    """A client of one Leasehold, served by one or several servers."""

    def __init__(self, bases: tuple[ServerAddress, ...], patience: float | None = None) -> None:
        self._bases = bases
        self._patience = patience
        self._idle: list[AsyncConnection] = []
        self._busy: set[AsyncConnection] = set()
        self._closed = False
        self._first = 0
        self._owners = Owners(bases)
        self._heard_at = -math.inf
        """When a server answered last."""
        self._under_way = 0
        self._gathering = Gathering(self._exchange, self._undo)
        self._undoing: set[asyncio.Task[None]] = set()
        self._is_key = all(base.token is None or base.token.startswith("lh_") for base in bases)
        """True without a session: in a batch, the server would not know the session's space."""
        self._inherited: list[AsyncConnection] = []
        """The parent's connections: kept from the garbage collector, and never used."""
        forking.note(self)

    def forget_connections(self) -> None:
        """Set the parent's connections aside in this forked child: closing one would disturb the parent's loop."""
        self._inherited += [*self._idle, *self._busy]
        self._idle, self._busy = [], set()

    async def ask(self, call: Call) -> Any:  # noqa: ANN401 (see `calls.Answers`)
        """Return the answer to this call; a cancelled task disconnects, and so leaves the queue."""
        if self._closed:
            raise Closed(CLOSED)
        pending = PendingCall(call, time.monotonic(), len(self._bases), self._heard_at, self._patience)
        self._under_way += 1
        try:
            return await self._pursue(pending)
        except Unreachable:
            await self._give_up(pending)
            raise
        finally:
            self._under_way -= 1

    async def _give_up(self, pending: PendingCall) -> None:
        """Cancel a request that may have been granted, as no caller would have the token of that lease."""
        steps = pending.undo()
        if steps is None:
            return
        until = time.monotonic() + pending.time_out

        async def perform(request: HttpRequest) -> dict[str, Any]:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            return body_of(*await self._exchange(request, left))

        with suppress(OSError, LeaseholdError):  # the caller gets the first error; the lease expires by itself
            await drive_async(steps, perform)

    async def _pursue(self, pending: PendingCall) -> Any:  # noqa: ANN401 (see `ask`)
        """Send the request, again if `PendingCall` says so, until it has an outcome."""
        while True:
            asked_of = self._first
            try:
                status, body, retry_after = await self._reply(pending.next, pending.time_out)
            except (OSError, Unreachable) as error:
                self._turn_from(asked_of)
                why = explained(error, self._bases[asked_of % len(self._bases)])
                again = pending.failed(why, time.monotonic(), was_sent=not isinstance(error, NotSent))
            else:
                self._heard_at = now = time.monotonic()
                outcome = pending.answered(status, body, retry_after, now)
                if not isinstance(outcome, Resend):
                    return outcome
                if status == GOING_AWAY:
                    self._turn_from(asked_of)
                again = outcome
            if again.pause:
                await asyncio.sleep(again.pause)
                if self._closed:
                    raise Closed(CLOSED)

    def _turn_from(self, server: int) -> None:
        """Switch to the next server, unless another task already has."""
        if self._first == server:
            self._first += 1

    async def _reply(self, request: HttpRequest, time_out: float) -> HttpReply:
        if self._under_way > 1 and self._is_key and self._gathering.takes(request):
            return await self._gathering.ask(request)
        head, data = await self._exchange(request, time_out)
        if head.owner:
            place = self._owners.place(head.owner, time.monotonic())
            if place is not None:  # the owner of the lane is configured: this server only hands requests on to it
                self._first = place
        return HttpReply(head.status, body_of(head, data), head.retry_after)

    def _undo(self, request: HttpRequest, granted: dict[str, Any]) -> None:
        """Release a grant whose caller was cancelled: its request could not disconnect, as it carried other calls."""
        task = asyncio.get_running_loop().create_task(self._release_unread(request.body or {}, granted))
        self._undoing.add(task)
        task.add_done_callback(self._undoing.discard)

    async def _release_unread(self, asked: dict[str, Any], granted: dict[str, Any]) -> None:
        if granted["fresh"]:
            shown = {"lease": granted["lease"]["id"], "token": granted["token"], "status": "cancelled"}
            call = Call("release", {**shown, "error": "its client went away", "session": asked.get("session")})
        else:  # it had this lease before, or asked twice: the server knows which
            told = {field: asked.get(field) for field in ("request_id", "holder", "session", "space")}
            call = Call("cancel", {**told, "token": granted["token"]})
        with suppress(LeaseholdError):  # the lease expires by itself
            await self.ask(call)

    async def _exchange(self, request: HttpRequest, time_out: float) -> tuple[AnswerHead, bytes]:
        """Send a request on an idle connection or a new one, and keep the connection if it can be used again."""
        base = self._bases[self._first % len(self._bases)]
        connection = self._kept(base) or await self._connected(base)
        if self._closed:  # meanwhile
            connection.disconnect()
            raise Closed(CLOSED)
        self._busy.add(connection)
        try:
            answer = await connection.ask(render(request, base), time_out)
        except BaseException as error:
            connection.disconnect()
            if not isinstance(error, OSError):
                raise
            if self._closed:
                raise Closed(CLOSED) from None
            raise NoAnswer(told(base.first, error)) from error
        finally:
            self._busy.discard(connection)
        if connection.is_open and len(self._idle) < IDLE_MOST and not self._closed:
            self._idle.append(connection)
        else:
            connection.disconnect()
        return answer

    def _kept(self, base: ServerAddress) -> AsyncConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and connection.base == base:
                return connection
            connection.disconnect()
        return None

    async def _connected(self, base: ServerAddress) -> AsyncConnection:
        try:
            async with asyncio.timeout(connect_within(self._patience)):
                return await (_through_tunnel(base) if base.via is not None and base.tls else connected(base))
        except OSError as error:
            raise NotSent(told(base.first, error)) from error

    def losses(self) -> LossSource:
        """Return what reports held leases that may be lost."""
        return losses_of(self._bases)

    async def close(self) -> None:
        """Close all connections; waiting calls fail, and leave the queue."""
        if self._undoing:
            await asyncio.wait(self._undoing, timeout=connect_within(self._patience))
        self._closed = True
        for connection in (*self._idle, *self._busy):
            connection.disconnect()
        self._idle.clear()


async def connected(base: ServerAddress) -> AsyncConnection:
    """Connect to the server, or to a proxy that forwards each request."""
    loop = asyncio.get_running_loop()
    host, port = (base.host, base.port) if base.via is None else (base.via.host, base.via.port)
    _, connection = await loop.create_connection(
        lambda: AsyncConnection(base, loop), host, port, ssl=True if base.tls else None
    )
    return connection


async def _through_tunnel(base: ServerAddress) -> AsyncConnection:
    """Connect through a tunnel of a proxy, which a thread asks for."""
    from leasehold.client.sync import connected  # noqa: PLC0415 (only for those who have a proxy)

    loop = asyncio.get_running_loop()
    line = await loop.run_in_executor(None, connected, base)
    try:
        line.setblocking(False)
        _, connection = await loop.create_connection(
            lambda: AsyncConnection(base, loop), sock=line, ssl=True, server_hostname=base.host
        )
    except BaseException:
        line.close()
        raise
    return connection


def async_http_answers(url: str, api_key: str | None, patience: float | None = None) -> AsyncHttpAnswers:
    """Return a client of the servers at this URL; `patience` as for `http_answers`."""
    return AsyncHttpAnswers(bases(url, api_key), patience)

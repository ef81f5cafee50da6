"""The client for plain code: connections that are kept alive, with fail-over between servers."""

from __future__ import annotations

import math
import socket
import threading
import time
from contextlib import suppress
from select import POLLIN, poll
from typing import TYPE_CHECKING, Any

from leasehold.client import forking
from leasehold.client.deciding import GOING_AWAY, HUNG_UP, NoAnswer, NotSent, PendingCall, Resend, connect_within, told
from leasehold.client.following import Owners
from leasehold.client.messages import END, HEAD_MOST, AnswerHead, ServerAddress, bases, body_of, parse_head, render
from leasehold.client.unexpected import explained
from leasehold.errors import CLOSED, Closed, LeaseholdError, Unreachable
from leasehold.steps import drive

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.client.encoding import HttpRequest
    from leasehold.requests.calls import Call, LossSource

PROGRESS_EVERY = 50
"""Milliseconds between two calls of `progress`."""


class SyncConnection:
    """One connection to one server: one request at a time."""

    def __init__(self, base: ServerAddress, patience: float | None = None) -> None:
        self.base = base
        self.keeps = True
        """True if it can be used again."""
        self._socket = _connect(base, patience)

    def exchange(
        self, data: bytes, time_out: float, progress: Callable[[], None] | None = None
    ) -> tuple[AnswerHead, bytes]:
        """Send a request and return its answer; until it arrives, call `progress` repeatedly."""
        self._socket.settimeout(time_out)
        self._socket.sendall(data)
        if progress is not None:
            self._show(progress, time.monotonic() + time_out)
        received = b""
        while (end := received.find(END)) < 0:
            received += self._receive()
            if len(received) > HEAD_MOST:
                raise Unreachable("what answers there is not a Leasehold server: its answer does not begin")
        head = parse_head(received[:end])
        if head.length < 0:
            return self._read(received)
        body = received[end + len(END) :]
        while len(body) < head.length:
            body += self._receive()
        self.keeps = head.keeps and len(body) == head.length  # what came after it nobody asked for
        return head, body[: head.length]

    def _read(self, received: bytes) -> tuple[AnswerHead, bytes]:
        """Read an answer without a length."""
        from leasehold.client.framing import Reader  # noqa: PLC0415 (our own server sends a length)

        reader = Reader()
        answer = reader.feed(received)
        while answer is None:
            data = self._socket.recv(65_536)
            answer = reader.feed(data) if data else reader.end()
        self.keeps = reader.keeps
        return answer

    def _receive(self) -> bytes:
        data = self._socket.recv(65_536)
        if not data:
            raise ConnectionResetError(HUNG_UP)
        return data

    def send(self, data: bytes, time_out: float) -> None:
        """Send a request whose answer is read piece by piece."""
        self._socket.settimeout(time_out)
        self._socket.sendall(data)

    def receive(self, seconds: float) -> bytes | None:
        """Return the next bytes; None if none arrive within so many seconds."""
        self._socket.settimeout(seconds)
        try:
            return self._receive()
        except TimeoutError:
            return None

    def _show(self, progress: Callable[[], None], until: float) -> None:
        looking = poll()
        looking.register(self._socket, POLLIN)
        while not looking.poll(PROGRESS_EVERY):
            if time.monotonic() >= until:
                raise TimeoutError("timed out")
            progress()

    @property
    def is_stale(self) -> bool:
        """Return True if the server has closed it meanwhile, or has sent an unexpected answer."""
        looking = poll()
        looking.register(self._socket, POLLIN)
        return bool(looking.poll(0))

    def interrupt(self) -> None:
        """Make a thread that reads from it stop. Called from another thread."""
        with suppress(OSError):  # it has just been closed by the other side
            self._socket.shutdown(socket.SHUT_RDWR)

    def disconnect(self) -> None:
        """Close it."""
        self._socket.close()


class HttpAnswers:
    """A client of one Leasehold, served by one or several servers."""

    def __init__(
        self,
        bases: tuple[ServerAddress, ...],
        progress: Callable[[], None] | None = None,
        patience: float | None = None,
    ) -> None:
        self._bases = bases
        self._patience = patience
        self._progress = progress
        """Called repeatedly while a call waits in a queue."""
        self._changing = threading.Lock()
        self._idle: list[SyncConnection] = []
        self._busy: set[SyncConnection] = set()
        self._closed = False
        self._first = 0
        """Index of the server that answered last: the next call begins there."""
        self._owners = Owners(bases)
        self._heard_at = -math.inf
        """When a server answered last."""
        forking.note(self)

    def forget_connections(self) -> None:
        """Close the parent's connections in this forked child, and replace the lock, which may be held."""
        for connection in (*self._idle, *self._busy):
            connection.disconnect()  # here: the parent's stay open
        self._idle, self._busy = [], set()
        self._changing = threading.Lock()

    def ask(self, call: Call) -> Any:  # noqa: ANN401 (see `calls.Answers`)
        """Return the answer to this call; retry safely while no server answers."""
        pending = PendingCall(call, time.monotonic(), len(self._bases), self._heard_at, self._patience)
        try:
            return self._pursue(pending)
        except Unreachable:
            self._give_up(pending)
            raise

    def _give_up(self, pending: PendingCall) -> None:
        """Cancel a request that may have been granted, as no caller would have the token of that lease."""
        steps = pending.undo()
        if steps is None:
            return
        until = time.monotonic() + pending.time_out

        def perform(request: HttpRequest) -> dict[str, Any]:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            return body_of(*self._exchange(self._bases[self._first % len(self._bases)], request, left))

        with suppress(OSError, LeaseholdError):  # the caller gets the first error; the lease expires by itself
            drive(steps, perform)

    def _pursue(self, pending: PendingCall) -> Any:  # noqa: ANN401 (see `ask`)
        """Send the request, again if `PendingCall` says so, until it has an outcome."""
        todo: Resend = Resend(pending.next, 0.0)
        while True:
            time.sleep(todo.pause)
            asked_of = self._first
            try:
                head, data = self._exchange(self._bases[asked_of % len(self._bases)], todo.request, pending.time_out)
                body = body_of(head, data)
            except (OSError, Unreachable) as error:
                self._turn_from(asked_of)
                why = explained(error, self._bases[asked_of % len(self._bases)])
                todo = pending.failed(why, time.monotonic(), was_sent=not isinstance(error, NotSent))
                continue
            self._heard_at = now = time.monotonic()
            if head.owner:
                self._follow(asked_of, head.owner, now)
            outcome = pending.answered(head.status, body, head.retry_after, now)
            if not isinstance(outcome, Resend):
                return outcome
            if head.status == GOING_AWAY:
                self._turn_from(asked_of)
            todo = outcome

    def _turn_from(self, server: int) -> None:
        """Switch to the next server, unless another thread already has: two switches may lead back to this one."""
        with self._changing:
            if self._first == server:
                self._first += 1

    def _follow(self, server: int, owner: str, now: float) -> None:
        """Ask the owner of the lane from now on, if it is configured: this server only hands requests on to it."""
        place = self._owners.place(owner, now)
        with self._changing:
            if place is not None and self._first == server:
                self._first = place

    def _exchange(self, base: ServerAddress, request: HttpRequest, time_out: float) -> tuple[AnswerHead, bytes]:
        connection = self._take(base)
        try:
            is_wait = request.body is not None and request.body.get("wait_seconds")
            answer = connection.exchange(render(request, base), time_out, self._progress if is_wait else None)
        except BaseException as error:  # also an interrupt: the server sees it close, and we leave the queue
            self._return(connection, keep=False)
            if self._closed:
                raise Closed(CLOSED) from None
            if isinstance(error, OSError):
                raise NoAnswer(told(base.first, error)) from error
            raise
        self._return(connection, keep=connection.keeps)
        return answer

    def _take(self, base: ServerAddress) -> SyncConnection:
        """Return an idle connection to this address, or a new one."""
        with self._changing:
            if self._closed:
                raise Closed(CLOSED)
            while (found := next((each for each in reversed(self._idle) if each.base == base), None)) is not None:
                self._idle.remove(found)
                if not found.is_stale:
                    self._busy.add(found)
                    return found
                found.disconnect()
        try:
            made = SyncConnection(base, self._patience)
        except OSError as error:
            raise NotSent(told(base.first, error)) from error
        with self._changing:
            self._busy.add(made)
        return made

    def _return(self, connection: SyncConnection, *, keep: bool) -> None:
        with self._changing:
            self._busy.discard(connection)
            if keep and not self._closed:
                self._idle.append(connection)
                return
        connection.disconnect()

    def losses(self) -> LossSource:
        """Return what reports held leases that may be lost."""
        return losses_of(self._bases)

    def close(self) -> None:
        """Close all connections; waiting calls fail, and leave the queue."""
        with self._changing:
            self._closed = True
            idle, self._idle = self._idle, []
            for connection in self._busy:
                connection.interrupt()
        for connection in idle:
            connection.disconnect()


def losses_of(servers: tuple[ServerAddress, ...]) -> LossSource:
    """Return what reports leases that a client of these servers may have lost."""
    from leasehold.client.losses import StreamLosses  # noqa: PLC0415 (only for those who hold something for a while)

    return StreamLosses(servers)


def http_answers(
    url: str, api_key: str | None, progress: Callable[[], None] | None = None, patience: float | None = None
) -> HttpAnswers:
    """Return a client of the servers at this URL; `patience`: seconds after which an unanswered call fails."""
    return HttpAnswers(bases(url, api_key), progress, patience)


def connected(base: ServerAddress, patience: float | None = None) -> socket.socket:
    """Connect to this server, or to its proxy; not encrypted yet."""
    host, port = (base.host, base.port) if base.via is None else (base.via.host, base.via.port)
    connection = socket.create_connection((host, port), timeout=connect_within(patience))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if base.tls and base.via is not None:
        from leasehold.client.proxies import tunnel  # noqa: PLC0415 (only for those who have one)

        try:
            tunnel(connection, base)
        except BaseException:
            connection.close()
            raise
    return connection


def _connect(base: ServerAddress, patience: float | None) -> socket.socket:
    connection = connected(base, patience)
    if not base.tls:
        return connection
    import ssl  # noqa: PLC0415 (only for https)

    return ssl.create_default_context().wrap_socket(connection, server_hostname=base.host)

"""Answers from a server, for plain code: one connection a thread, kept alive, with fail-over between servers."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from leasehold.client.deciding import Again, Errand
from leasehold.client.messages import END, HEAD_MOST, Base, Head, body_of, parse_head, render
from leasehold.errors import Closed, Unreachable

if TYPE_CHECKING:
    from leasehold.calls import Call
    from leasehold.client.encoding import Request

CONNECT_WITHIN = 5.0


class HttpAnswers:
    """A client of one Leasehold, wherever it is served."""

    def __init__(self, bases: tuple[Base, ...], token: str | None) -> None:
        self._bases = bases
        self._token = token
        self._mine = threading.local()
        self._closed = False
        self._first = 0
        """The server that answered last: the next call begins there."""

    def ask(self, call: Call) -> Any:  # noqa: ANN401 (see `locks.Answers`)
        """The answer to this call; asked again, safely, while nobody answers."""
        if self._closed:
            raise Closed("these locks are closed; connect again")
        errand = Errand(call, time.monotonic())
        refused = errand.refused()
        if refused is not None:
            return refused
        todo: Again = Again(errand.next, 0.0)
        while True:
            time.sleep(todo.pause)
            try:
                head, data = self._exchange(todo.request, errand.time_out())
            except (OSError, Unreachable) as error:
                self._hang_up()
                self._first += 1
                todo = errand.failed(error, time.monotonic())
                continue
            except BaseException:  # an interrupt: the server sees the connection close, and we leave the queue
                self._hang_up()
                raise
            outcome = errand.answered(head.status, body_of(data), head.retry_after, time.monotonic())
            if not isinstance(outcome, Again):
                return outcome
            todo = outcome

    def _exchange(self, request: Request, time_out: float) -> tuple[Head, bytes]:
        base = self._bases[self._first % len(self._bases)]
        connection = self._connection(base)
        connection.settimeout(time_out)
        connection.sendall(render(request, base, self._token))
        received = b""
        while (end := received.find(END)) < 0:
            received += self._receive(connection)
            if len(received) > HEAD_MOST:
                raise Unreachable("what answers there is not a Leasehold server: its answer does not begin")
        head = parse_head(received[:end])
        data = received[end + len(END) :]
        while len(data) < head.length:
            data += self._receive(connection)
        if not head.keeps:
            self._hang_up()
        return head, data

    @staticmethod
    def _receive(connection: socket.socket) -> bytes:
        data = connection.recv(65_536)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        return data

    def _connection(self, base: Base) -> socket.socket:
        if getattr(self._mine, "base", None) != base:
            self._hang_up()
            self._mine.socket = _connect(base)
            self._mine.base = base
        connection: socket.socket = self._mine.socket
        return connection

    def _hang_up(self) -> None:
        if getattr(self._mine, "base", None) is not None:
            self._mine.socket.close()
            self._mine.base = None

    def close(self) -> None:
        """Hang up (this thread's connection; those of other threads close with them)."""
        self._closed = True
        self._hang_up()


def _connect(base: Base) -> socket.socket:
    connection = socket.create_connection((base.host, base.port), timeout=CONNECT_WITHIN)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not base.tls:
        return connection
    import ssl  # noqa: PLC0415 (only for https)

    return ssl.create_default_context().wrap_socket(connection, server_hostname=base.host)

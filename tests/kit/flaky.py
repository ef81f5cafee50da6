"""A line to a server that breaks as it is told to: a proxy that loses requests and answers. No tests in here."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from tests.kit.listening import listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 60.0
PASS = "pass"
LOSE_REQUEST = "lose request"
LOSE_ANSWER = "lose answer"
GARBLE_ANSWER = "garble answer"
CUT_ANSWER = "cut answer"
BUSY = "busy"
GOING_AWAY = "going away"
NOBODY_BEHIND = "nobody behind"
"""As a proxy says it, in words of its own."""
HOLD = "hold"
"""Keep the answer until `end_connections` is set."""
_TOLD = {
    BUSY: (b"429 Too Many Requests", b'{"code": "rate_limited", "detail": "slow down"}', b"0"),
    NOBODY_BEHIND: (b"502 Bad Gateway", b"<h1>Bad Gateway</h1>", b"0"),
    GOING_AWAY: (b"503 Service Unavailable", b'{"code": "closed", "detail": "going away"}', b"0"),
}


class Reachable(Protocol):
    """A server, or the place where one will be."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class Line:
    """What becomes of the next requests, in order; afterwards all of them pass."""

    def __init__(self, server: Reachable) -> None:
        self._server = server
        self.faults: list[str] = []
        self.fault_of: Callable[[bytes], str] | None = None
        """Decides by the request instead, where the order of requests is open, as of several at once."""
        self.requests: list[bytes] = []
        """Every request that came, also those that were lost."""
        self.connections = 0
        self.port = 0
        self.end_connections = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _next_fault(self, request: bytes) -> str:
        if self.fault_of is not None:
            return self.fault_of(request)
        return self.faults.pop(0) if self.faults else PASS

    def serve(self, client: socket.socket) -> None:
        """One connection, a request at a time."""
        self.connections += 1
        with socket.create_connection((self._server.host, self._server.port)) as server:
            while request := _message(client):
                self.requests.append(request)
                fault = self._next_fault(request)
                if fault == LOSE_REQUEST:
                    return
                if fault in _TOLD:
                    status, body, after = _TOLD[fault]
                    head = b"HTTP/1.1 %b\r\ncontent-type: application/problem+json\r\nretry-after: %b\r\n" % (
                        status,
                        after,
                    )
                    client.sendall(head + b"content-length: %d\r\n\r\n%b" % (len(body), body))
                    continue
                server.sendall(request)
                answer = _message(server)
                if fault == LOSE_ANSWER:
                    return
                if fault == CUT_ANSWER:
                    client.sendall(answer[:-5])
                    return
                if fault == GARBLE_ANSWER:
                    answer = answer[:-1] + b"?"
                if fault == HOLD:
                    self.end_connections.wait(PATIENCE)
                client.sendall(answer)


def _message(line: socket.socket) -> bytes:
    """A head and a body of the length that it tells."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = line.recv(65_536)
        if not piece:
            return b""
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    lengths = [each.split(b":")[1] for each in head.lower().split(b"\r\n") if each.startswith(b"content-length:")]
    while len(body) < int(lengths[0] if lengths else 0):
        body += line.recv(65_536)
    return head + b"\r\n\r\n" + body


@contextmanager
def flaky(server: Reachable) -> Iterator[Line]:
    """Such a line, until the end of the block."""
    line = Line(server)
    with listening(line.serve) as line.port:
        yield line

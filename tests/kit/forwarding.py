"""A forward proxy, as companies have them: it is asked with whole URLs, or for tunnels. No tests in here."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tests.kit.listening import listening

if TYPE_CHECKING:
    from collections.abc import Iterator

FORBIDDEN = b"HTTP/1.1 403 Forbidden\r\nServer: squid\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\n<h1>No</h1"
END = b"\r\n\r\n"


class Forwarding:
    """Whatever host it is asked for, it hands on to one address."""

    def __init__(self, to: tuple[str, int]) -> None:
        self._to = to
        self.port = 0
        self.heads: list[bytes] = []
        """Of every request that came."""
        self.answer: bytes | None = None
        """To everything, instead of handing it on."""
        self.opening = b"HTTP/1.1 200 Connection established\r\n\r\n"
        """To a request for a tunnel."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self, client: socket.socket) -> None:
        """One connection: to one server, whatever is asked for."""
        with socket.create_connection(self._to) as server:
            received = _until_end(client)
            head, _, rest = received.partition(END)
            self.heads.append(head)
            if self.answer is not None:
                client.sendall(self.answer)
                return
            if head.startswith(b"CONNECT "):
                client.sendall(self.opening)
            else:
                server.sendall(_as_for_a_server(head) + END + rest)
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
            while piece := server.recv(65_536):
                client.sendall(piece)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        """What comes later on the same connection."""
        with suppress(OSError):
            while piece := client.recv(65_536):
                if b" http://" in piece[:20]:
                    head, end, rest = piece.partition(END)
                    self.heads.append(head)
                    piece = _as_for_a_server(head) + end + rest
                server.sendall(piece)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


def _until_end(line: socket.socket) -> bytes:
    received = b""
    while END not in received:
        piece = line.recv(65_536)
        if not piece:
            break
        received += piece
    return received


def _as_for_a_server(head: bytes) -> bytes:
    """Without the host before the path, and without what is for the proxy alone."""
    first, *lines = head.split(b"\r\n")
    method, target, version = first.split()
    path = b"/" + target.removeprefix(b"http://").partition(b"/")[2]
    kept = [line for line in lines if not line.lower().startswith(b"proxy-")]
    return b"\r\n".join([b" ".join((method, path, version)), *kept])


@contextmanager
def forwarding(to: tuple[str, int]) -> Iterator[Forwarding]:
    """Such a proxy, until the end of the block."""
    proxy = Forwarding(to)
    with listening(proxy.serve) as proxy.port:
        yield proxy

"""A server that answers by a script, byte for byte, whatever it is asked. No tests in here."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.kit.listening import listening

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

NOTHING: tuple[bytes, ...] = ()
"""No answer at all, while the connection stays open."""
HANG_UP = b""


def answer(body: bytes, head: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return b"%b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (head, len(body), body)


NOBODY = answer(b'{"leases": []}')


class Script:
    """A server that answers what it is told to, in pieces, whatever it is asked; in the end always properly."""

    def __init__(self) -> None:
        self.answers: list[tuple[bytes, ...]] = []
        self.by_path: dict[str, bytes] = {}
        """What is answered to requests for these paths."""
        self.asked: list[int] = []
        """On which connection each request came."""
        self.requests: list[bytes] = []
        self.connections = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self, client: socket.socket) -> None:
        self.connections += 1
        number = self.connections
        while request := client.recv(65_536):
            self.asked.append(number)
            self.requests.append(request)
            usual = self.by_path.get(request.split()[1].decode(), NOBODY)
            for piece in self.answers.pop(0) if self.answers else (usual,):
                if piece == HANG_UP:
                    return
                client.sendall(piece)


@contextmanager
def scripted() -> Iterator[Script]:
    script = Script()
    with listening(script.serve) as script.port:
        yield script


def bytewise(data: bytes) -> tuple[bytes, ...]:
    return tuple(bytes([each]) for each in data)

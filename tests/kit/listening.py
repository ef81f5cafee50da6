"""A port on which a function answers each connection, in a thread of its own. No tests in here."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOST = "127.0.0.1"


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Listen on a free port until the end of the block, and yield the port."""

    def accept() -> None:
        with suppress(OSError):  # closed: the end
            while True:
                client, _ = listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=_until_closed, args=(answer, client), daemon=True).start()

    with socket.create_server((HOST, 0)) as listener:
        acceptor = threading.Thread(target=accept, daemon=True)
        acceptor.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()


def _until_closed(answer: Callable[[socket.socket], None], client: socket.socket) -> None:
    with client, suppress(OSError):
        answer(client)

"""What may stand between a store and PostgreSQL: a wire that is cut at the worst moment, a pooler. No tests in here."""

from __future__ import annotations

import random
import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

READY = ord("Z")
IDLE = b"I"


class Wire:
    """Carries everything, until it is told to cut: before or after what holds these bytes has come through."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.cut_before: bytes | None = None
        self.cut_after: bytes | None = None
        self.cuts = 0

    def answer(self, client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self._port)) as server:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = threading.Thread(target=_quietly_copy, args=(server, client), daemon=True)
            back.start()
            while data := client.recv(1 << 20):
                if self.cut_before is not None and self.cut_before in data:
                    self.cut_before = None
                    self.cuts += 1
                    client.shutdown(socket.SHUT_RDWR)
                    break
                if self.cut_after is not None and self.cut_after in data:
                    self.cut_after = None
                    self.cuts += 1
                    client.shutdown(socket.SHUT_RDWR)  # the answer finds nobody
                    server.sendall(data)
                    break
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
            back.join()


def _quietly_copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 20):
            with suppress(OSError):  # who does not want it does not get it; the rest must still be read
                target.sendall(data)


class Pooler:
    """A proxy that pools transactions: each may go to another of its few connections. It cannot carry LISTEN."""

    def __init__(self, port: int, size: int = 3) -> None:
        self._port = port
        self._chance = random.Random(1)
        self._free = threading.Condition()
        self._idle: list[_Backend] = []
        self._made = 0
        self._size = size
        self.transactions = 0
        self._is_closed = False
        self.prepared = 0
        """How often somebody tried to prepare a statement."""

    def answer(self, client: socket.socket) -> None:
        stream = client.makefile("rb")
        startup = _startup(client, stream.read)
        while True:
            head = stream.read(5)
            if len(head) < 5 or head[:1] == b"X":
                return
            backend = self._take(startup, client)
            try:
                self._transaction(client, stream.read, backend, head)
            except BaseException:
                backend.close()
                with self._free:
                    self._made -= 1
                    self._free.notify()
                raise
            self._return(backend)

    def _transaction(self, client: socket.socket, read: Callable[[int], bytes], backend: _Backend, head: bytes) -> None:
        self.transactions += 1
        while True:
            message = head + read(struct.unpack("!I", head[1:])[0] - 4)
            assert head[:1] not in b"X", "gone in the middle of a transaction"
            self.prepared += head[:1] == b"P" and message[5:6] != b"\0"
            backend.send(message)
            if head[:1] in b"QS" and backend.relay(client) == IDLE:
                return
            head = read(5)
            if len(head) < 5:
                raise ConnectionResetError("the client is gone in the middle of a transaction")

    def _take(self, startup: bytes, client: socket.socket) -> _Backend:
        with self._free:
            while not self._idle and self._made >= self._size:
                self._free.wait()
            if self._made < self._size:
                self._made += 1
                self._idle.append(_Backend(self._port, startup))
            return self._idle.pop(self._chance.randrange(len(self._idle)))

    def _return(self, backend: _Backend) -> None:
        with self._free:
            if self._is_closed:  # the client had its answer before we had the connection back
                backend.close()
            self._idle.append(backend)
            self._free.notify()

    def close(self) -> None:
        with self._free:
            self._is_closed = True
            for backend in self._idle:
                backend.close()


def _startup(client: socket.socket, read: Callable[[int], bytes]) -> bytes:
    """Let the client in, as if we were the server."""
    while True:
        size = read(4)
        body = read(struct.unpack("!I", size)[0] - 4)
        if body[:4] in (struct.pack("!I", 80877103), struct.pack("!I", 80877104)):  # TLS, GSS: not here
            client.sendall(b"N")
            continue
        break
    told = {"server_version": "18.0", "client_encoding": "UTF8", "standard_conforming_strings": "on"}
    told |= {"server_encoding": "UTF8", "integer_datetimes": "on", "default_transaction_read_only": "off"}
    told |= {"in_hot_standby": "off"}
    answer = b"R" + struct.pack("!II", 8, 0)
    for name, value in told.items():
        text = f"{name}\0{value}\0".encode()
        answer += b"S" + struct.pack("!I", len(text) + 4) + text
    answer += b"K" + struct.pack("!III", 12, 1, 1) + b"Z" + struct.pack("!I", 5) + IDLE
    client.sendall(answer)
    return size + body


class _Backend:
    """One connection to the server."""

    def __init__(self, port: int, startup: bytes) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._socket.makefile("rb")
        self.send(startup)
        self.relay(None)

    def send(self, message: bytes) -> None:
        self._socket.sendall(message)

    def relay(self, client: socket.socket | None) -> bytes:
        """Hand on all that comes until the server is ready; in what state it is."""
        while True:
            head = self._stream.read(5)
            if len(head) < 5:
                raise ConnectionResetError("the server is gone")
            body = self._stream.read(struct.unpack("!I", head[1:])[0] - 4)
            if client is not None:
                client.sendall(head + body)
            if head[0] == READY:
                return body

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

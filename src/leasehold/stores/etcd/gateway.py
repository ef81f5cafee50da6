"""etcd's HTTP interface: the time, tokens, and the watch. Everything else goes over gRPC (see `calls`).

gRPC carries no date, and a stream needs more than the unary calls of `grpc`; etcd's JSON gateway serves both.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
import threading
import time
from base64 import b64encode
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

from leasehold.errors import Closed, StoreError, StoreUnsuitable, Unreachable
from leasehold.stores.etcd.health import SILENCE, TRANSIENT, member_trouble
from leasehold.stores.etcd.members import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeAlias

    from leasehold.stores.etcd.members import Members

    Json: TypeAlias = dict[str, Any]

_BROKEN = (OSError, http.client.HTTPException)
_NO_GATEWAY = (
    "users authenticate through etcd's JSON gateway, which is off: start etcd without --enable-grpc-gateway=false"
)


def text64(text: str) -> str:
    """Encode a key or a value as the gateway expects it."""
    return b64encode(text.encode()).decode()


class _OfThread(threading.local):
    """The connection of the current thread, and the turn of the members in which it was opened."""

    connection: http.client.HTTPConnection | None = None
    turn = -1


class Gateway:
    """A client of etcd's HTTP interface. Each thread has its own connection."""

    def __init__(self, members: Members, on_date: Callable[[str, float, float], None]) -> None:
        self._members = members
        self._on_date = on_date
        self._local = _OfThread()
        self._all: set[http.client.HTTPConnection] = set()
        self._is_closed = False
        self._tls = members.tls("http/1.1")

    def ask_the_time(self) -> None:
        """Ask any member for its date and report it to the clock."""
        troubles: dict[str, None] = {}
        for _ in range(2 * self._members.count):
            turn = self._members.turn
            try:
                self._ask_the_time()
            except Unreachable as error:
                troubles[str(error)] = None
                self._members.next(turn)
            else:
                return
        raise self._members.silent(troubles)

    def _ask_the_time(self) -> None:
        """Ask for etcd's version, for the date in the answer."""
        connection = self._connection()
        asked = time.monotonic()
        try:
            connection.request("GET", "/version")
            reply = connection.getresponse()
            answered = time.monotonic()
            reply.read()
        except _BROKEN as error:
            self._drop()
            raise Unreachable(f"etcd at {connection.host}:{connection.port}: {error!r}") from error
        date = reply.getheader("Date")
        if not date:
            self._drop()
            raise Unreachable(f"the server at {connection.host}:{connection.port} is not etcd: its answer has no date")
        self._on_date(date, asked, answered)

    def _connection(self) -> http.client.HTTPConnection:
        if self._is_closed:
            raise Closed("this store is closed; connect again")
        known = self._local.connection
        if known is not None and self._local.turn == self._members.turn:
            return known
        self._drop()
        self._local.turn = self._members.turn
        self._local.connection = connection = self.connect()
        return connection

    @property
    def turn(self) -> int:
        """The current `Members.turn`."""
        return self._members.turn

    def connect(self) -> http.client.HTTPConnection:
        """Open a connection to the current member; the caller drops it."""
        host, port = self._members.present
        if self._tls is not None:
            made: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=TIMEOUT, context=self._tls
            )
        else:
            made = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
        self._all.add(made)
        return made

    def rest(self) -> None:
        """Close the connection of this thread, which will not ask again soon."""
        self._drop()

    def drop(self, connection: http.client.HTTPConnection) -> None:
        """Close a connection."""
        connection.close()
        self._all.discard(connection)

    def _drop(self) -> None:
        if self._local.connection is not None:
            self.drop(self._local.connection)
            self._local.connection = None

    def authenticate(self) -> str:
        """Return a token for the URL's user, to be sent with each call."""
        address = self._members.address
        asked = {"name": address.user, "password": address.password}
        connection = self.connect()
        try:
            connection.request("POST", "/v3/auth/authenticate", json.dumps(asked).encode())
            self._wait(connection)
            reply = connection.getresponse()
            if reply.status == HTTPStatus.NOT_FOUND:
                raise StoreUnsuitable(_NO_GATEWAY)
            answer = _decoded(reply.read())
        except _BROKEN as error:
            raise Unreachable(f"etcd at {connection.host}:{connection.port}: {error}") from error
        finally:
            self.drop(connection)
        if answer.get("code") in TRANSIENT:
            raise Unreachable(f"etcd at {connection.host}:{connection.port} says: {answer.get('message')}")
        if "token" not in answer:
            raise StoreError(f"etcd does not authenticate {address.user}: {answer.get('message', 'no token')}")
        return str(answer["token"])

    def _wait(self, connection: http.client.HTTPConnection) -> None:
        """Wait for an answer that needs a majority, as long as the member that was asked is healthy."""
        ready, end = select.poll(), time.monotonic() + TIMEOUT
        ready.register(connection.sock, select.POLLIN)
        while not ready.poll(SILENCE * 1_000):
            trouble = ""
            if self._members.count > 1:
                trouble, _ = member_trouble((connection.host, connection.port), self._members.tls("h2"), "", 0)
            if trouble or time.monotonic() > end:
                raise TimeoutError(trouble or "timed out")

    def stream(
        self, path: str, asked: Sequence[Json], connection: http.client.HTTPConnection, turn: int
    ) -> Iterator[Json]:
        """Send these messages, and yield answers while the connection lasts.

        It yields none if the members have failed over since this turn.
        """
        headers = {"Authorization": self.authenticate()} if self._members.address.user else {}
        connection.connect()
        connection.sock.settimeout(None)
        if self._members.turn != turn:  # `shut_down` came before there was a socket to shut down
            return
        body = "\n".join(map(json.dumps, asked)).encode()
        connection.request("POST", path, body, headers)
        reply = connection.getresponse()
        while line := reply.readline():
            yield json.loads(line)

    def close(self) -> None:
        """Close all connections. Idempotent."""
        self._is_closed = True
        for connection in tuple(self._all):
            shut_down(connection)
            connection.close()
        self._all.clear()


def shut_down(connection: http.client.HTTPConnection) -> None:
    """Shut a connection down, also while another thread waits on it: its call fails."""
    sock = connection.sock
    if sock is not None:
        with suppress(OSError):  # the connection is gone already
            sock.shutdown(socket.SHUT_RDWR)


def _decoded(data: bytes) -> Json:
    try:
        answer: Json = json.loads(data)
    except ValueError:
        raise Unreachable(f"the server is not etcd; it answered {data[:80]!r}") from None
    return answer

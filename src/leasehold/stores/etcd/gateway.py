"""What is asked of etcd over plain HTTP: the time, a token, and to be told of changes. Nothing else goes this way.

gRPC tells no time, and its streams are another matter than its calls; etcd's JSON gateway serves both.
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

from leasehold.errors import Closed, StoreError, StoreUnsuitable, Unreachable
from leasehold.stores.etcd.health import SILENCE, TRANSIENT, member_trouble
from leasehold.stores.etcd.members import TIMEOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeAlias

    from leasehold.stores.etcd.members import Members

    Json: TypeAlias = dict[str, Any]

_BROKEN = (OSError, http.client.HTTPException)
_NO_GATEWAY = "etcd lets users in by its JSON gateway, which is off: start it without --enable-grpc-gateway=false"


def text64(text: str) -> str:
    """A key or a value as the gateway wants it."""
    return b64encode(text.encode()).decode()


class Gateway:
    """etcd, over HTTP. Each thread has a connection of its own."""

    def __init__(self, members: Members, told_date: Callable[[str, float, float], None]) -> None:
        self._members = members
        self._told_date = told_date
        self._local = threading.local()
        self._all: set[http.client.HTTPConnection] = set()
        self._is_closed = False
        self._tls = members.tls("http/1.1")

    def ask_the_time(self) -> None:
        """Have the date of some answer told."""
        troubles: dict[str, None] = {}
        for _ in range(2 * len(self._members)):
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
            raise Unreachable(f"what listens at {connection.host}:{connection.port} is no etcd: it tells no time")
        self._told_date(date, asked, answered)

    def _connection(self) -> http.client.HTTPConnection:
        if self._is_closed:
            raise Closed("this store is closed; connect again")
        known: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if known is not None and self._local.turn == self._members.turn:
            return known
        self._drop()
        self._local.turn = self._members.turn
        self._local.connection = connection = self.connect()
        return connection

    @property
    def turn(self) -> int:
        """Whose turn it is to be asked."""
        return self._members.turn

    def connect(self) -> http.client.HTTPConnection:
        """A connection of one's own to the member that is asked at present."""
        host, port = self._members.present
        if self._tls is not None:
            made: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=TIMEOUT, context=self._tls
            )
        else:
            made = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
        self._all.add(made)
        return made

    def drop(self, connection: http.client.HTTPConnection) -> None:
        """This one is not needed any more."""
        connection.close()
        self._all.discard(connection)

    def _drop(self) -> None:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is not None:
            self.drop(connection)
            self._local.connection = None

    def authenticate(self) -> str:
        """What to show with each call."""
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
            raise StoreError(f"etcd does not let {address.user} in: {answer.get('message', 'no token')}")
        return str(answer["token"])

    def _wait(self, connection: http.client.HTTPConnection) -> None:
        """For an answer that the members have to agree on: only as long as the one that was asked can give it."""
        ready, end = select.poll(), time.monotonic() + TIMEOUT
        ready.register(connection.sock, select.POLLIN)
        while not ready.poll(SILENCE * 1_000):
            trouble = ""
            if len(self._members) > 1:
                trouble, _ = member_trouble((connection.host, connection.port), self._members.tls("h2"), "", 0)
            if trouble or time.monotonic() > end:
                raise TimeoutError(trouble or "timed out")

    def stream(self, path: str, body: Json, connection: http.client.HTTPConnection, turn: int) -> Iterator[Json]:
        """Answer after answer, for as long as the connection lasts; from nobody, if it is another's turn already."""
        headers = {"Authorization": self.authenticate()} if self._members.address.user else {}
        connection.connect()
        connection.sock.settimeout(None)
        if self._members.turn != turn:  # whoever says so may have come before there was anything to hang up
            return
        connection.request("POST", path, json.dumps(body).encode(), headers)
        reply = connection.getresponse()
        while line := reply.readline():
            yield json.loads(line)

    def close(self) -> None:
        """Give everything back. Idempotent."""
        self._is_closed = True
        for connection in tuple(self._all):
            hang_up(connection)
            connection.close()
        self._all.clear()


def hang_up(connection: http.client.HTTPConnection) -> None:
    """End a connection at which another thread may be waiting for an answer: it gets none."""
    sock = connection.sock
    if sock is not None:
        with suppress(OSError):  # it is gone already
            sock.shutdown(socket.SHUT_RDWR)


def _decoded(data: bytes) -> Json:
    try:
        answer: Json = json.loads(data)
    except ValueError:
        raise Unreachable(f"what listens there is no etcd: {data[:80]!r}") from None
    return answer

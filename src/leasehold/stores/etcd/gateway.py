"""Requests to etcd's JSON gateway over connections that are kept, with fail-over between its members.

An answer that never came may have been carried out: whoever changes something says so, and gets `OutcomeUnknown`.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from base64 import b64decode, b64encode
from contextlib import suppress

from leasehold.errors import Closed, OutcomeUnknown, StoreError, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeAlias

    from leasehold.stores.etcd.address import Address

    Json: TypeAlias = dict[str, Any]

TIMEOUT = 5.0
"""So long may a member take; then the next one is asked."""
TRANSIENT = (4, 14)
"""gRPC codes of a member that cannot answer now: deadline exceeded, unavailable."""
UNAUTHENTICATED = 16
_BROKEN = (OSError, http.client.HTTPException)


def text64(text: str | bytes) -> str:
    """A key or a value as the gateway wants it."""
    return b64encode(text.encode() if isinstance(text, str) else text).decode()


def from64(text: str) -> str:
    """And back."""
    return b64decode(text).decode()


class Gateway:
    """etcd, from the outside. Each thread has a connection of its own."""

    def __init__(self, address: Address, told_date: Callable[[str, float, float], None] | None = None) -> None:
        self._address = address
        self._told_date = told_date
        self._local = threading.local()
        self._all: set[http.client.HTTPConnection] = set()
        self._first = 0
        self._token: str | None = None
        self._is_closed = False
        self._tls = _context(address) if address.tls else None

    def ask(self, path: str, body: Json) -> Json:
        """The answer to a request that changes nothing: another member is asked if one does not answer."""
        return self._ask(path, body, changes=False)

    def change(self, path: str, body: Json) -> Json:
        """The answer to a request that changes something: sent once, unless it certainly was not carried out."""
        return self._ask(path, body, changes=True)

    def _ask(self, path: str, body: Json, *, changes: bool) -> Json:
        content = json.dumps(body).encode()
        trouble: object = None
        for _ in range(2 * len(self._address.members)):
            try:
                answer = self._exchange(path, content, changes=changes)
            except Unreachable as error:
                trouble = error
                self._next_member()
                continue
            code = answer.get("code", 0)
            if not code:
                return answer
            if code == UNAUTHENTICATED and self._address.user:
                self._token = None
                trouble = answer.get("message", "unauthenticated")
                continue
            self._refuse(answer, changes=changes)
            trouble = answer.get("message")
            self._next_member()
        raise Unreachable(f"no member of etcd at {self._address.place} answers: {trouble}")

    def _refuse(self, answer: Json, *, changes: bool) -> None:
        """A refusal that asking another member does not mend."""
        message = str(answer.get("message") or answer.get("error"))
        if answer["code"] not in TRANSIENT:
            raise StoreError(f"etcd says: {message}")
        if changes:
            raise OutcomeUnknown(f"etcd did not say whether it was written: {message}")

    def _exchange(self, path: str, content: bytes, *, changes: bool) -> Json:
        connection, is_fresh = self._connection()
        headers = {"Content-Type": "application/json", **self._authorization()}
        asked = time.monotonic()
        is_sent = False
        try:
            connection.request("POST", path, content, headers)
            is_sent = True
            reply = connection.getresponse()
            answered = time.monotonic()
            data = reply.read()
        except _BROKEN as error:
            self._drop()
            # What never left as a whole was never carried out. Once it was sent, nobody knows.
            if changes and is_sent:
                raise OutcomeUnknown(f"the connection to etcd broke before it answered: {error}") from error
            raise Unreachable(f"etcd at {connection.host}:{connection.port}: {error!r}") from error
        if self._told_date is not None and (date := reply.getheader("Date")):
            self._told_date(date, asked, answered)
        return _decoded(data, is_fresh=is_fresh)

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        if self._is_closed:
            raise Closed("this store is closed; connect again")
        known: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if known is not None and self._local.first == self._first:
            return known, False
        self._drop()
        connection = self.connect()
        self._local.connection, self._local.first = connection, self._first
        return connection, True

    def connect(self, timeout: float | None = TIMEOUT) -> http.client.HTTPConnection:
        """A connection of one's own to the member that is asked at present."""
        host, port = self._address.members[self._first % len(self._address.members)]
        if self._tls is not None:
            made: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=timeout, context=self._tls
            )
        else:
            made = http.client.HTTPConnection(host, port, timeout=timeout)
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

    def _next_member(self) -> None:
        self._first += 1

    def _authorization(self) -> dict[str, str]:
        if not self._address.user:
            return {}
        if self._token is None:
            self._token = self._authenticate()
        return {"Authorization": self._token}

    def _authenticate(self) -> str:
        asked = {"name": self._address.user, "password": self._address.password}
        connection = self.connect()
        try:
            connection.request("POST", "/v3/auth/authenticate", json.dumps(asked).encode())
            answer = _decoded(connection.getresponse().read(), is_fresh=True)
        except _BROKEN as error:
            raise Unreachable(f"etcd at {self._address.place}: {error}") from error
        finally:
            self.drop(connection)
        if "token" not in answer:
            raise StoreError(f"etcd does not let {self._address.user} in: {answer.get('message', 'no token')}")
        return str(answer["token"])

    def stream(self, path: str, body: Json, connection: http.client.HTTPConnection) -> Iterator[Json]:
        """Answer after answer, for as long as the connection lasts."""
        connection.request("POST", path, json.dumps(body).encode(), self._authorization())
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


def _decoded(data: bytes, *, is_fresh: bool) -> Json:
    try:
        answer: Json = json.loads(data)
    except ValueError:
        kind = "what listens there is no etcd" if is_fresh else "the answer was cut off"
        raise Unreachable(f"{kind}: {data[:80]!r}") from None
    return answer


def _context(address: Address) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=address.ca)
        if address.cert is not None:
            context.load_cert_chain(address.cert, address.key)
    except OSError as error:
        raise StoreError(f"the certificates for etcd cannot be used: {error}") from None
    return context

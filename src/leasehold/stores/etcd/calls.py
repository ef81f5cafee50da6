"""Calls of etcd's key-value service over connections that are kept, with fail-over between its members.

An answer that never came may have been carried out: whoever changes something says so, and gets `OutcomeUnknown`.
"""

from __future__ import annotations

import threading
import time

from leasehold.errors import Closed, OutcomeUnknown, StoreError, Unreachable
from leasehold.stores.etcd import http2
from leasehold.stores.etcd.doubting import HEADER, SILENCE, is_worth_waiting
from leasehold.stores.etcd.members import TIMEOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.stores.etcd.members import Members

TRANSACTION = "/etcdserverpb.KV/Txn"
RANGE = "/etcdserverpb.KV/Range"
TRANSIENT = (4, 14)
"""gRPC codes of a member that cannot answer now: deadline exceeded, unavailable."""
UNAUTHENTICATED = 16


class Calls:
    """etcd, from the outside. Each thread has a connection of its own."""

    def __init__(self, members: Members, authenticate: Callable[[], str]) -> None:
        self._members = members
        self._authenticate = authenticate
        self._token = ""
        self._tls = members.tls("h2")
        self._local = threading.local()
        self._all: set[http2.Connection] = set()
        self._latest = b""
        """How the last answer began."""
        self._is_closed = False

    def ask(self, path: str, message: bytes) -> bytes:
        """The answer to a call that changes nothing: another member is asked if one does not answer."""
        return self._ask(path, message, changes=False)

    def change(self, path: str, message: bytes) -> bytes:
        """The answer to a call that changes something: sent once, unless it certainly was not carried out."""
        return self._ask(path, message, changes=True)

    def _ask(self, path: str, message: bytes, *, changes: bool) -> bytes:
        trouble: object = None
        for _ in range(2 * len(self._members)):
            turn = self._members.turn
            try:
                reply = self._call(path, message, changes=changes)
            except OutcomeUnknown:
                self._members.next(turn)
                raise
            except Unreachable as error:
                trouble = error
                self._members.next(turn)
                continue
            if not reply.status:
                return reply.message
            trouble = reply.error
            if reply.status == UNAUTHENTICATED and self._members.address.user:
                self._token = ""
                continue
            self._refuse(reply, changes=changes)
            self._members.next(turn)
        raise Unreachable(f"no member of etcd at {self._members.address.place} answers: {trouble}")

    def _refuse(self, reply: http2.Reply, *, changes: bool) -> None:
        """A refusal that asking another member does not mend."""
        if reply.status not in TRANSIENT:
            raise StoreError(f"etcd says: {reply.error}")
        if changes:
            raise OutcomeUnknown(f"etcd did not say whether it was written: {reply.error}")

    def _call(self, path: str, message: bytes, *, changes: bool) -> http2.Reply:
        if self._members.address.user and not self._token:
            self._token = self._authenticate()
        connection = self._connection()
        authority = "{}:{}".format(*self._local.place)
        headers = http2.head(path, authority, self._token, tls=self._tls is not None)
        try:
            reply = connection.call(headers, message, self._patience(self._local.place))
        except http2.Refused as error:
            self._drop()
            raise Unreachable(f"etcd at {authority}: {error}") from error
        except OSError as error:
            self._drop()
            # What never left as a whole was never carried out. Once it was sent, nobody knows.
            if changes and connection.is_sent:
                raise OutcomeUnknown(f"the connection to etcd broke before it answered: {error}") from error
            raise Unreachable(f"etcd at {authority}: {error}") from error
        if connection.is_ending:
            self._drop()
        self._latest = reply.message[:HEADER] or self._latest
        return reply

    def _patience(self, place: tuple[str, int]) -> Callable[[], bool]:
        """Whether to wait on for a member that is asked now."""
        end, before = time.monotonic() + TIMEOUT, self._latest

        def goes_on() -> bool:
            if time.monotonic() > end:
                return False
            return len(self._members) == 1 or is_worth_waiting(place, self._tls, self._token, before)

        return goes_on

    def _connection(self) -> http2.Connection:
        if self._is_closed:
            raise Closed("this store is closed; connect again")
        known: http2.Connection | None = getattr(self._local, "connection", None)
        if known is not None and self._local.turn == self._members.turn:
            return known
        self._drop()
        self._local.turn = self._members.turn
        self._local.place = host, port = self._members.present
        try:
            made = http2.Connection(host, port, self._members.patience, self._tls, SILENCE)
        except OSError as error:
            raise Unreachable(f"etcd at {host}:{port}: {error}") from error
        self._all.add(made)
        self._local.connection = made
        return made

    def _drop(self) -> None:
        connection: http2.Connection | None = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._all.discard(connection)
            self._local.connection = None

    def close(self) -> None:
        """Give everything back. Idempotent."""
        self._is_closed = True
        for connection in tuple(self._all):
            connection.hang_up()
            connection.close()
        self._all.clear()

"""Calls to etcd over pooled gRPC connections, with fail-over between the members.

A call whose answer is lost may have been carried out: a call that changes something then raises `OutcomeUnknown`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from leasehold.domain.nouns import Noun
from leasehold.errors import Closed, Conflict, OutcomeUnknown, Unreachable
from leasehold.steps import through
from leasehold.stores.etcd import messages
from leasehold.stores.etcd.grpc import CallRefused, GrpcConnection
from leasehold.stores.etcd.health import HEADER, SILENCE, TRANSIENT, member_trouble
from leasehold.stores.etcd.members import TIMEOUT
from leasehold.stores.etcd.refusals import FINAL, explained

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.steps import Steps
    from leasehold.stores.etcd.grpc import GrpcReply
    from leasehold.stores.etcd.members import Members

TRANSACTION = "/etcdserverpb.KV/Txn"
RANGE = "/etcdserverpb.KV/Range"
UNAUTHENTICATED = 16
IDLE_MOST = 4
"""Idle connections that are kept."""


class _PooledConnection(Noun):
    """A connection to one member."""

    connection: GrpcConnection
    place: tuple[str, int]
    turn: int
    """`Members.turn` when it was opened; after a fail-over the pool drops it."""


class EtcdCalls:
    """A client of etcd's gRPC services, for all lanes of a store.

    Any thread may call; a connection carries one call at a time. Each call can also be made step by step; another
    thread may take the next step.
    """

    def __init__(self, members: Members, authenticate: Callable[[], str], greeting: bytes = b"") -> None:
        self._members = members
        self._authenticate = authenticate
        self._greeting = greeting
        """A range request that reveals the cluster's id, sent before the first change over a new connection."""
        self.cluster = ""
        """Id of the cluster that answered last; a cluster restored from a snapshot has another id."""
        self._met: set[GrpcConnection] = set()
        """Connections whose cluster is known."""
        self._token = ""
        self._tls = members.tls("h2")
        self._idle: list[_PooledConnection] = []
        """Connections without a call, the most recently used last."""
        self._all: set[GrpcConnection] = set()
        self._latest = b""
        """The first bytes of the last answer, with its header."""
        self._terms: dict[tuple[str, int], int] = {}
        """The raft term that each member reported with its last status.

        Calls sent since then cannot be lost with an earlier leader, so a slow member is waited for again.
        """
        self._is_closed = False

    def ask(self, path: str, message: bytes) -> bytes:
        """Make a call that changes nothing; if a member does not answer, call another one."""
        return through(self.asking(path, message))

    def asking(self, path: str, message: bytes) -> Steps[bytes]:
        """Make a call that changes nothing, step by step."""
        return self._ask(path, message, None)

    def change(self, path: str, message: bytes, accepted: str = "") -> bytes:
        """Make a call that changes something; repeat it only if a member certainly did not carry it out.

        `accepted` is the id of the cluster that the caller's cache describes. With another one, raise `Conflict`.
        """
        return through(self.changing(path, message, accepted))

    def changing(self, path: str, message: bytes, accepted: str = "") -> Steps[bytes]:
        """Make a call that changes something, step by step."""
        return self._ask(path, message, accepted)

    @property
    def is_connected(self) -> bool:
        """True if a call can be sent without connecting or authenticating first."""
        idle = self._idle[-1:]  # a copy: another thread may take the connection
        return bool(idle) and idle[0].turn == self._members.turn and (bool(self._token) or not self._has_user)

    @property
    def _has_user(self) -> bool:
        return bool(self._members.address.user)

    def _ask(self, path: str, message: bytes, accepted: str | None) -> Steps[bytes]:
        """Ask one member after the other, until one answers or all were asked twice. See `change` for `accepted`."""
        changes = accepted is not None
        troubles: dict[str, None] = {}
        for _ in range(2 * self._members.count):
            turn = self._members.turn
            try:
                reply = yield from self._call(path, message, accepted)
            except OutcomeUnknown:
                self._members.next(turn)
                raise
            except Unreachable as error:
                troubles[str(error)] = None
                self._members.next(turn)
                continue
            if not reply.status:
                return reply.message
            troubles[f"etcd says: {reply.error}"] = None
            if reply.status == UNAUTHENTICATED and self._has_user:
                self._token = ""
                continue
            self._refuse(reply, turn, changes=changes)
        raise self._members.silent(troubles)

    def _refuse(self, reply: GrpcReply, turn: int, *, changes: bool) -> None:
        """Fail over after a refusal that another member may not give; raise any other, and any unknown outcome."""
        if reply.status in FINAL or not (changes or reply.status in TRANSIENT):
            raise explained(self._members.address, reply.status, reply.error)
        self._members.next(turn)
        if changes:
            raise OutcomeUnknown(f"etcd did not say whether it was written: {reply.error}")

    def _call(self, path: str, message: bytes, accepted: str | None) -> Steps[GrpcReply]:
        if not self.is_connected:
            yield None
        if self._has_user and not self._token:
            self._token = self._authenticate()
        pooled = self._take_connection()
        if accepted is not None and self._greeting:
            refusal = yield from self._check_cluster(pooled, accepted)
            if refusal is not None:
                return refusal
        reply = yield from self._exchange(pooled, path, message, changes=accepted is not None)
        self._return(pooled)
        return reply

    def _check_cluster(self, pooled: _PooledConnection, accepted: str) -> Steps[GrpcReply | None]:
        """Raise `Conflict` if this connection leads to another cluster; return etcd's reply if it refuses to say.

        A restored snapshot satisfies the compares of a change, too: only the cluster's id reveals the restore.
        """
        if pooled.connection not in self._met:
            reply = yield from self._exchange(pooled, RANGE, self._greeting, changes=False)
            if reply.status:
                self._return(pooled)
                return reply
        if self.cluster != accepted:
            self._return(pooled)
            raise Conflict("another cluster answers than before: etcd was restored")
        return None

    def _exchange(self, pooled: _PooledConnection, path: str, message: bytes, *, changes: bool) -> Steps[GrpcReply]:
        """Make one call on this connection. Raise `OutcomeUnknown` if a change was sent and not answered."""
        connection = pooled.connection
        authority = "{}:{}".format(*pooled.place)
        try:
            reply = yield from connection.calling(path, message, self._token, self._patience(pooled.place))
        except CallRefused as error:
            self._drop(connection)
            raise Unreachable(f"etcd at {authority}: {error}") from error
        except OSError as error:
            self._drop(connection)
            # etcd carries out whole messages only: the outcome is unknown once all of this one was sent.
            if changes and connection.is_sent:
                raise OutcomeUnknown(f"the connection to etcd broke before it answered: {error}") from error
            raise Unreachable(f"etcd at {authority}: {error}") from error
        except BaseException:  # interrupted or cancelled: the answer may still come
            self._drop(connection)
            raise
        self._latest = reply.message[:HEADER] or self._latest
        if connection not in self._met and reply.message:
            self.cluster = messages.cluster(reply.message[:HEADER])
            self._met.add(connection)
        return reply

    def _return(self, pooled: _PooledConnection) -> None:
        if pooled.connection.is_ending or len(self._idle) >= IDLE_MOST:
            self._drop(pooled.connection)
        else:
            self._idle.append(pooled)

    def _patience(self, place: tuple[str, int]) -> Callable[[], bool]:
        """Return what decides, after each silence, whether to wait longer for this member; it raises why not."""
        end, latest, known = time.monotonic() + TIMEOUT, self._latest, self._terms.get(place, 0)

        def goes_on() -> bool:
            is_over = time.monotonic() > end
            if self._members.count == 1 and not is_over:
                return True
            before = max(messages.term(latest), known)
            trouble, self._terms[place] = member_trouble(place, self._tls, self._token, before)
            if trouble or is_over:
                raise TimeoutError(trouble or f"it takes longer than {TIMEOUT:.0f} s")
            return True

        return goes_on

    def _take_connection(self) -> _PooledConnection:
        """Take a connection from the pool, or open one; no other call uses it until `_return`."""
        while True:
            if self._is_closed:
                raise Closed("this store is closed; connect again")
            try:
                pooled = self._idle.pop()
            except IndexError:
                return self._connect()
            if pooled.turn == self._members.turn:
                return pooled
            self._drop(pooled.connection)

    def _connect(self) -> _PooledConnection:
        turn = self._members.turn
        host, port = self._members.present
        try:
            made = GrpcConnection(host, port, self._members.patience, self._tls, SILENCE)
        except OSError as error:
            raise Unreachable(f"etcd at {host}:{port}: {error}") from error
        self._all.add(made)
        return _PooledConnection(made, (host, port), turn)

    def _drop(self, connection: GrpcConnection) -> None:
        connection.close()
        self._all.discard(connection)
        self._met.discard(connection)

    def close(self) -> None:
        """Close all connections; calls under way fail. Idempotent."""
        self._is_closed = True
        self._idle.clear()
        for connection in tuple(self._all):
            connection.shut_down()
            connection.close()
        self._all.clear()

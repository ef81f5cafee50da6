"""EtcdCalls of etcd's key-value service over connections that are kept, with fail-over between its members.

An answer that never came may have been carried out: whoever changes something says so, and gets `OutcomeUnknown`.
"""

from __future__ import annotations

import time

from leasehold.errors import Closed, Conflict, OutcomeUnknown, Unreachable
from leasehold.noun import Noun
from leasehold.stepwise import through
from leasehold.stores.etcd import messages
from leasehold.stores.etcd.grpc import CallRefused, GrpcConnection
from leasehold.stores.etcd.health import HEADER, SILENCE, TRANSIENT, member_trouble
from leasehold.stores.etcd.members import TIMEOUT
from leasehold.stores.etcd.refusals import FINAL, explained

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.stepwise import Steps
    from leasehold.stores.etcd.grpc import GrpcReply
    from leasehold.stores.etcd.members import Members

TRANSACTION = "/etcdserverpb.KV/Txn"
RANGE = "/etcdserverpb.KV/Range"
UNAUTHENTICATED = 16


class _PooledConnection(Noun):
    """A connection to one member."""

    connection: GrpcConnection
    place: tuple[str, int]
    turn: int
    """Whose turn it was when it was made."""


class EtcdCalls:
    """etcd, from the outside. A connection carries one call at a time, and is then kept for the next, whoever calls.

    Each call can also be made step by step, where the next step may be another thread's.
    """

    def __init__(self, members: Members, authenticate: Callable[[], str], greeting: bytes = b"") -> None:
        self._members = members
        self._authenticate = authenticate
        self._greeting = greeting
        """A range to ask for before anything is changed over a connection that has not told whose it is."""
        self.cluster = ""
        """The cluster that has answered, by its id: one that was restored from a snapshot is another one."""
        self.accepted = ""
        """The one that whoever changes something has reckoned with. Nothing is changed in another one."""
        self._met: set[GrpcConnection] = set()
        """Connections that have told whose they are: until they break, that stays so."""
        self._token = ""
        self._tls = members.tls("h2")
        self._idle: list[_PooledConnection] = []
        """Those without a call, the last one used last. As many as there ever were calls at the same time."""
        self._all: set[GrpcConnection] = set()
        self._latest = b""
        """How the last answer began."""
        self._terms: dict[tuple[str, int], int] = {}
        """How often a leader was elected, by what each said when it was last asked how it is.

        What it is asked from then on is not lost with a leader before: so slow disks, too, are waited for again.
        """
        self._is_closed = False

    def ask(self, path: str, message: bytes) -> bytes:
        """The answer to a call that changes nothing: another member is asked if one does not answer."""
        return through(self.asking(path, message))

    def asking(self, path: str, message: bytes) -> Steps[bytes]:
        """The same, step by step."""
        return self._ask(path, message, changes=False)

    def change(self, path: str, message: bytes) -> bytes:
        """The answer to a call that changes something: sent once, unless it certainly was not carried out."""
        return through(self.changing(path, message))

    def changing(self, path: str, message: bytes) -> Steps[bytes]:
        """The same, step by step."""
        return self._ask(path, message, changes=True)

    @property
    def is_connected(self) -> bool:
        """Whether a call can be sent at once."""
        idle = self._idle[-1:]  # another thread may take it
        return bool(idle) and idle[0].turn == self._members.turn and (bool(self._token) or not self._has_user)

    @property
    def _has_user(self) -> bool:
        return bool(self._members.address.user)

    def _ask(self, path: str, message: bytes, *, changes: bool) -> Steps[bytes]:
        troubles: dict[str, None] = {}
        for _ in range(2 * len(self._members)):
            turn = self._members.turn
            try:
                reply = yield from self._call(path, message, changes=changes)
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
        """Whoever can answer another time, another member can now; a refusal that this does not mend is told."""
        if reply.status in FINAL or not (changes or reply.status in TRANSIENT):
            raise explained(self._members.address, reply.status, reply.error)
        self._members.next(turn)
        if changes:
            raise OutcomeUnknown(f"etcd did not say whether it was written: {reply.error}")

    def _call(self, path: str, message: bytes, *, changes: bool) -> Steps[GrpcReply]:
        if not self.is_connected:
            yield None
        if self._has_user and not self._token:
            self._token = self._authenticate()
        line = self._take_line()
        if changes and self._greeting:
            refusal = yield from self._check_cluster(line)
            if refusal is not None:
                return refusal
        reply = yield from self._exchange(line, path, message, changes=changes)
        self._give_back(line)
        return reply

    def _check_cluster(self, line: _PooledConnection) -> Steps[GrpcReply | None]:
        """See that this connection leads where it is expected to; why that cannot be told, if etcd refuses to tell.

        What is compared within a change is in the snapshot, too: only the cluster's id tells that it was restored.
        """
        if line.connection not in self._met:
            reply = yield from self._exchange(line, RANGE, self._greeting, changes=False)
            if reply.status:
                self._give_back(line)
                return reply
        if self.cluster != self.accepted:
            self._give_back(line)
            raise Conflict("another cluster answers than before: etcd was restored")
        return None

    def _exchange(self, line: _PooledConnection, path: str, message: bytes, *, changes: bool) -> Steps[GrpcReply]:
        connection = line.connection
        authority = "{}:{}".format(*line.place)
        try:
            reply = yield from connection.calling(path, message, self._token, self._patience(line.place))
        except CallRefused as error:
            self._drop(connection)
            raise Unreachable(f"etcd at {authority}: {error}") from error
        except OSError as error:
            self._drop(connection)
            # What never left as a whole was never carried out. Once it was sent, nobody knows.
            if changes and connection.is_sent:
                raise OutcomeUnknown(f"the connection to etcd broke before it answered: {error}") from error
            raise Unreachable(f"etcd at {authority}: {error}") from error
        except BaseException:  # an interrupt, or nobody wants to know any more: the answer may still come
            self._drop(connection)
            raise
        self._latest = reply.message[:HEADER] or self._latest
        if connection not in self._met and reply.message:
            self.cluster = messages.cluster(reply.message[:HEADER])
            self._met.add(connection)
        return reply

    def _give_back(self, line: _PooledConnection) -> None:
        if line.connection.is_ending:
            self._drop(line.connection)
        else:
            self._idle.append(line)

    def _patience(self, place: tuple[str, int]) -> Callable[[], bool]:
        """Whether to wait on for a member that is asked now; raises why not."""
        end, latest, known = time.monotonic() + TIMEOUT, self._latest, self._terms.get(place, 0)

        def goes_on() -> bool:
            is_over = time.monotonic() > end
            if len(self._members) == 1 and not is_over:
                return True
            before = max(messages.term(latest), known)
            trouble, self._terms[place] = member_trouble(place, self._tls, self._token, before)
            if trouble or is_over:
                raise TimeoutError(trouble or f"it takes longer than {TIMEOUT:.0f} s")
            return True

        return goes_on

    def _take_line(self) -> _PooledConnection:
        """One that nobody else uses meanwhile, also not another call of this thread."""
        while True:
            if self._is_closed:
                raise Closed("this store is closed; connect again")
            try:
                line = self._idle.pop()
            except IndexError:
                return self._connect()
            if line.turn == self._members.turn:
                return line
            self._drop(line.connection)

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
        """Give everything back. Idempotent."""
        self._is_closed = True
        self._idle.clear()
        for connection in tuple(self._all):
            connection.hang_up()
            connection.close()
        self._all.clear()

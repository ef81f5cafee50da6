"""The PostgreSQL store: one database for any number of servers.

It decides nothing about who gets a lease. It keeps no session state, so connections may go through a proxy that pools
transactions, except for the one that listens, which only gives hints. See docs/how-to/postgresql.md.
"""

from __future__ import annotations

import os
import time
from _thread import allocate_lock, get_ident
from typing import TYPE_CHECKING

import psycopg

from leasehold.domain.timestamps import SECOND
from leasehold.errors import StoreError
from leasehold.stores import Capabilities
from leasehold.stores.layout import CONTROL, Layout
from leasehold.stores.postgres import failover, opening
from leasehold.stores.postgres.address import parse
from leasehold.stores.postgres.cache import PostgresCache
from leasehold.stores.postgres.connections import PostgresConnections, ask
from leasehold.stores.postgres.journal import PostgresJournal
from leasehold.stores.postgres.listener import NotificationListener
from leasehold.stores.postgres.round_trip import is_quiet
from leasehold.stores.postgres.rows import each_record, events_of, gathered, listed, signs_of
from leasehold.stores.postgres.transaction import PATIENCE, PostgresTransaction
from leasehold.stores.protocol import NetworkStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from leasehold.domain.entries import Drop, Put, Record
    from leasehold.domain.events import Event
    from leasehold.stores import HistoryQuery
    from leasehold.stores.postgres.connections import Connection, IdleReaders
    from leasehold.stores.postgres.last_turn import LastTurn

__all__ = ["PostgresStore"]

CHUNK = 250
"""The most turns whose events one call of `prune` deletes."""
SCAN_AT_ONCE = 2_000
HISTORY_AT_ONCE = 200
PRACTICE = 32
"""Turns of this server alone after which it loads all records."""
ALONE = 16
"""Turns of this server alone after which it assumes that the next is its own, too,"""
FRESH = 1.0
"""if the last was at most this many seconds ago."""
AGAIN = 1.0
"""Seconds before all records are loaded again;"""
TOO_MANY = 10.0
"""and if there were too many."""
COMPANY = 256
"""Turns of this server that name their changed records, after a turn of another server."""
_DAY = 24 * 3_600 * SECOND
_LAST = 2**62


class PostgresStore(NetworkStore):
    """A store in one PostgreSQL database. Transactions from one thread at a time, everything else from any."""

    capabilities = Capabilities(
        name="postgresql",
        durable="a crash of any server and of PostgreSQL, and a power cut (as its fsync and synchronous_commit say)",
        fifo=True,
        history=True,
        wakeup="in the same process at once, in others by LISTEN/NOTIFY; if all of it is lost, by checking every 0.5 s",
        receipts=True,
        poll=20_000,
        remote=True,
        batch=256,
    )
    layout = Layout()

    def __init__(
        self,
        url: str,
        *,
        lane: int = CONTROL,
        lanes: int | None = None,
        readers: IdleReaders | None = None,
        writer: Connection | None = None,
        is_examined: bool = False,
    ) -> None:
        """Open the database, and create the tables if there are none, unless it is only examined.

        `lane` is the number of the lane to open, and `lanes` how many there must be; lanes share their `readers`.
        `writer` is a connection that is open already. See `lane`.
        """
        self._url = url
        self.address = parse(url).of_lane(lane)
        self.connections = PostgresConnections(self.address, readers, writer)
        self.salt = b"%d" % self.address.salt
        self.channel = self.address.channel.encode()
        self.cache = PostgresCache()
        self.known: tuple[int, bytes | None] = (0, None)
        """Number and id of the turn as of which the cached records are true."""
        self.certain: LastTurn | None = None
        """Further facts as of the end of that turn, if it was this server's."""
        self.journal = PostgresJournal()
        """Changes of assumed turns that are not in the table yet."""
        self.engines: set[str] = set()
        """The keys of engines that use this store."""
        self.must_be_told = False
        """True if the database has other defaults, so that each transaction has to name its isolation."""
        self._id = os.urandom(16).hex()
        self._turns = 0
        self._company = 0
        self._alone = 0
        """Turns since the last one of another server."""
        self._all_at = 0.0
        """Before this time, all records are not loaded again."""
        self._mutex = allocate_lock()
        self._owner = 0
        self._telling = allocate_lock()
        self._latest = 0
        self._is_doubtful = False
        self._is_checked: Connection | None = None
        self._starting = allocate_lock()
        self._listener: NotificationListener | None = None
        self._told: list[Callable[[], None]] = []
        try:
            self.layout = opening.prepare(
                self.connections, lane=lane, lanes=lanes or self.address.lanes, is_examined=is_examined
            )
        except BaseException:
            self.connections.close()
            raise

    # ------------------------------------------------------------------------------------ the protocol

    def begin(self) -> PostgresTransaction:
        """Start a transaction. It waits for its turn when it loads something."""
        self.connections.check_usable()
        if self._owner == get_ident():
            raise StoreError("a transaction of this store is already under way in this thread")
        self._mutex.acquire()
        self._owner = get_ident()
        self.cache.trim()
        return PostgresTransaction(self)

    def hint(self) -> bool:
        """Return True if a notification came since the last call, or may have been missed."""
        return self._listening().take()

    def loss_mark(self) -> int:
        """Return a value that changes once any server may have ended leases of other holders."""
        return self._listening().losses

    def _listening(self) -> NotificationListener:
        self.connections.check_usable()
        with self._starting:
            if self._listener is None:
                self._listener = NotificationListener(self.address, self.engines, self._tell)
            return self._listener

    def listen(self, engine: str, told: Callable[[], None]) -> bool:  # noqa: ARG002 (the listener is for all engines)
        """Have `told` called, from the listening thread, as soon as there is a hint."""
        self._told.append(told)
        return False

    def _tell(self) -> None:
        for told in self._told:
            told()

    def read(self, keys: Iterable[str]) -> tuple[int, Mapping[str, Record]]:
        """Return the time and these records as of one moment, without excluding a transaction."""
        wanted = list(dict.fromkeys(keys))
        if self._is_doubtful:
            # Wait until the lost transaction, which had the turn, has committed or rolled back.
            self.connections.look("settle_doubt", {"patience": PATIENCE, "salt": self.address.salt})
            self._is_doubtful = False
        rows = self.connections.look("read", {"keys": listed(wanted).decode()})
        records = gathered(wanted, ((key, body) for _, key, body in rows if key is not None))
        return self.not_before(rows[0][0]), records

    def scan(self, kind: str) -> Iterator[tuple[str, Record]]:
        """Return every record whose key starts with this letter, as of one moment."""
        values = {"first": kind, "last": chr(ord(kind) + 1)}
        return each_record(self._each_row(self.connections.queries["scan"], values))

    def _each_row(self, text: str, values: dict[str, str]) -> Iterator[tuple[str, str]]:
        try:
            with self.connections.looking() as connection, connection.transaction():
                ask(connection, f"DECLARE leasehold_scan NO SCROLL CURSOR FOR {text}", values)
                while rows := ask(connection, f"FETCH {SCAN_AT_ONCE} FROM leasehold_scan")[0]:
                    yield from rows
        except psycopg.Error as error:
            raise self.connections.explain(error) from error

    def history(self, query: HistoryQuery) -> Sequence[Event]:
        """Return past events, newest first. A row has the events of a turn, which are filtered here."""
        found: list[Event] = []
        limit = max(query.limit, 0)
        asked = {
            **signs_of(query),
            "before": _LAST if query.before is None else query.before,
            "since": query.since or 0,
            "kinds": listed([f"%{kind}%" for kind in query.kinds]).decode(),
            "after": _LAST,
            "turns": HISTORY_AT_ONCE,
        }
        wanted = limit
        while len(found) < limit:
            turns = self.connections.look("history", {**asked, "wanted": wanted})
            if not turns:
                break
            for seq, events in turns:
                found += filter(query.wants, events_of(seq, events))
            asked["after"] = turns[-1][0]
            wanted *= 4
        return found[:limit]

    def prune(self) -> int:
        """Delete some history beyond its retention; return how many events."""
        values = {"age": self.address.retention_days * _DAY, "rows": self.address.retention_rows, "chunk": CHUNK}
        return int(self.connections.look("prune", values)[0][0])

    def lane(self, number: int) -> PostgresStore:
        """Open a lane of this store. The first takes over the connection that has read the number of lanes."""
        return PostgresStore(
            self._url,
            lane=number,
            lanes=self.layout.lanes,
            readers=self.connections.readers,
            writer=self._unused_writer(),
        )

    def _unused_writer(self) -> Connection | None:
        if not self._mutex.acquire(blocking=False):
            return None  # a transaction may be about to use it
        try:
            if self._is_checked is not None:
                return None
            writer, self.connections.own_writer = self.connections.own_writer, None
            return writer
        finally:
            self._mutex.release()

    def divide(self, lanes: int) -> int:
        """Change the number of lanes, all or nothing. Every process that has the store open is refused from then on."""
        from leasehold.stores.postgres.dividing import change_lanes  # noqa: PLC0415 (rare)

        change_lanes(self, lanes)
        return self.layout.lanes

    def close(self) -> None:
        """Close all connections. Idempotent."""
        if self._listener is not None and not self.connections.is_inherited():
            self._listener.close()
        self.connections.close()

    # ---------------------------------------------------------------------------- for our transactions

    def writer(self) -> Connection:
        """Return the connection that writes. If it is a new one, check which database is behind it."""
        connection = self.connections.writer()
        if connection is not self._is_checked:
            failover.check(self.connections, connection)
            self._is_checked = connection
        return connection

    def was_promoted(self) -> None:
        """Check the identity of the database again at the next turn: its timeline has changed."""
        self._is_checked = None

    def new_id(self) -> bytes:
        """Return a unique name for a turn."""
        self._turns += 1
        return f"{self._id}-{self._turns}".encode()

    def learn(self, number: int, id_: bytes | None, changed: list[str] | None) -> None:
        """Note which turn was the last, and forget the records that changed since the known one; None: perhaps all."""
        if id_ is not None and not id_.startswith(self._id.encode()):
            self._company = COMPANY
        self.doubt()
        if changed is None:
            self.cache.clear()
        else:
            self.cache.forget(changed)
        self.known = (number, id_)

    def doubt(self) -> None:
        """Wait for the next turns instead of assuming them. The first of them folds the journal."""
        self.certain = None
        self._alone = 0

    def assumed(self) -> LastTurn | None:
        """Return what the next turn may assume; None unless all records are cached and no other server was active."""
        connection = self._is_checked
        if (
            self.certain is None
            or not self.cache.is_whole
            or self._alone < ALONE
            or time.monotonic() - self.certain.at > FRESH
            or connection is None
            or connection.closed
            or not is_quiet(connection)
        ):
            return None
        return self.certain

    def may_assume(self) -> bool:
        """Return True if a transaction on cached records, begun now, could be decided without a trip."""
        return self.assumed() is not None

    def ready(self, keys: Sequence[str]) -> bool:
        """Return True if a transaction on these records could begin and decide now, without waiting for anything."""
        return not self._mutex.locked() and self.may_assume() and not self.cache.missing(keys)

    def wants_all(self) -> bool:
        """Return True if it is time to load all records."""
        if self.cache.is_whole or self._alone < PRACTICE or time.monotonic() < self._all_at:
            return False
        self._all_at = time.monotonic() + AGAIN
        return True

    def there_are_too_many(self) -> None:
        """Note that there are too many records to load all of them."""
        self._all_at = time.monotonic() + TOO_MANY

    @property
    def has_company(self) -> bool:
        """True if another server had a turn not long ago."""
        return self._company > 0

    def told_to_others(self, changes: Sequence[Put | Drop]) -> bytes | None:
        """Return the keys that a turn changes if there are other servers: they keep their other cached records."""
        if not self._company:
            return None
        self._company -= 1
        return listed({change.key for change in changes})

    def got_through(self, number: int, id_: bytes, since: int | None, certain: LastTurn) -> None:
        """Note that a turn was committed, and end it."""
        self.journal.settle(since)
        self.known, self.certain = (number, id_), certain
        self._alone += 1
        self._is_doubtful = False  # this turn began after the lost one had ended
        self.leave()

    def in_doubt(self) -> None:
        """Note that the outcome of a commit is unknown: `read` then waits until it has ended."""
        self._is_doubtful = True
        self.forget()
        self.connections.drop_writer()
        self.leave()

    def forget(self) -> None:
        """Forget everything that is cached."""
        self.doubt()
        self.cache.clear()
        self.known = (0, None)

    def leave(self) -> None:
        """End the transaction of this store."""
        if self._owner:
            self._owner = 0
            self._mutex.release()

    def not_before(self, now: int) -> int:
        """Return the time, but never an earlier one than before."""
        with self._telling:
            self._latest = max(self._latest, now)
            return self._latest

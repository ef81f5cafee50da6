"""The embedded store: one SQLite file for all processes of one machine, without a server.

It decides nothing about who gets a lease. A transaction is a turn at the gate and `BEGIN IMMEDIATE`. Records are cached
until another process writes. An acknowledged commit survives a power cut.
"""

from __future__ import annotations

from leasehold.domain.entries import EMPTY, Hold, Put
from leasehold.domain.records import build, due, pack, unpack
from leasehold.errors import StoreError
from leasehold.light_apsw import apsw  # before anything else imports apsw, and `collections` with it
from leasehold.stores import Capabilities
from leasehold.stores.cache import RECORDS, evict, follow

# isort: split
from leasehold.stores.sqlite.database import Database
from leasehold.stores.sqlite.files import OpenOptions
from leasehold.stores.sqlite.meta import EVENTS_MOST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import ClassVar

    from leasehold.domain.entries import Drop, Entry, Record
    from leasehold.domain.events import Event
    from leasehold.stores import HistoryQuery
    from leasehold.stores.sqlite.clock import Clock
    from leasehold.stores.sqlite.journal import Row, SqliteJournal
    from leasehold.stores.sqlite.reader import SqliteReader
    from leasehold.stores.sqlite.waking import Ear

__all__ = ["SqliteStore"]

LOAD = "SELECT key, body FROM entry WHERE key = ?"
AT_ONCE = 32
_LOAD_MANY = f"SELECT key, body FROM entry WHERE key IN ({', '.join(['?'] * AT_ONCE)})"  # noqa: S608 (a number)
_DUE = "SELECT due, key, id FROM entry WHERE due <= ? ORDER BY due LIMIT ?"
_PUT = """
INSERT INTO entry (key, id, due, body) VALUES (?, ?, ?, ?)
ON CONFLICT (key, id) DO UPDATE SET due = excluded.due, body = excluded.body
"""
_DROP = "DELETE FROM entry WHERE key = ? AND id = ?"
_TELL = "INSERT INTO event (seq, first, at, body) VALUES (?, ?, ?, json(?))"
DECODED = 4_096
"""Entries that are remembered by what is stored of them, see `decoded`."""
TRIM_EVERY = 1_000
"""Events between two checks for history beyond its retention."""


class SqliteStore:
    """A `Store` in one local file. Transactions from one thread at a time, everything else from any thread."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        name="sqlite",
        durable="a crash of any process and a power cut",
        fifo=True,
        history=True,
        wakeup="in the same process at once, in others by a FIFO; if that fails, by checking every 40 ms",
        receipts=False,
        poll=20_000,
    )

    def __init__(
        self,
        path: str,
        *,
        clock: Clock | None = None,
        accept_restore: bool = False,
        retention_days: int = 30,
        retention_rows: int = 1_000_000,
        cache_records: int = RECORDS,
        busy_ms: int = 5_000,
        mounts: str | None = None,
        is_one_shot: bool = False,
        creates_directory: bool = True,
    ) -> None:
        self._records: dict[str, Record] = {}
        """Cached, the oldest first."""
        self._limit = cache_records
        options = OpenOptions(
            accept_restore, busy_ms, mounts, is_one_shot=is_one_shot, creates_directory=creates_directory
        )
        self._database = Database(path, clock, self._records.clear, options)
        self._retention = (retention_days, retention_rows)
        self._hinted = self._database.opened_at
        self._reader: SqliteReader | None = None
        self._ear: Ear | None = None

    def begin(self) -> SqliteTransaction:
        """Start a transaction. Block until it is this caller's turn."""
        self._database.enter()
        if len(self._records) > self._limit:
            evict(self._records, self._limit)
        return SqliteTransaction(self._database, self._records, self._retention)

    def hint(self) -> bool:
        """Return True if another process has committed since the last call.

        A transaction in between does not count as a call: it reads some records, not those of all waiters.
        """
        version = self._database.peek_version()
        if version is None or version == self._hinted:
            return False
        self._hinted = version
        return True

    def listen(self, engine: str, told: Callable[[], None]) -> bool:
        """Have `told` called, from a thread of its own, when another process wakes the engine of this key."""
        from leasehold.stores.sqlite.waking import hear  # noqa: PLC0415 (only for processes that wait)

        self._database.check_usable()
        if self._ear is None:
            self._ear = hear(self._database.path, engine, told)
        return self._ear is not None

    def wake(self, engines: Sequence[str]) -> None:
        """Wake these engines of other processes, if they listen."""
        if engines:
            from leasehold.stores.sqlite.waking import wake  # noqa: PLC0415 (only if others waited)

            wake(self._database.path, engines)

    def loss_mark(self) -> int:
        """Return a value that changes with each commit of any process, this one included."""
        return self._reading().version()

    def read(self, keys: Iterable[str]) -> tuple[int, Mapping[str, Record]]:
        """Return the time and these records as of one moment, without excluding a transaction."""
        return self._reading().read(keys)

    def scan(self, kind: str) -> Iterator[tuple[str, Record]]:
        """Return every record whose key starts with this letter, as of one moment."""
        return self._reading().scan(kind)

    def history(self, query: HistoryQuery) -> Sequence[Event]:
        """Return past events, newest first."""
        return self._reading().history(query)

    def _reading(self) -> SqliteReader:
        self._database.check_usable()
        if self._reader is None:
            from leasehold.stores.sqlite.reader import SqliteReader  # noqa: PLC0415 (a plain acquire does not read)

            self._reader = SqliteReader(self._database)
        return self._reader

    def prune(self) -> int:
        """Delete some history beyond its retention; return how many events. A commit deletes some, too."""
        from leasehold.stores.sqlite.pruning import Retention, prune  # noqa: PLC0415 (rare)

        return prune(self._database, Retention(*self._retention))

    def close(self) -> None:
        """Close the database. Idempotent."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._ear is not None:
            self._ear.close()
            self._ear = None
        self._database.close()


class SqliteTransaction:
    """One transaction: a turn at the gate."""

    __slots__ = (
        "_after",
        "_committed",
        "_database",
        "_is_over",
        "_records",
        "_retention",
        "_row",
        "fence",
        "now",
        "opens_at",
    )

    def __init__(self, database: Database, records: dict[str, Record], retention: tuple[int, int]) -> None:
        self._database = database
        self._records = records
        self._retention = retention
        self._is_over = False
        self._committed: Sequence[Put | Drop] | None = None
        """The committed changes; `close` applies them to the cache."""
        self._after: Mapping[str, Record] | None = None
        """The changed records as they are now, if the caller knows them."""
        self._row: Row | None = None
        """The row of the journal that it was written to; `close` adds it to the journal in memory."""
        self.now = database.time(database.meta)
        self.fence = database.meta.fence
        self.opens_at = database.log.mark.opens_at

    def load(self, keys: Iterable[str]) -> Mapping[str, Record]:
        """Return the cached records, among them these."""
        self._check_under_way()
        known = self._records
        missing = [key for key in dict.fromkeys(keys) if key not in known]
        if missing:
            try:
                rows = loaded(self._database.cursor, missing)
            except apsw.Error as error:
                raise self._database.explain(error) from error
            known.update(gathered(missing, rows, self._database.journal))
        return known

    def due(self, limit: int) -> Sequence[str]:
        """Return keys of records with an entry that is due, the most urgent first."""
        self._check_under_way()
        journal = self._database.journal
        most = limit if journal is None else limit + journal.length  # this many rows may be out of date
        try:
            rows = list(self._database.connection.execute(_DUE, (self.now, most)))
        except apsw.Error as error:
            raise self._database.explain(error) from error
        found = [row[:2] for row in rows] if journal is None else journal.come_due(rows, self.now)[:limit]
        return list(dict.fromkeys(key for _, key in found))

    def commit(
        self,
        changes: Sequence[Put | Drop],
        events: Sequence[Event],
        fence: int,
        after: Mapping[str, Record] | None = None,
    ) -> None:
        """Make all of this durable, or none of it. The turn lasts until `close`, unless this fails."""
        self._check_under_way()
        if not changes and not events and fence == self.fence:
            self.close()
            return
        database = self._database
        database.doubt()
        asks = [change[1].ask for change in changes if isinstance(change[1], Hold)]
        database.log.longest = max([database.log.longest, *[ask.ttl + ask.grace for ask in asks if ask is not None]])
        try:
            if database.journal is None:
                write(database.cursor, changes if after is not None else last_of_each(changes))
                write_events(database.cursor, events, database.meta.seq + 1)
                self._trim(database.meta.seq + 1, database.meta.seq + len(events))
                database.commit(fence, len(events), self.now)
            else:
                self._journal(database.journal, changes, events, fence)
            self._committed, self._after = changes, after
        except BaseException as error:
            self.close()
            if isinstance(error, apsw.Error):
                raise database.explain(error) from error
            raise

    def _journal(
        self, journal: SqliteJournal, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int
    ) -> None:
        """Write one row of the journal, or fold the journal and this commit into the tables."""
        database = self._database
        newest = journal.seq + len(events)
        has_room = database.is_journalling and journal.has_room_for(changes, events)
        if has_room and not self._has_much_to_forget(journal, len(events)):
            self._row = journal.write(database.cursor, (fence, newest, self.now), changes, events)
            database.commit(fence, len(events), self.now, rows=1)
            return
        journal.add(changes, events)
        journal.follow(changes, self._records)
        journal.fold(database.cursor)
        self._trim(journal.first, newest)
        database.commit(fence, len(events), self.now)

    def _has_much_to_forget(self, journal: SqliteJournal, written: int) -> bool:
        """Check now and then: return True if too much history is beyond its retention to wait for the next fold."""
        newest = journal.seq + written
        if not is_time_to_trim(newest - written + 1, newest):
            return False
        from leasehold.stores.sqlite.pruning import Retention, is_overdue  # noqa: PLC0415 (rare)

        return is_overdue(self._database.connection, Retention(*self._retention), newest, self.now, journal.first)

    def _trim(self, first: int, newest: int) -> None:
        """Delete old history now and then, after these events: one-shot processes never prune."""
        if is_time_to_trim(first, newest):
            from leasehold.stores.sqlite.pruning import Retention, trim  # noqa: PLC0415 (rare)

            trim(self._database.connection, Retention(*self._retention), newest, self.now, newest - first + 1)

    def _check_under_way(self) -> None:
        if self._is_over or self._committed is not None:
            raise StoreError("this transaction is over; begin another")

    def close(self) -> None:
        """End the turn; roll back what was not committed."""
        if self._is_over:
            return
        self._is_over = True
        try:
            if self._committed is not None:
                self._remember(self._committed)
        finally:
            self._database.leave()

    def _remember(self, changes: Sequence[Put | Drop]) -> None:
        """Apply the committed changes to the cache. Runs after waiters are notified, to shorten hand-off."""
        journal = self._database.journal
        if self._row is not None and journal is not None:
            journal.append(self._row)
            journal.follow(changes, self._records)
        if self._after is None:
            follow(self._records, changes)
        else:
            self._records.update(self._after)  # they keep their age: to evict one only costs a load
        self._database.trust()


def loaded(cursor: apsw.Cursor, keys: list[str]) -> list[tuple[str, bytes]]:
    """Return the rows of these records' entries. A query for 32 keys takes little more than half the time of 32."""
    rows: list[tuple[str, bytes]] = []
    for place in range(0, len(keys), AT_ONCE):
        some = keys[place : place + AT_ONCE]
        whole = len(some) == AT_ONCE
        rows += cursor.execute(_LOAD_MANY, some) if whole else cursor.executemany(LOAD, [(key,) for key in some])
    return rows


def write(cursor: apsw.Cursor, changes: Sequence[Put | Drop]) -> None:
    """Write changes into the table, in the current transaction. Each entry is changed once."""
    puts: list[tuple[str, str, int | None, bytes]] = []
    drops: list[Drop] = []
    for change in changes:
        if isinstance(change, Put):
            key, entry = change
            puts.append((key, entry.id, due(entry), encoded(entry)))
        else:
            drops.append(change)
    if drops:
        cursor.executemany(_DROP, drops)
    if puts:
        cursor.executemany(_PUT, puts)


def write_events(cursor: apsw.Cursor, events: Sequence[Event], first: int) -> None:
    """Write these events, numbered from `first`. SQLite writes the JSON, so that no encoder has to be imported."""
    for start in range(0, len(events), EVENTS_MOST):
        some = events[start : start + EVENTS_MOST]
        last = first + start + len(some) - 1
        body = apsw.jsonb_encode(some, check_circular=False)
        cursor.execute(_TELL, (last, first + start, max([event.at_us for event in some]), body))


def is_time_to_trim(first: int, newest: int) -> bool:
    """Return True if old history is to be deleted after these events."""
    return first // TRIM_EVERY != (newest + 1) // TRIM_EVERY


def last_of_each(changes: Sequence[Put | Drop]) -> Sequence[Put | Drop]:
    """Return the last change of each entry."""
    last = {(change.key, change.entry.id if isinstance(change, Put) else change.id): change for change in changes}
    return list(last.values())


def encoded(entry: Entry) -> bytes:
    """Return the entry as its row contains it."""
    return apsw.jsonb_encode(pack(entry), check_circular=False)


_decoded: dict[bytes, Entry] = {}


def decoded(body: bytes) -> Entry:
    """Return the entry that this is stored as.

    After a commit of another process all cached records are read again, and most entries of a long queue are as before:
    to look them up takes a twentieth of decoding them.
    """
    entry = _decoded.get(body)
    if entry is None:
        if len(_decoded) >= DECODED:
            _decoded.clear()
        entry = _decoded[body] = unpack(apsw.jsonb_decode(body))
    return entry


def gathered(
    keys: Sequence[str], rows: Iterable[tuple[str, bytes]], journal: SqliteJournal | None
) -> dict[str, Record]:
    """Build the records of these keys from their rows and the journal."""
    entries: dict[str, list[Entry]] = {}
    for key, body in rows:
        entries.setdefault(key, []).append(decoded(body))
    if journal is not None:
        return {key: build(journal.over(key, entries.get(key, ()))) for key in keys}
    return {key: build(entries[key]) if key in entries else EMPTY for key in keys}

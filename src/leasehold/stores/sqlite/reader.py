"""Read records and history, each as of one moment, without excluding a transaction. It never writes.

The write-ahead log lets readers see the last commit while the next one is under way. Connections of their own let any
thread read while the engine's thread has a transaction open.
"""

from __future__ import annotations

from _thread import allocate_lock

import apsw

from leasehold.domain.records import grouped, unpack
from leasehold.stores.sqlite import LOAD, event_rows, gathered
from leasehold.stores.sqlite.database import abandon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from leasehold.domain.entries import Record
    from leasehold.domain.events import Event
    from leasehold.stores import HistoryQuery
    from leasehold.stores.sqlite.database import Database
    from leasehold.stores.sqlite.journal import SqliteJournal
    from leasehold.stores.sqlite.meta import SqliteMeta

_SCAN = "SELECT key, body FROM entry WHERE key >= ? AND key < ? ORDER BY key"
_EVENTS = "SELECT jsonb(body), seq, first FROM event WHERE {} ORDER BY seq DESC"
_JOURNALLED = "SELECT jsonb_extract(body, '$[2]'), seq FROM journal ORDER BY number DESC"
"""The events of each row, and the number of the last of them."""
_AFTER_EVERY_LETTER = "\U0010ffff"


class SqliteReader:
    """The connections of one database that only read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = allocate_lock()
        self._connection: apsw.Connection | None = None
        self._journal: SqliteJournal | None = None

    def read(self, keys: Iterable[str]) -> tuple[int, Mapping[str, Record]]:
        """Return the time and these records."""
        wanted = list(dict.fromkeys(keys))
        try:
            with self._lock:
                connection = self._connection = self._connection or self._database.connect()
                with connection:
                    meta = self._database.read_meta(connection)
                    self._journal = journal_of(connection, meta, self._journal)
                    rows = connection.executemany(LOAD, [(key,) for key in wanted])
                    records = gathered(wanted, rows, self._journal)
        except apsw.Error as error:
            raise self._database.explain(error) from error
        return self._database.time(meta), records

    def version(self) -> int:
        """Return a value that changes with each commit, also with those of this process's writing connection."""
        try:
            with self._lock:
                connection = self._connection = self._connection or self._database.connect()
                return int(connection.execute("PRAGMA data_version").get)
        except apsw.Error as error:
            raise self._database.explain(error) from error

    def scan(self, kind: str) -> Iterator[tuple[str, Record]]:
        """Return every record of this kind. The log cannot be emptied before the last one is taken."""
        connection = self._database.connect()
        try:
            connection.execute("BEGIN")
            journal = journal_of(connection, self._database.read_meta(connection), kind=kind)
            rows = connection.execute(_SCAN, (kind, kind + _AFTER_EVERY_LETTER))
            found = ((key, unpack(apsw.jsonb_decode(body))) for key, body in rows)
            yield from grouped(found if journal is None else journal.merged(kind, found))
        except apsw.Error as error:
            raise self._database.explain(error) from error
        finally:
            connection.close()

    def history(self, query: HistoryQuery) -> list[Event]:
        """Return past events, newest first."""
        where, bindings = event_rows.condition(query)
        connection = self._database.connect()
        try:
            connection.execute("BEGIN")
            found: list[Event] = []
            for rows in (connection.execute(_JOURNALLED), connection.execute(_EVENTS.format(where), bindings)):
                while len(found) < query.limit and (row := rows.fetchone()) is not None:
                    found += filter(query.wants, event_rows.events_in(*row))
            return found[: max(query.limit, 0)]
        except apsw.Error as error:
            raise self._database.explain(error) from error
        finally:
            connection.close()

    def close(self) -> None:
        """Wait for running reads, and close the connection."""
        if self._connection is not None and self._database.is_inherited():
            abandon(self._connection)
            return
        with self._lock:
            if self._connection is not None:
                self._connection.close()


def journal_of(
    connection: apsw.Connection, meta: SqliteMeta, known: SqliteJournal | None = None, kind: str = ""
) -> SqliteJournal | None:
    """Return the journal as this transaction sees it, read on from `known`; None if there is none.

    With a kind of record, it may lack changes of others: a server reads its API keys every second, and the journal
    mostly has none.
    """
    if meta.number == meta.folded:
        return None
    from leasehold.stores.sqlite.journal import SqliteJournal  # noqa: PLC0415 (only where there is one)

    journal = known or SqliteJournal()
    journal.catch_up(connection, meta, kind)
    return journal

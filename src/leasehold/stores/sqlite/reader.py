"""Looking without keeping anybody out: records, scans and history, each as of one moment. It never writes.

A write-ahead log lets readers see the last commit while the next one is under way. Connections of its own, so
that any thread may look while the engine's thread has a transaction open.
"""

from __future__ import annotations

from _thread import allocate_lock

import apsw

from leasehold.domain.records import grouped
from leasehold.stores.codec import unpack
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
    """The reading side of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = allocate_lock()
        self._connection: apsw.Connection | None = None
        self._journal: SqliteJournal | None = None

    def read(self, keys: Iterable[str]) -> tuple[int, Mapping[str, Record]]:
        """The time and these records."""
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
        """Another value once anybody has committed: to this connection, the writer of our own process is another."""
        try:
            with self._lock:
                connection = self._connection = self._connection or self._database.connect()
                return int(connection.execute("PRAGMA data_version").get)
        except apsw.Error as error:
            raise self._database.explain(error) from error

    def scan(self, kind: str) -> Iterator[tuple[str, Record]]:
        """Every record of this kind. The log cannot be emptied before the last one is taken."""
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
        """Past events, newest first."""
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
        """Wait for readers, and close the connection."""
        if self._connection is not None and self._database.is_inherited():
            abandon(self._connection)
            return
        with self._lock:
            if self._connection is not None:
                self._connection.close()


def journal_of(
    connection: apsw.Connection, meta: SqliteMeta, known: SqliteJournal | None = None, kind: str = ""
) -> SqliteJournal | None:
    """The journal as this transaction sees it, read on from what is known of it; None if there is none.

    For one kind of record: a server looks for its keys every second, and mostly there are none in it.
    """
    if meta.number == meta.folded:
        return None
    from leasehold.stores.sqlite.journal import SqliteJournal  # noqa: PLC0415 (only where there is one)

    journal = known or SqliteJournal()
    journal.catch_up(connection, meta, kind)
    return journal

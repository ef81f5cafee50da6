"""Looking without keeping anybody out: records, scans and history, each as of one moment. It never writes.

A write-ahead log lets readers see the last commit while the next one is under way. Connections of its own, so
that any thread may look while the engine's thread has a transaction open.
"""

from __future__ import annotations

from _thread import allocate_lock

import apsw

from leasehold.domain.events import Event
from leasehold.domain.records import grouped
from leasehold.stores.codec import unpack
from leasehold.stores.sqlite import LOAD, chapters, gathered
from leasehold.stores.sqlite.database import abandon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from leasehold.domain.entries import Record
    from leasehold.stores import HistoryQuery
    from leasehold.stores.sqlite.database import Database
    from leasehold.stores.sqlite.journal import Journal
    from leasehold.stores.sqlite.meta import Meta

_SCAN = "SELECT key, body FROM entry WHERE key >= ? AND key < ? ORDER BY key"
_EVENTS = f"""
SELECT kind, at, space, resources, holder, session, lease, fence, detail, seq, first, {chapters.BODY} FROM event
"""  # noqa: S608 (a word of our own)
_JOURNALLED = "SELECT seq, jsonb_extract(CAST(body AS TEXT), '$[2]') FROM journal ORDER BY number DESC"
"""The events of each row, as they are in a chapter, and the number of the last of them."""
_AFTER_EVERY_LETTER = "\U0010ffff"


class Reader:
    """The reading side of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = allocate_lock()
        self._connection: apsw.Connection | None = None
        self._journal: Journal | None = None

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
        where, bindings = _where(query)
        connection = self._database.connect()
        try:
            connection.execute("BEGIN")
            found: list[Event] = []
            for told in _newest_first(connection, f"{_EVENTS} WHERE {where} ORDER BY seq DESC", bindings):
                if len(found) >= query.limit:
                    break
                found += [event for event in told if query.wants(event)]
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


def journal_of(connection: apsw.Connection, meta: Meta, known: Journal | None = None, kind: str = "") -> Journal | None:
    """The journal as this transaction sees it, read on from what is known of it; None if there is none.

    For one kind of record: a server looks for its keys every second, and mostly there are none in it.
    """
    if meta.number == meta.folded:
        return None
    from leasehold.stores.sqlite.journal import Journal  # noqa: PLC0415 (only where there is one)

    journal = known or Journal()
    journal.catch_up(connection, meta, kind)
    return journal


def _where(query: HistoryQuery) -> tuple[str, list[str | int | bytes]]:
    """Lone events that are asked for, and chapters that may have some."""
    conditions, bindings = _conditions(query)
    of_chapters, more = chapters.conditions(query)
    either = f"({' AND '.join(conditions)} OR {' AND '.join(of_chapters)})"
    if query.before is None:
        return either, bindings + more
    return f"seq < ? AND {either}", [query.before + chapters.MOST, *bindings, *more]


def _conditions(query: HistoryQuery) -> tuple[list[str], list[str | int | bytes]]:
    conditions = ["first IS NULL"]
    bindings: list[str | int | bytes] = []

    def add(condition: str, *values: str | int | bytes) -> None:
        conditions.append(condition)
        bindings.extend(values)

    if query.space is not None:
        add("space = ?", query.space)
    if query.holder is not None:
        add("holder = ?", query.holder)
    if query.lease is not None:
        add("lease = ?", query.lease)
    if query.since is not None:
        add("at >= ?", query.since)
    if query.before is not None:
        add("seq < ?", query.before)
    if query.kinds:
        add(f"kind IN ({', '.join('?' * len(query.kinds))})", *query.kinds)
    if query.resource is not None:
        # Names stand in JSONB as they are written: most events are ruled out without being parsed.
        add("instr(resources, ?)", query.resource.encode())
        add("EXISTS (SELECT 1 FROM json_each(resources) WHERE value = ?)", query.resource)
    return conditions, bindings


def _newest_first(connection: apsw.Connection, query: str, bindings: list[Any]) -> Iterator[list[Event]]:
    """All events, some at a time: what is in the journal is newer than what is in the table."""
    for seq, body in connection.execute(_JOURNALLED):
        yield chapters.events_in(body, seq)[::-1]
    for row in connection.execute(query, bindings):
        yield _events_in(row)


def _events_in(row: tuple[Any, ...]) -> list[Event]:
    """A row's events, newest first. The columns stand in the order of the noun's fields."""
    kind, at, space, resources, holder, session, lease, fence, detail, seq, first, body = row
    if body is not None:
        return chapters.events_in(body, seq, first)[::-1]
    told = apsw.jsonb_decode(detail) if detail is not None else {}
    return [Event(kind, at, space, tuple(apsw.jsonb_decode(resources)), holder, session, lease, fence, told, seq)]

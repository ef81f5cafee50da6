"""Looking without keeping anybody out: records, scans and history, each as of one moment. It never writes.

A write-ahead log lets readers see the last commit while the next one is under way. Connections of its own, so
that any thread may look while the engine's thread has a transaction open.
"""

from __future__ import annotations

from _thread import allocate_lock

import apsw

from leasehold.model import Event
from leasehold.records import grouped
from leasehold.stores.codec import unpack
from leasehold.stores.sqlite import LOAD, gathered
from leasehold.stores.sqlite.database import abandon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from leasehold.model import Record
    from leasehold.stores import HistoryQuery
    from leasehold.stores.sqlite.database import Database

_SCAN = "SELECT key, body FROM entry WHERE key >= ? AND key < ? ORDER BY key"
_EVENTS = "SELECT kind, at, space, resources, holder, session, lease, fence, detail, seq FROM event"
_AFTER_EVERY_LETTER = "\U0010ffff"


class Reader:
    """The reading side of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = allocate_lock()
        self._connection: apsw.Connection | None = None

    def read(self, keys: Iterable[str]) -> tuple[int, Mapping[str, Record]]:
        """The time and these records."""
        wanted = list(dict.fromkeys(keys))
        try:
            with self._lock:
                connection = self._connection = self._connection or self._database.connect()
                with connection:
                    meta = self._database.read_meta(connection)
                    records = gathered(wanted, connection.executemany(LOAD, [(key,) for key in wanted]))
        except apsw.Error as error:
            raise self._database.explain(error) from error
        return self._database.time(meta), records

    def scan(self, kind: str) -> Iterator[tuple[str, Record]]:
        """Every record of this kind. The log cannot be emptied while somebody is at it, so do not dawdle."""
        connection = self._database.connect()
        try:
            rows = connection.execute(_SCAN, (kind, kind + _AFTER_EVERY_LETTER))
            yield from _records(rows)
        except apsw.Error as error:
            raise self._database.explain(error) from error
        finally:
            connection.close()

    def history(self, query: HistoryQuery) -> list[Event]:
        """Past events, newest first."""
        conditions, bindings = _conditions(query)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        connection = self._database.connect()
        try:
            rows = connection.execute(f"{_EVENTS}{where} ORDER BY seq DESC LIMIT ?", (*bindings, max(query.limit, 0)))
            return [_event(row) for row in rows]
        except apsw.Error as error:
            raise self._database.explain(error) from error
        finally:
            connection.close()

    def close(self) -> None:
        """Wait for whoever reads, and give the connection back."""
        if self._connection is not None and self._database.is_inherited():
            abandon(self._connection)
            return
        with self._lock:
            if self._connection is not None:
                self._connection.close()


def _records(rows: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, Record]]:
    return grouped((key, unpack(apsw.jsonb_decode(body))) for key, body in rows)


def _conditions(query: HistoryQuery) -> tuple[list[str], list[str | int | bytes]]:
    conditions: list[str] = []
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


def _event(row: tuple[Any, ...]) -> Event:
    """The columns stand in the order of the noun's fields."""
    kind, at, space, resources, holder, session, lease, fence, detail, seq = row
    told = apsw.jsonb_decode(detail) if detail is not None else {}
    return Event(kind, at, space, tuple(apsw.jsonb_decode(resources)), holder, session, lease, fence, told, seq)

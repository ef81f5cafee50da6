"""Read the facts about a database for `leasehold doctor`. It takes no turn, writes nothing and judges nothing."""

# ruff: noqa: PTH110, PTH202

from __future__ import annotations

import os

import apsw

from leasehold.domain.nouns import Noun
from leasehold.stores.sqlite.event_rows import OLDEST
from leasehold.stores.sqlite.failures import explained
from leasehold.stores.sqlite.files import check_files
from leasehold.stores.sqlite.gate import Gate
from leasehold.stores.sqlite.meta import READ_META, SqliteMeta
from leasehold.stores.sqlite.reader import journal_of

SMALL = 64 * 1024 * 1024
"""Databases of up to this many bytes are checked for damage as a whole."""
_BUSY_MS = 2_000
_OLDEST_IN_JOURNAL = """
SELECT body ->> '$[2][0][1]' AS at FROM journal WHERE at IS NOT NULL ORDER BY number LIMIT 1
"""


class SqliteFacts(Noun):
    """Facts about a database and the files beside it."""

    schema: int
    fence: int
    """The next unused fence."""
    mark: int | None
    """The first unused fence by the mark at the gate; None without a mark."""
    is_steady: bool
    """True if the clock counts from boot, so that steps of the wall clock do not affect it."""
    events: int
    oldest: int | None
    """Time of the oldest event."""
    size: int
    log: int
    """Size of the write-ahead log."""
    damage: str | None
    """The damage of the file; empty if there is none, None if the file is too large to be checked."""


def look(path: str) -> SqliteFacts:
    """Return the facts. Raises `StoreError` if they cannot be read."""
    try:
        check_files(path)
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(_BUSY_MS)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.execute("BEGIN")  # all of it as of one moment
            return _facts(connection, path)
        finally:
            connection.close()
    except (apsw.Error, OSError) as error:
        raise explained(path, error) from error


def _facts(connection: apsw.Connection, path: str) -> SqliteFacts:
    mark, size = _mark(path), os.path.getsize(path)
    meta = SqliteMeta(*connection.execute(READ_META).get)
    events, oldest = _history(connection, meta)
    damage = str(connection.execute("PRAGMA quick_check(1)").get) if size <= SMALL else None
    return SqliteFacts(
        connection.execute("PRAGMA user_version").get,
        meta.fence,
        mark,
        meta.boot != "wall",
        events,
        oldest,
        size,
        os.path.getsize(path + "-wal") if os.path.exists(path + "-wal") else 0,
        "" if damage == "ok" else damage,
    )


def _history(connection: apsw.Connection, meta: SqliteMeta) -> tuple[int, int | None]:
    """Return how many events there are, and the time of the oldest."""
    oldest = [row[2] for row in connection.execute(OLDEST)]
    journal = journal_of(connection, meta)
    count = connection.execute("SELECT coalesce(sum(seq - first + 1), 0) FROM event").get
    if journal is None or not journal.told:
        return count, next(iter(oldest), None)
    return count + journal.told, next(iter(oldest), connection.execute(_OLDEST_IN_JOURNAL).get)


def _mark(path: str) -> int | None:
    if not os.path.exists(path + ".gate"):
        return None
    gate = Gate(path + ".gate")
    try:
        mark = gate.mark()
        return None if mark is None else mark.fence
    finally:
        gate.close()

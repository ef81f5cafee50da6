"""Work of long-running processes only: keep a long log, and leave no journal behind. It knows nothing of records.

The log is written to its full length in advance. A commit that makes a file grow also commits the file system's own
journal, with the writes of other programs; a commit that overwrites does not. SQLite ignores what lies behind the end
of its log: it stops reading where the check sums do not match.
"""

from __future__ import annotations

import os

import apsw

from leasehold.errors import StoreError
from leasehold.stores.sqlite.wal import FRAME, HEAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.stores.sqlite.database import Database

CHECKPOINT = 8_000
"""Pages in the log before it is copied into the database file. A copy stalls all requests for two syncs.
Every 2,000 pages that met one request in a hundred (64 connections: p99 3 to 7 ms); now the p99 is 2.6 ms.
"""
EARLY = CHECKPOINT * 3 // 4
"""Pages if the journal is folded in the same commit: better stall one caller for both than two."""
CHUNK = 1 << 20


def stay(database: Database) -> None:
    """Make the log long, and have it overwritten in place from now on. Called within a transaction."""
    log = database.log
    log.limit, log.fold_limit = CHECKPOINT, EARLY
    log.checkpoint_mode = apsw.SQLITE_CHECKPOINT_PASSIVE
    try:
        lengthen(f"{database.path}-wal", CHECKPOINT, database.connection.execute("PRAGMA page_size").get)
    except OSError:
        return  # it only makes commits faster; the commit itself reports a failing disk


def lengthen(log: str, pages: int, page_size: int) -> None:
    """Make room for this many pages. Only during a turn, so that no other process appends meanwhile."""
    # SQLite's own locks are on other files, so closing this one releases none.
    handle = os.open(log, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        at, end = os.fstat(handle).st_size, HEAD + pages * (FRAME + page_size)
        while at < end:
            at += os.pwrite(handle, bytes(min(CHUNK, end - at)), at)
        os.fsync(handle)
    finally:
        os.close(handle)


def fold_at_last(database: Database) -> None:
    """Fold the journal and empty the log, unless another process writes: then the database file alone has everything.

    The next process need not read the log, and a copy of the one file is a copy of everything.
    """
    if not database.gate.try_to_take():
        return
    try:
        database.connection.set_busy_timeout(0)
        database.begin()
        has_journal = database.journal is not None and database.meta.number != database.meta.folded
        if database.journal is not None and has_journal:
            database.journal.fold(database.cursor)
        if has_journal or database.log.frames:
            _empty_log(database)
    except (apsw.Error, OSError, StoreError):
        pass  # all of it is in the log, where the next process finds it and reports the failure
    finally:
        database.gate.release()


def _empty_log(database: Database) -> None:
    """Commit, and copy the whole log into the database file, unless another process reads just now."""
    database.log.limit = database.log.fold_limit = 0
    database.log.checkpoint_mode = apsw.SQLITE_CHECKPOINT_TRUNCATE
    database.commit(database.meta.fence, 0, database.meta.now)
    database.write_mark()

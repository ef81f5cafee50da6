"""What only a process that stays does: a long log, and no journal left behind. It knows nothing of records.

The log is written to its full length before it is needed. Each commit into a file that grows has the file system commit
its own journal as well, with whatever other programs have put in there; a commit over what is there already has not.
What lies behind the end of the log means nothing to SQLite: it stops reading where the check sums stop being right.
"""

from __future__ import annotations

import os

import apsw

from leasehold.errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.stores.sqlite.database import Database

CHECKPOINT = 2_000
"""Pages in the log before it is copied back."""
EARLY = CHECKPOINT * 3 // 4
"""The same where the journal was folded just now: to stall one caller for both is better than to stall two."""
CHUNK = 1 << 20
FRAME = 24
HEAD = 32
"""What SQLite writes before each page of its log, and before all of them."""


def stay(database: Database) -> None:
    """From now on the log is long, and is written over where it is. Called within a transaction."""
    connection = database.connection
    connection.set_wal_hook(None)
    connection.wal_autocheckpoint(CHECKPOINT)  # as far as nobody reads it; a failure is told by the next commit
    try:
        lengthen(f"{database.path}-wal", CHECKPOINT, connection.execute("PRAGMA page_size").get)
    except OSError:
        return  # it only makes commits faster: what ails the disk, the commit itself tells


def commit_folded(cursor: apsw.Cursor) -> None:
    """Commit what was in the journal; if the log is rather long, it is copied back right after it."""
    connection = cursor.connection
    connection.wal_autocheckpoint(EARLY)
    try:
        cursor.execute("COMMIT")
    finally:
        connection.wal_autocheckpoint(CHECKPOINT)


def lengthen(log: str, pages: int, page_size: int) -> None:
    """Make room for so many pages. Only by who may write to the database at this moment: nobody else may append."""
    # SQLite's own locks are on other files, so nothing is given up by closing this one.
    handle = os.open(log, os.O_WRONLY | os.O_CLOEXEC)
    try:
        at, end = os.fstat(handle).st_size, HEAD + pages * (FRAME + page_size)
        while at < end:
            at += os.pwrite(handle, bytes(min(CHUNK, end - at)), at)
        os.fsync(handle)
    finally:
        os.close(handle)


def fold_at_last(database: Database) -> None:
    """Leave no journal behind, so that whoever opens the database next need not read it; not if somebody writes."""
    if database.journal is None or not database.gate.try_to_take():
        return
    try:
        database.connection.set_busy_timeout(0)
        database.begin()
        if database.meta.number != database.meta.folded:
            database.journal.fold(database.cursor, is_lasting=True)
            database.commit(database.meta.fence, 0, database.meta.now)
    except (apsw.Error, OSError, StoreError):
        pass  # all of it is in the journal, where the next one finds it: that one tells what is wrong
    finally:
        database.gate.release()

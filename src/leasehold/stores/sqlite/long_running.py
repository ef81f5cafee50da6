"""Specific to long-running processes: a long log, and no journal left behind. It knows nothing of records.

The log is written to its full length before it is needed. Each commit into a file that grows has the file system commit
its own journal as well, with whatever other programs have put in there; a commit over what is there already has not.
What lies behind the end of the log means nothing to SQLite: it stops reading where the check sums stop being right.
"""

from __future__ import annotations

import os

import apsw

from leasehold.errors import StoreError
from leasehold.stores.sqlite.wal import FRAME, HEAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.stores.sqlite.database import Database

CHECKPOINT = 2_000
"""Pages in the log before it is copied back."""
EARLY = CHECKPOINT * 3 // 4
"""The same where the journal is folded just now: to stall one caller for both is better than to stall two."""
CHUNK = 1 << 20


def stay(database: Database) -> None:
    """From now on the log is long, and is written over where it is. Called within a transaction."""
    log = database.log
    log.limit, log.fold_limit = CHECKPOINT, EARLY
    log.checkpoint_mode = apsw.SQLITE_CHECKPOINT_PASSIVE
    try:
        lengthen(f"{database.path}-wal", CHECKPOINT, database.connection.execute("PRAGMA page_size").get)
    except OSError:
        return  # it only makes commits faster: what ails the disk, the commit itself tells


def lengthen(log: str, pages: int, page_size: int) -> None:
    """Make room for so many pages. Only by who may write to the database at this moment: nobody else may append."""
    # SQLite's own locks are on other files, so nothing is given up by closing this one.
    handle = os.open(log, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        at, end = os.fstat(handle).st_size, HEAD + pages * (FRAME + page_size)
        while at < end:
            at += os.pwrite(handle, bytes(min(CHUNK, end - at)), at)
        os.fsync(handle)
    finally:
        os.close(handle)


def fold_at_last(database: Database) -> None:
    """Leave neither a journal nor a log behind, unless another process writes: the database file has everything then.

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
        pass  # all of it is in the log, where the next one finds it: that one tells what is wrong
    finally:
        database.gate.release()


def _empty_log(database: Database) -> None:
    """Commit, and leave everything in the database file alone, unless another process reads just now."""
    database.log.limit = database.log.fold_limit = 0
    database.log.checkpoint_mode = apsw.SQLITE_CHECKPOINT_TRUNCATE
    database.commit(database.meta.fence, 0, database.meta.now)
    database.write_mark()

"""Create a database, or deal with what happened since its last commit: a reboot, a restore, a killed process.

All of it is one transaction, during this process's turn at the gate. A database that needs none of it is opened
without this module.
"""

# Pathlib is slow to import, and the first acquire on a machine comes through here.
# ruff: noqa: PTH118, PTH120, PTH123

from __future__ import annotations

import os

from leasehold.domain.timestamps import SECOND
from leasehold.errors import StoreUnsuitable
from leasehold.stores.sqlite.failures import behind, other_schema
from leasehold.stores.sqlite.meta import APPLICATION_ID, SCHEMA_VERSION, SqliteMeta
from leasehold.stores.sqlite.recovery import revive
from leasehold.stores.sqlite.wal import CONTINUED, EMPTIED, STRANGE, UNKNOWN, Mark, change_counter, fit, is_alone

TYPE_CHECKING = False
if TYPE_CHECKING:
    import apsw

    from leasehold.stores.sqlite.clock import Clock
    from leasehold.stores.sqlite.database import Database

SKIP = 1_000_000
"""Fences that are skipped after a restore: more than could have been issued since the mark was written."""

LONGEST = 1_800 * SECOND
"""Assumed as the longest TTL if the gate does not know it: the default of all surfaces."""

_OTHER_TIME = "its -wal file is of another time than the database"

_WRITE_META = """
INSERT INTO meta (one, fence, seq, now, boot, offset, database, folded) VALUES (1, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (one) DO UPDATE
SET fence = excluded.fence, seq = excluded.seq, now = excluded.now, boot = excluded.boot, offset = excluded.offset,
    folded = excluded.folded
"""


def prepare(database: Database, *, accept_restore: bool) -> None:
    """Make the database ready for use, or raise an error that says why it is not."""
    database.gate.take()
    try:
        _refuse_strange(database, accept_restore)
        _check_ours(database.connection, database.path)
        mode = database.connection.execute("PRAGMA journal_mode = WAL").get
        if mode != "wal":
            why = f"a write-ahead log is not possible here (SQLite says {mode}); give another path"
            raise StoreUnsuitable(f"{database.path}: {why}")
        database.connection.execute("BEGIN IMMEDIATE")
        try:
            database.meta, mark = _settle(database, accept_restore)
            database.connection.execute("COMMIT")
        except BaseException:
            if database.connection.in_transaction:
                database.connection.execute("ROLLBACK")
            raise
        database.log.longest = mark.longest
        database.log.mark = mark._replace(frames=database.log.mark.frames, log=CONTINUED, end=b"")
        if database.meta.seq == 0 and database.meta.fence == 1:
            database.log.copy(
                database.connection
            )  # from the beginning, the file without its log shows that it is one of Leasehold
        database.write_mark()
    finally:
        database.gate.release()


def _refuse_strange(database: Database, accept_restore: bool) -> None:
    """Refuse a log of another time before SQLite reads it, because SQLite would mix pages of both."""
    mark = database.gate.mark()
    if mark is not None and not accept_restore and fit(database.path, mark) == STRANGE:
        raise behind(database.path, _OTHER_TIME)


def _check_ours(connection: apsw.Connection, path: str) -> None:
    """Refuse the database of another program, and one with another schema, before changing it."""
    application = connection.execute("PRAGMA application_id").get
    version = connection.execute("PRAGMA user_version").get
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if application == version == tables == 0:
        return
    if application != APPLICATION_ID:
        raise StoreUnsuitable(f"{path} is a database of another program; give another path")
    if version != SCHEMA_VERSION:
        raise other_schema(path, version)


def _settle(database: Database, accept_restore: bool) -> tuple[SqliteMeta, Mark]:
    """Create the tables, or find out from the mark and the boot id what happened. Return the gate's mark, too."""
    connection, mark = database.connection, database.gate.mark()
    if database.schema_version() == 0:
        create(connection)
        meta, mark = _first_meta(database, mark, accept_restore)
    else:
        meta, mark = _continued(database, mark, accept_restore)
    told = (meta.fence, meta.seq, meta.now, meta.boot, meta.offset, meta.database, meta.folded)
    connection.execute(_WRITE_META, told)
    return meta, mark


def create(connection: apsw.Connection) -> None:
    """Create the tables in an empty database."""
    with open(os.path.join(os.path.dirname(__file__), "schema.sql"), encoding="utf-8") as file:
        connection.execute(file.read())
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}; PRAGMA user_version = {SCHEMA_VERSION:d}")


def _first_meta(database: Database, mark: Mark | None, accept_restore: bool) -> tuple[SqliteMeta, Mark]:
    """Begin a new database. If its gate has a mark, there was one before, whose fences are not issued again."""
    clock, gate = database.clock, database.gate
    now = clock.wall()
    if gate.is_new() or (mark is not None and mark.fence == 1):  # or nothing was ever granted
        gate.set_mark(Mark(1, log=EMPTIED))
        gate.sync()  # from now on, a gate without a mark means that it was removed
        return _meta_at(clock, 1, now), Mark(1)
    if not accept_restore:
        raise behind(database.path, "the database is gone, and its .gate file is still there")
    if mark is None:
        mark = Mark(1, longest=LONGEST)
    now = max(now, mark.now)
    return _meta_at(clock, mark.fence + SKIP, now), Mark(1, longest=mark.longest, opens_at=now + mark.longest)


def _meta_at(clock: Clock, fence: int, now: int) -> SqliteMeta:
    return SqliteMeta(fence, 0, now, clock.boot(), now - clock.elapsed(), os.urandom(16).hex())


def _continued(database: Database, mark: Mark | None, accept_restore: bool) -> tuple[SqliteMeta, Mark]:
    """Return the counters and the mark with which an existing database goes on, after a reboot or a restore as well."""
    meta, clock = database.read_meta(), database.clock
    trouble, is_rebooted = _trouble(database.path, meta, mark), meta.boot != clock.boot()
    if trouble and not accept_restore:
        raise behind(database.path, trouble)
    mark = mark or Mark(1, longest=LONGEST)
    last = meta.now
    if trouble:
        _check_sound(database)
        meta.now = max(meta.now, mark.now)
    if is_rebooted:
        now = max(clock.wall(), meta.now)
        meta.boot, meta.offset = clock.boot(), now - clock.elapsed()
    if meta.number != meta.folded:
        _fold(database.connection, meta)
    now = database.time(meta)
    if trouble:
        meta.fence = max(meta.fence, mark.fence) + SKIP
        mark = mark._replace(opens_at=max(mark.opens_at, now + mark.longest))
    if trouble or is_rebooted:
        revive(database.connection, last, now)
    meta.now = now
    # The counter that the file had when the log beside it began.
    counter = change_counter(database.path) if trouble or is_alone(database.path) else mark.counter
    return meta, mark._replace(counter=counter)


def _trouble(path: str, meta: SqliteMeta, mark: Mark | None) -> str:
    """Return why this database is not the one that the gate knows; empty if it is."""
    if mark is None:
        return "its .gate file was removed or damaged, so nobody knows what was granted"
    if meta.fence < mark.fence:
        return f"its next fence is {meta.fence}, but all below {mark.fence} were given out"
    if meta.now < mark.now:
        return "changes are missing that were made after its last one"
    how = fit(path, mark)
    if how == STRANGE or (how == UNKNOWN and meta.now <= mark.now):
        return _OTHER_TIME
    return ""


def _check_sound(database: Database) -> None:
    """Check the whole database before accepting it: a log of another time can leave any damage."""
    said = database.connection.execute("PRAGMA integrity_check(1)").get
    if said != "ok":
        raise StoreUnsuitable(
            f"{database.path} and its -wal file do not belong together, or are damaged ({said}): restore both from the "
            "same backup, or the database alone, without a -wal and -shm file beside it"
        )


def _fold(connection: apsw.Connection, meta: SqliteMeta) -> None:
    """Fold a journal whose writer is gone into the tables, for `revive`."""
    from leasehold.stores.sqlite.journal import SqliteJournal  # noqa: PLC0415 (rare)

    journal = SqliteJournal()
    journal.catch_up(connection, meta)
    journal.fold(connection.cursor())
    meta.folded = meta.number

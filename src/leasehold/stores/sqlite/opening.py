"""What is done once: create the database, bring it up to date, and settle what happened while it was away.

All of it in one transaction, during our turn at the gate. Not imported when a database is opened as it is.
"""

# Pathlib is slow to import, and the first acquire on a machine comes through here.
# ruff: noqa: PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import os

from leasehold.errors import StoreBehind, StoreUnsuitable
from leasehold.stores.sqlite.database import APPLICATION_ID, SCHEMA_VERSION, Meta
from leasehold.stores.sqlite.survivors import revive

TYPE_CHECKING = False
if TYPE_CHECKING:
    import apsw

    from leasehold.stores.sqlite.clock import Clock
    from leasehold.stores.sqlite.database import Database

SKIP = 1_000_000
"""So many fences are left out after a restore: more than could have been given out since the mark was written."""

_WRITE_META = """
INSERT INTO meta (one, fence, seq, now, boot, offset, database, folded) VALUES (1, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (one) DO UPDATE
SET fence = excluded.fence, seq = excluded.seq, now = excluded.now, boot = excluded.boot, offset = excluded.offset,
    folded = excluded.folded
"""


def prepare(database: Database, *, accept_restore: bool) -> None:
    """Make the database ready for use, or say why it is not."""
    database.gate.take()
    try:
        _check_ours(database.connection, database.path)
        _use_wal(database.connection, database.path)
        database.connection.execute("BEGIN IMMEDIATE")
        try:
            fence = _settle(database, accept_restore)
            database.connection.execute("COMMIT")
        except BaseException:
            if database.connection.in_transaction:
                database.connection.execute("ROLLBACK")
            raise
        database.gate.set_mark(fence)
    finally:
        database.gate.release()


def _check_ours(connection: apsw.Connection, path: str) -> None:
    """Never touch somebody else's database, nor one from the future."""
    application = connection.execute("PRAGMA application_id").get
    version = connection.execute("PRAGMA user_version").get
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if application != APPLICATION_ID and (application or version or tables):
        raise StoreUnsuitable(f"{path} is a database of another program; give another path")
    if version > SCHEMA_VERSION:
        raise StoreUnsuitable(
            f"{path} has schema {version}, this Leasehold knows schemas up to {SCHEMA_VERSION}: "
            "update Leasehold (every process on this machine), or give another path"
        )


def _use_wal(connection: apsw.Connection, path: str) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").get
    if mode != "wal":
        raise StoreUnsuitable(f"{path}: a write-ahead log is not possible here (SQLite says {mode}); give another path")


def _settle(database: Database, accept_restore: bool) -> int:
    """Migrate; then find out from the mark and the boot id what happened. Hands back the next unused fence."""
    connection, mark = database.connection, database.gate.mark() or 0
    is_new = migrate(connection) == 0
    meta = _first_meta(database.clock, mark) if is_new else _continued(database, mark, accept_restore)
    told = (meta.fence, meta.seq, meta.now, meta.boot, meta.offset, meta.database, meta.folded)
    connection.execute(_WRITE_META, told)
    return meta.fence


def migrate(connection: apsw.Connection) -> int:
    """Apply the migrations that are missing, in order; hands back which was the last one before."""
    before: int = connection.execute("PRAGMA user_version").get
    for number, sql in _migrations():
        if number > before:
            connection.execute(sql)
            connection.execute(f"PRAGMA user_version = {number:d}")
    if before == 0:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
    return before


def _migrations() -> list[tuple[int, str]]:
    directory = os.path.join(os.path.dirname(os.path.dirname(__file__)), "sql", "sqlite")
    found = []
    for name in sorted(os.listdir(directory)):
        if name[:4].isdigit():
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                found.append((int(name[:4]), file.read()))
    return found


def _first_meta(clock: Clock, mark: int) -> Meta:
    """A new database. If its gate was there before, a database was deleted: its fences are not given out again."""
    wall = clock.wall()
    return Meta(mark + SKIP if mark else 1, 0, wall, clock.boot(), wall - clock.elapsed(), os.urandom(16).hex())


def _continued(database: Database, mark: int, accept_restore: bool) -> Meta:
    meta, clock = database.read_meta(), database.clock
    is_behind, is_rebooted = meta.fence < mark, meta.boot != clock.boot()
    if is_behind and not accept_restore:
        raise StoreBehind(
            f"{database.path} is older than the fences it has given out (it is at {meta.fence}; {mark} is known from "
            f"{database.path}.gate): it was restored from a backup, and leases granted since then are not in it. "
            "Make sure that nobody works under such a lease any more, then open it once with "
            "leasehold.connect(url, accept_restore=True): fences go on above the old ones, and the leases that are in "
            "it get a full TTL."
        )
    if is_rebooted:
        now = max(clock.wall(), meta.now)
        meta.boot, meta.offset = clock.boot(), now - clock.elapsed()
    if meta.number != meta.folded:
        _fold(database.connection, meta)
    now, last = database.time(meta), meta.now
    if is_behind:
        meta.fence = mark + SKIP
    if is_behind or is_rebooted:
        revive(database.connection, last, now)
    meta.now = now
    return meta


def _fold(connection: apsw.Connection, meta: Meta) -> None:
    """Who kept the journal is gone, or was never here: everything into the tables, where `revive` looks."""
    from leasehold.stores.sqlite.journal import Journal  # noqa: PLC0415 (rare)

    journal = Journal()
    journal.catch_up(connection, meta)
    journal.fold(connection.cursor(), is_lasting=False)
    meta.folded = meta.number

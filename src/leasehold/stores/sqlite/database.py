"""The database file, its gate and its clock: take turns at writing, and notice when cached records are out of date.

It knows nothing of records. A one-shot `leasehold acquire` runs all of this, so what is rare (creating tables,
explaining a failure) is in modules that are imported when needed.
"""

# Pathlib costs a one-shot process more than all of this.
# ruff: noqa: PTH100, PTH116

from __future__ import annotations

import os
from _thread import allocate_lock, get_ident

import apsw

from leasehold.errors import Closed, StoreBehind, StoreError, StoreUnsuitable
from leasehold.stores.sqlite.clock import system_clock
from leasehold.stores.sqlite.files import make_place
from leasehold.stores.sqlite.meta import APPLICATION_ID, READ_META, SCHEMA_VERSION, SqliteMeta
from leasehold.stores.sqlite.wal import FITS, Wal, fit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.stores.sqlite.clock import Clock
    from leasehold.stores.sqlite.files import OpenOptions
    from leasehold.stores.sqlite.journal import SqliteJournal
    from leasehold.stores.sqlite.wal import Mark

STATEMENTS = 256
"""Slots for prepared statements. apsw returns a statement to the next slot after each row, and overwrites what was
there: with few slots, each large batch would prepare the other statements of a turn again. But apsw searches the slots
one after the other for each statement: with a thousand, that took longer than to begin a transaction."""
LASTING = 64
"""Commits after which a process counts as long-running."""
ALONE = 16
"""Commits without one of another process in between, after which a long-running process writes a journal. Processes
that take turns would have to read each other's journal, and gain nothing."""

_WRITE_META = "UPDATE meta SET fence = ?, seq = ?, now = ?, folded = ?"
_UNKNOWN = -1
"""Stands for no version: everything cached must be read again."""
_abandoned: list[apsw.Connection | apsw.Cursor] = []
_forks = 0
"""How often this process or an ancestor was forked. Cheaper than to ask for the process id several times a turn."""


class Database:
    """One open database. `enter` and `leave` enclose each change."""

    def __init__(self, path: str, clock: Clock | None, forget: Callable[[], None], options: OpenOptions) -> None:
        self.path = os.path.abspath(path)
        self.forget = forget
        self.clock = clock or system_clock()
        self.busy_ms = options.busy_ms
        self._forks = _forks
        self._mutex = allocate_lock()
        self._owner = 0
        self._commits = 0
        self._alone = 0
        self._latest = 0
        self._is_to_be_marked = False
        """True if something was committed in our turn: the end of the turn writes the mark."""
        self.journal: SqliteJournal | None = None
        """The contents of the journal, once there is one or we write one."""
        self._is_one_shot = options.is_one_shot
        self.gate = make_place(self.path, options)
        self.log = Wal(self.path, self.gate, self.busy_ms)
        self.connection = self.connect()
        self.cursor = self.connection.cursor()
        """For the statements of each turn: a new cursor costs more than most statements."""
        try:
            self._open(options.accept_restore)
        except BaseException:
            self.connection.close()
            self.gate.close()
            raise
        self.closed = False

    def connect(self) -> apsw.Connection:
        """Open a connection with all settings that durability needs."""
        try:
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
            connection = apsw.Connection(self.path, flags=flags, statementcachesize=STATEMENTS)
            connection.set_busy_timeout(self.busy_ms)
            connection.execute("PRAGMA synchronous = FULL")
            # A checkpoint at every close would cost each one-shot process two more fsyncs.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.set_wal_hook(self.log.after_commit)
        except apsw.Error as error:
            raise self.explain(error) from error
        return connection

    def _open(self, accept_restore: bool) -> None:
        status = os.stat(self.path)
        self._file = (status.st_dev, status.st_ino)
        try:
            if status.st_size == 0 or not self._is_current():
                from leasehold.stores.sqlite.opening import prepare  # noqa: PLC0415 (rare)

                prepare(self, accept_restore=accept_restore)
                self._look()
        except apsw.Error as error:
            raise self.explain(error) from error

    def _is_current(self) -> bool:
        """Return True if it needs no preparation. It needs no turn: each value is read before its upper bound."""
        mark = self.gate.mark()
        if mark is None or fit(self.path, mark) != FITS:
            return False
        execute = self.connection.execute
        if execute("PRAGMA application_id").get != APPLICATION_ID or self.schema_version() != SCHEMA_VERSION:
            return False
        self._look()
        if self.is_behind(mark):
            return False
        self.log.heed(mark)
        return self.meta.boot == self.clock.boot()

    def is_behind(self, mark: Mark) -> bool:
        """Return True if the database lacks commits that the mark knows."""
        return self.meta.fence < mark.fence or self.meta.now < mark.now

    def _look(self) -> None:
        self.opened_at = self.data_version()
        self.version = self.connection.data_version()
        """The version that the cache agrees with. Unlike `data_version` it needs no statement, but a turn."""
        self.meta = self.read_meta()
        if self.meta.number != self.meta.folded:
            self.version = _UNKNOWN  # the first turn reads the journal

    # --------------------------------------------------------------------------------------- reading

    def data_version(self) -> int:
        """Return a number that changes when another connection commits."""
        return int(self.connection.execute("PRAGMA data_version").get)

    def schema_version(self) -> int:
        """Return the version of the schema; 0 if the database is empty."""
        return int(self.connection.execute("PRAGMA user_version").get)

    def read_meta(self, connection: apsw.Connection | None = None) -> SqliteMeta:
        """Read what the database records about itself."""
        row = (connection or self.connection).execute(READ_META).get
        if row is None:
            raise StoreError(f"{self.path}: the database is damaged (it lost the row about itself); restore a backup")
        return SqliteMeta(*row)

    def time(self, meta: SqliteMeta) -> int:
        """Return the store's time, never below a time that was committed or returned before."""
        self._latest = max(meta.offset + self.clock.elapsed(), meta.now, self._latest)
        return self._latest

    def check_usable(self) -> None:
        """Raise if this is closed, or was opened before a fork."""
        if self.closed:
            raise Closed(f"{self.path}: this store is closed; connect again")
        if self.is_inherited():
            raise StoreError(f"{self.path} was opened before a fork: connect again in the child")

    def is_inherited(self) -> bool:
        """Return True in a forked child: the connection is its parent's."""
        return self._forks != _forks

    @property
    def is_lasting(self) -> bool:
        """True if this process counts as long-running."""
        return self._commits >= LASTING

    @property
    def is_journalling(self) -> bool:
        """True if it writes its commits to the journal."""
        return self._commits >= LASTING and self._alone >= ALONE

    # --------------------------------------------------------------------------------------- writing

    def enter(self) -> None:
        """Wait for a turn and begin. Call `forget` if another process has written since the last one."""
        self.check_usable()
        if self._owner == get_ident():
            raise StoreError(f"{self.path}: a transaction of this store is already under way in this thread")
        self._mutex.acquire()
        if self.closed:  # while we waited
            self._mutex.release()
            self.check_usable()
        self._owner = get_ident()
        try:
            self.gate.take()
            self.begin()
            if self.log.is_unmarked:
                self.log.write_mark(self.meta)
        except BaseException as error:
            self.leave()
            if isinstance(error, apsw.Error | OSError):
                raise self.explain(error) from error
            raise

    def begin(self) -> None:
        """Begin a transaction while holding the gate."""
        self._check_file()
        self.cursor.execute("BEGIN IMMEDIATE")
        self._catch_up()

    def _check_file(self) -> None:
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._file:
            raise StoreError(f"{self.path} was removed or replaced while it was open: connect again")

    def _catch_up(self) -> None:
        version = self.connection.data_version()
        if version == self.version:
            return
        schema = self.schema_version()
        if schema != SCHEMA_VERSION:
            from leasehold.stores.sqlite.failures import other_schema  # noqa: PLC0415 (rare)

            raise other_schema(self.path, schema)
        if self.version != _UNKNOWN:
            self._alone = 0
        self._accept(self.read_meta())
        self.forget()
        self._read_journal()
        self.version = version

    def _read_journal(self) -> None:
        """Read on in the journal, if there is one."""
        is_doubted, is_there = self.version == _UNKNOWN, self.meta.number != self.meta.folded
        if not (is_there or self.is_journalling):
            self.journal = None
            return
        if self.journal is None or is_doubted:  # what is known of it may never have been committed
            self.journal = _new_journal()
        self.journal.catch_up(self.connection, self.meta)

    def _accept(self, meta: SqliteMeta) -> None:
        """Raise if the database is no longer the one that was opened."""
        if meta.boot != self.meta.boot:
            raise StoreUnsuitable(
                f"{self.path} was opened by another machine meanwhile: a SQLite database serves one machine. "
                "Use a server for several: https://…, postgresql://… or etcd://…"
            )
        before, self.meta = self.meta, meta
        mark = self.gate.mark() or self.log.mark
        if meta.database != before.database or meta.fence < before.fence or self.is_behind(mark):
            self.meta = before
            raise StoreBehind(f"{self.path} was replaced by another database while it was open: connect again")
        self.log.heed(mark)

    def doubt(self) -> None:
        """Note that the cache may differ from the database, until `trust` is called."""
        self.version = _UNKNOWN

    def trust(self) -> None:
        """Note that the cache agrees with the database after our commit."""
        self.version = self.connection.data_version()

    def commit(self, fence: int, events: int, now: int, *, rows: int = 0) -> None:
        """Make what was written durable, with the next unused fence and this many new events.

        The newest of the journal's new `rows` carries these numbers. Without any, the journal is empty, and they go
        into `meta`.
        """
        before = self.meta
        number = before.number + rows
        folded = before.folded if rows else number
        meta = SqliteMeta(fence, before.seq + events, now, before.boot, before.offset, before.database, folded, number)
        if not rows:
            self.cursor.execute(_WRITE_META, (fence, meta.seq, now, folded))
        if self._commits == LASTING - 1:
            from leasehold.stores.sqlite.long_running import stay  # noqa: PLC0415 (not for one-shot processes)

            stay(self)
        is_folding = self.journal is not None and not rows and self.is_lasting
        self.log.stamp(self.cursor, is_folding=is_folding)
        self.cursor.execute("COMMIT")
        self._is_to_be_marked = True
        self.meta = meta
        self._commits += 1
        self._alone += 1
        if not self.is_journalling:
            self.journal = None  # it was folded, if there was one
            return
        self.journal = self.journal or _new_journal()
        self.journal.settle(meta)

    def write_mark(self) -> None:
        """Write the high-water mark to the gate. Only during a turn, after a commit."""
        self._is_to_be_marked = False
        try:  # noqa: SIM105 (a one-shot process does not load contextlib)
            self.log.write_mark(self.meta)
        except OSError:
            pass  # the commit happened, so it must not be reported as failed: the next turn tries again, and reports it

    def leave(self) -> None:
        """Roll back what was not committed and end the turn. Do nothing in a child that inherited it."""
        if not self._owner or self.is_inherited():
            return
        try:
            if self._is_to_be_marked:
                self.write_mark()
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except apsw.Error as error:
            raise self.explain(error) from error
        finally:
            self.gate.release()
            self._owner = 0
            self._mutex.release()

    def explain(self, error: apsw.Error | OSError) -> StoreError:
        """Return the failure as an error that says what to do next."""
        from leasehold.stores.sqlite.failures import explained  # noqa: PLC0415 (rare)

        return explained(self.path, error)

    def peek_version(self) -> int | None:
        """Return the data version; None during a transaction."""
        self.check_usable()
        if not self._mutex.acquire(blocking=False):
            return None
        try:
            return self.data_version()
        except apsw.Error as error:
            raise self.explain(error) from error
        finally:
            self._mutex.release()

    def close(self) -> None:
        """Close the connection and the gate. Idempotent."""
        if self.closed:
            return
        self.closed = True
        if self.is_inherited():
            abandon(self.connection)
            abandon(self.cursor)
            return
        if self._owner == get_ident():
            self.leave()
        self._mutex.acquire()
        try:
            if self._commits and (self.is_lasting or not self._is_one_shot):
                from leasehold.stores.sqlite.long_running import fold_at_last  # noqa: PLC0415 (not for one-shot processes)

                fold_at_last(self)
                self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
                self.gate.sync()
        finally:
            self.connection.close()
            self.log.close()
            self.gate.close()
            self._mutex.release()


def _count_fork() -> None:
    global _forks  # noqa: PLW0603 (it is of the process)
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


def _new_journal() -> SqliteJournal:
    from leasehold.stores.sqlite.journal import SqliteJournal  # noqa: PLC0415 (not for most one-shot processes)

    return SqliteJournal()


def abandon(inherited: apsw.Connection | apsw.Cursor) -> None:
    """Keep a reference to a connection of the parent process: SQLite forbids a child even to close it."""
    _abandoned.append(inherited)

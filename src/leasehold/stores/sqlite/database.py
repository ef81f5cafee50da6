"""The database file, its gate and its clock: who may write now, and whether what we remember is still true.

It knows nothing of records. Everything here is on the way of a one-shot `leasehold acquire`, so what is rare
(creating, migrating, explaining a failure) is in modules that are imported when it happens.
"""

# Pathlib costs a one-shot process more than all of this.
# ruff: noqa: PTH100, PTH116

from __future__ import annotations

import os
from _thread import allocate_lock, get_ident

import apsw

from leasehold.errors import Closed, StoreBehind, StoreError, StoreUnsuitable
from leasehold.stores.sqlite.clock import system_clock
from leasehold.stores.sqlite.log import CONTINUED, COPIED, EMPTIED, FITS, Log, Mark, change_counter, fit
from leasehold.stores.sqlite.place import make_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.stores.sqlite.clock import Clock
    from leasehold.stores.sqlite.journal import Journal

APPLICATION_ID = 0x1EA5E401
SCHEMA_VERSION = 4
"""Of `schema.sql` and of the nouns in it: a database of another one is refused."""

BRIEF_CHECKPOINT = 150
"""Pages in the write-ahead log before it is copied back. Whoever opens the database first must read the whole log, so
one-shot processes keep it short; who commits again and again lets it grow, which is faster (see ``lasting``)."""
STATEMENTS = 256
"""Places for prepared statements. apsw puts a statement into the next one after each row, over what was there: with
few of them each large batch would have everything prepared again that is said once a turn. But it also looks at one
place after the other for each statement: with a thousand, that took longer than to begin a transaction."""
LASTING = 64
"""After so many commits a process counts as one that stays."""
ALONE = 16
"""It writes a journal once it has made so many commits since somebody else made one. Where processes take turns, each
would have to read what the others have journalled, and gain nothing."""

READ_META = """
SELECT coalesce(last.fence, newest.next, meta.fence), coalesce(last.seq, newest.seq, meta.seq),
    coalesce(last.now, newest.at, meta.now), boot, offset, database, folded, coalesce(last.number, folded)
FROM meta
LEFT JOIN (SELECT seq, at, next FROM event ORDER BY seq DESC LIMIT 1) AS newest ON newest.seq > meta.seq
LEFT JOIN (SELECT number, fence, seq, now FROM journal ORDER BY number DESC LIMIT 1) AS last ON last.number > folded
"""
_WRITE_META = "UPDATE meta SET fence = ?, seq = ?, now = ?, folded = ?"
_STAMP = f"PRAGMA user_version = {SCHEMA_VERSION:d}"
"""Changes nothing but the database's change counter, which tells later whether this log was copied into the file."""
_UNKNOWN = -1
"""No version: whatever is remembered must be read again."""
_abandoned: list[apsw.Connection | apsw.Cursor] = []
_forks = 0
"""How often this process, or one that it comes from, was forked off: cheaper to know than the number of a process."""


class Meta:
    """What the database knows about itself: its one row, or in part its newest event or the end of its journal."""

    __slots__ = ("boot", "database", "fence", "folded", "now", "number", "offset", "seq")

    def __init__(  # noqa: PLR0917 (as they stand in a row)
        self, fence: int, seq: int, now: int, boot: str, offset: int, database: str, folded: int = 0, number: int = 0
    ) -> None:
        self.fence = fence
        self.seq = seq
        self.now = now
        self.boot = boot
        self.offset = offset
        self.database = database
        self.folded = folded
        """Up to here the rows of the journal are in the tables."""
        self.number = number
        """The newest row of the journal; if it is `folded`, there is none."""


class Options:
    """How a database is opened."""

    __slots__ = ("accept_restore", "busy_ms", "creates_directory", "is_one_shot", "mounts")

    def __init__(
        self,
        accept_restore: bool,
        busy_ms: int,
        mounts: str | None,
        *,
        is_one_shot: bool = False,
        creates_directory: bool = False,
    ) -> None:
        self.creates_directory = creates_directory
        self.accept_restore = accept_restore
        self.busy_ms = busy_ms
        """How long to wait for a program that locks the database without coming through the gate."""
        self.mounts = mounts
        """Stands in for ``/proc/self/mountinfo``."""
        self.is_one_shot = is_one_shot
        """Leave the log as it is at the end: to copy it into the database would cost each command several fsyncs."""


class Database:
    """One open database. `enter` and `leave` enclose each change."""

    def __init__(self, path: str, clock: Clock | None, forget: Callable[[], None], options: Options) -> None:
        self.path = os.path.abspath(path)
        self.forget = forget
        self.clock = clock or system_clock()
        self.busy_ms = options.busy_ms
        self._forks = _forks
        self._mutex = allocate_lock()
        self._owner = 0
        self._commits = 0
        self._alone = 0
        self._doubts = 0
        """How often nobody knew what had become of our last commit."""
        self._latest = 0
        self._is_to_be_marked = False
        """Whether something was committed in our turn: its end tells the gate."""
        self._unmarked = False
        """Whether that could not be told: then the beginning of the next one does."""
        self.journal: Journal | None = None
        """What is in the journal, once there is one or we write one ourselves."""
        self.longest = 0
        """The longest TTL that was ever granted."""
        self._is_one_shot = options.is_one_shot
        self._begin_log()
        self.mark = Mark(1)
        """The high-water mark, as we know it."""
        self.gate = make_place(self.path, options)
        self.connection = self.connect()
        self.cursor = self.connection.cursor()
        """For what each turn says to SQLite: a cursor of its own for each statement costs more than most statements."""
        try:
            self._open(options.accept_restore)
        except BaseException:
            self.connection.close()
            self.gate.close()
            raise
        self.closed = False

    def _begin_log(self) -> None:
        self._log: Log | None = None
        self._frames = 0
        """Pages in the log."""
        self.log_limit = self.fold_limit = BRIEF_CHECKPOINT
        """Pages in the log before it is copied into the database; where the journal is folded as well, see `stay`."""
        self.checkpoint_mode = apsw.SQLITE_CHECKPOINT_TRUNCATE
        self._is_stamped = False
        """Whether the transaction under way changes the database's change counter: then its log may be copied."""

    def connect(self) -> apsw.Connection:
        """A connection with everything that durability needs."""
        try:
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
            connection = apsw.Connection(self.path, flags=flags, statementcachesize=STATEMENTS)
            connection.set_busy_timeout(self.busy_ms)
            connection.execute("PRAGMA synchronous = FULL")
            # A checkpoint at every close would cost each one-shot process two more fsyncs.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.set_wal_hook(self._keep_log_short)
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
        """Whether it can be used as it is. Needs no turn at the gate: each value is read before what it bounds."""
        mark = self.gate.mark()
        if mark is None or fit(self.path, mark) != FITS:
            return False
        execute = self.connection.execute
        if execute("PRAGMA application_id").get != APPLICATION_ID or self.schema_version() != SCHEMA_VERSION:
            return False
        self._look()
        if self.is_behind(mark):
            return False
        self.heed(mark)
        return self.meta.boot == self.clock.boot()

    def is_behind(self, mark: Mark) -> bool:
        """Whether commits are missing that were made."""
        return self.meta.fence < mark.fence or self.meta.now < mark.now

    def heed(self, mark: Mark) -> None:
        """Go on from this mark."""
        self.mark = mark
        self.longest = max(self.longest, mark.longest)
        self._frames = 0 if mark.log == EMPTIED else mark.frames

    def _look(self) -> None:
        self.opened_at = self.data_version()
        self.version = self.connection.data_version()
        """Of what we have seen and written; unlike `data_version`, it needs no statement, but our turn."""
        self.meta = self.read_meta()
        if self.meta.number != self.meta.folded:
            self.version = _UNKNOWN  # there is a journal to read at our first turn

    # --------------------------------------------------------------------------------------- reading

    def data_version(self) -> int:
        """Changes whenever another connection has committed."""
        return int(self.connection.execute("PRAGMA data_version").get)

    def schema_version(self) -> int:
        """Which layout the database has."""
        return int(self.connection.execute("PRAGMA user_version").get)

    def read_meta(self, connection: apsw.Connection | None = None) -> Meta:
        """What it knows about itself."""
        row = (connection or self.connection).execute(READ_META).get
        if row is None:
            raise StoreError(f"{self.path}: the database is damaged (it lost the row about itself); restore a backup")
        return Meta(*row)

    def time(self, meta: Meta) -> int:
        """The store's clock; never below what was ever committed, or told by us."""
        self._latest = max(meta.offset + self.clock.elapsed(), meta.now, self._latest)
        return self._latest

    def check_usable(self) -> None:
        """Raise if this is closed, or was opened before a fork."""
        if self.closed:
            raise Closed(f"{self.path}: this store is closed; connect again")
        if self.is_inherited():
            raise StoreError(f"{self.path} was opened before a fork: connect again in the child")

    def is_inherited(self) -> bool:
        """Whether this process is a forked child, so that nothing here is its own."""
        return self._forks != _forks

    @property
    def is_lasting(self) -> bool:
        """Whether this process stays."""
        return self._commits >= LASTING

    @property
    def is_journalling(self) -> bool:
        """Whether it writes its commits to the journal."""
        return self._commits >= LASTING and self._alone >= ALONE

    # --------------------------------------------------------------------------------------- writing

    def enter(self) -> None:
        """Wait for our turn and begin; `forget` is called if somebody else has written since our last turn."""
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
            if self._unmarked:
                self._set_mark()
        except BaseException as error:
            self.leave()
            if isinstance(error, apsw.Error | OSError):
                raise self.explain(error) from error
            raise

    def begin(self) -> None:
        """Begin, once the gate is ours."""
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
            raise StoreUnsuitable(
                f"{self.path} was changed to schema {schema} by another version of Leasehold while this one "
                f"(schema {SCHEMA_VERSION}) was running: update and connect again"
            )
        if self.version != _UNKNOWN:
            self._alone = 0
        else:
            self._doubts += 1
        self._accept(self.read_meta())
        self.forget()
        self._read_journal()
        self.version = version

    def _read_journal(self) -> None:
        """Know what is in the journal, if there is one."""
        is_doubted, is_there = self.version == _UNKNOWN, self.meta.number != self.meta.folded
        if not (is_there or self.is_journalling):
            self.journal = None
            return
        if self.journal is None or is_doubted:  # what we remember of it may never have happened
            self.journal = _new_journal()
        self.journal.catch_up(self.connection, self.meta)

    def _accept(self, meta: Meta) -> None:
        """Refuse to go on if the database is no longer the one that was opened."""
        if meta.boot != self.meta.boot:
            raise StoreUnsuitable(
                f"{self.path} was opened by another machine meanwhile: a SQLite database serves one machine. "
                "Use a server for several: https://…, postgresql://… or etcd://…"
            )
        before, self.meta = self.meta, meta
        mark = self.gate.mark() or self.mark
        if meta.database != before.database or meta.fence < before.fence or self.is_behind(mark):
            self.meta = before
            raise StoreBehind(f"{self.path} was replaced by another database while it was open: connect again")
        self.heed(mark)

    def doubt(self) -> None:
        """Until `trust` tells otherwise, what we remember is not what the database holds."""
        self.version = _UNKNOWN

    def trust(self) -> None:
        """What we remember is what the database holds after our commit."""
        self.version = self.connection.data_version()

    def commit(self, fence: int, events: int, now: int, *, is_told: bool = False, rows: int = 0) -> None:
        """Make what was written durable, with the next unused fence and so many new events.

        `is_told`: the newest of them says all this, so that the row about the database need not (docs/adr/0028). So
        does the last of the journal's new `rows`; where there are none, the journal is empty now.
        """
        before = self.meta
        number = before.number + rows
        folded = before.folded if rows else number
        meta = Meta(fence, before.seq + events, now, before.boot, before.offset, before.database, folded, number)
        if not (is_told or rows):
            self.cursor.execute(_WRITE_META, (fence, meta.seq, now, folded))
        if self._commits == LASTING - 1:
            from leasehold.stores.sqlite.lasting import stay  # noqa: PLC0415 (not for one-shot processes)

            stay(self)
        is_folding = self.journal is not None and not rows and self.is_lasting
        self._is_stamped = self._frames >= (self.fold_limit if is_folding else self.log_limit)
        if self._is_stamped:
            self.cursor.execute(_STAMP)
        self.cursor.execute("COMMIT")
        self._is_to_be_marked = True
        self.meta = meta
        self._commits += 1
        self._alone += 1
        if not self.is_journalling:
            self.journal = None  # if there was one, it was folded
            return
        self.journal = self.journal or _new_journal()
        self.journal.settle(meta)

    def _keep_log_short(self, connection: apsw.Connection, _name: str, pages: int) -> int:
        """Copy a long log into the database; called by SQLite after each commit, while it is still our turn.

        SQLite's own way to do this leaves the log as it is, for the same process to write over. The next one-shot
        process cannot know that it was copied, reads all of it and appends to it: it would grow for ever. So those
        empty it.
        """
        self._frames = pages
        self.mark = self.mark._replace(frames=pages, log=CONTINUED)
        if self._is_stamped:
            self._is_stamped = False
            self.copy_log(connection)
        else:
            self.mark = self.mark._replace(end=b"")
        return apsw.SQLITE_OK

    def copy_log(self, connection: apsw.Connection) -> None:
        """Copy the log into the database as far as nobody reads it, and note how far that went."""
        self.mark = self.mark._replace(end=self._end_of_log())
        try:
            connection.set_busy_timeout(0)  # whoever reads just now is not waited for: the next commit tries again
            length, copied = connection.wal_checkpoint(mode=self.checkpoint_mode)
            if length == copied:
                is_emptied = self.checkpoint_mode == apsw.SQLITE_CHECKPOINT_TRUNCATE
                self._frames = 0 if is_emptied else self._frames
                log = EMPTIED if is_emptied else COPIED
                self.mark = self.mark._replace(log=log, counter=change_counter(self.path))
        except apsw.Error:
            pass  # the commit happened, and must not be reported as failed; what ails the disk, the next one tells
        finally:
            connection.set_busy_timeout(self.busy_ms)

    @property
    def has_log(self) -> bool:
        """Whether there is something in the log that may not be in the database file."""
        return self._frames > 0

    def empty_log(self) -> None:
        """Commit, and have everything in the database file alone, if nobody reads just now."""
        self.log_limit = self.fold_limit = 0
        self.checkpoint_mode = apsw.SQLITE_CHECKPOINT_TRUNCATE
        self.commit(self.meta.fence, 0, self.meta.now)
        self.write_mark()

    def _end_of_log(self) -> bytes:
        self._log = self._log or Log(self.path)
        return self._log.end(self.mark.frames)

    def write_mark(self) -> None:
        """Tell the gate how far the database has come. Only in our turn, after a commit."""
        self._is_to_be_marked, self._unmarked = False, True
        try:  # noqa: SIM105 (a one-shot process does not load contextlib)
            self._set_mark()
        except OSError:
            pass  # the commit happened, so it must not be reported as failed: the next turn tries again, and tells

    def _set_mark(self) -> None:
        end = self.mark.end or self._end_of_log()
        self.mark = self.mark._replace(fence=self.meta.fence, now=self.meta.now, longest=self.longest, end=end)
        self.gate.set_mark(self.mark)
        self._unmarked = False

    def leave(self) -> None:
        """Roll back what was not committed and end our turn. Does nothing if the turn is a parent process's."""
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
        """The same failure in words that say what to do."""
        from leasehold.stores.sqlite.failures import explained  # noqa: PLC0415 (rare)

        return explained(self.path, error)

    def peek_version(self) -> int | None:
        """The data version now; None while a transaction is under way."""
        self.check_usable()
        if not self._mutex.acquire(blocking=False):
            return None
        try:
            return self.data_version()
        except apsw.Error as error:
            raise self.explain(error) from error
        finally:
            self._mutex.release()

    def others(self) -> tuple[int, int] | None:
        """Differs from what it was if somebody else has committed since; None while that cannot be told."""
        version = self.peek_version()
        return None if version is None or self.version == _UNKNOWN else (version, self._doubts)

    def close(self) -> None:
        """Give everything back. Idempotent."""
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
                from leasehold.stores.sqlite.lasting import fold_at_last  # noqa: PLC0415 (not for one-shot processes)

                fold_at_last(self)
                self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
                self.gate.sync()
        finally:
            self.connection.close()
            if self._log is not None:
                self._log.close()
            self.gate.close()
            self._mutex.release()


def _count_fork() -> None:
    global _forks  # noqa: PLW0603 (it is of the process)
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


def _new_journal() -> Journal:
    from leasehold.stores.sqlite.journal import Journal  # noqa: PLC0415 (not for most one-shot processes)

    return Journal()


def abandon(inherited: apsw.Connection | apsw.Cursor) -> None:
    """Keep a connection of the parent process as it is: SQLite forbids a child even to close it."""
    _abandoned.append(inherited)

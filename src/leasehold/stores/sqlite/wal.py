"""The write-ahead log: its length, when it is copied into the database file, and which database file it belongs to.

SQLite does not notice if a log belongs to another state of the database than the file beside it: it mixes pages of
both. The high-water mark in the gate shows which belong together (docs/adr/0011).

The layout is SQLite's file format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

# Pathlib costs a one-shot process more than all of this.
# ruff: noqa: PTH110, PTH116

from __future__ import annotations

import os

import apsw

from leasehold.domain.nouns import Noun
from leasehold.stores.sqlite.meta import SCHEMA_VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.stores.sqlite.gate import Gate
    from leasehold.stores.sqlite.meta import SqliteMeta

BRIEF_CHECKPOINT = 150
"""Pages in the log before it is copied into the database file. The process that opens the database first must read the
whole log, so one-shot processes keep it short. A long-running process lets it grow, which is faster."""

NO_LOG = b"0" * 32
"""Stands for the end of an empty log."""
CONTINUED = 0
COPIED = 1
EMPTIED = 2
"""State of the log: the next commit appends to it; or may start it anew; or it was emptied or removed."""
HEAD = 32
FRAME = 24
"""Bytes that SQLite writes at the beginning of its log, and before each page."""
COUNTER = 24
"""Offset of the change counter in a database file."""
_STAMP = f"PRAGMA user_version = {SCHEMA_VERSION:d}"
"""Changes only the database's change counter, which shows later whether this log was copied into the file."""
_MAGIC = (0x377F0682, 0x377F0683)
_MOST_CHECKED = 4_096
"""Pages of a log that are searched for a commit. No transaction of a store is so large."""


class Mark(Noun):
    """The high-water mark: what the database must contain, and which files belong together."""

    fence: int
    """The next unused fence."""
    now: int = 0
    """The time of the last commit."""
    longest: int = 0
    """The longest TTL that was ever granted."""
    opens_at: int = 0
    """Nothing new is granted before this time: a restore was accepted."""
    counter: int = 0
    """The database file's change counter when the log was last copied into it."""
    frames: int = 0
    """Pages in the log after the last commit that is in it."""
    log: int = CONTINUED
    """State of the log after that commit."""
    end: bytes = NO_LOG
    """Salts and running check sum of the last of those pages, in hexadecimal digits: no other log has the same."""


def change_counter(path: str) -> int:
    """Return the change counter of the file itself, not of its log; 0 if the file is empty.

    SQLite reads it: to open and close the file here would drop the locks that SQLite has on it in this process.
    """
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
    file = apsw.VFSFile("", path, [flags, 0])
    try:
        return int.from_bytes(file.xRead(4, COUNTER), "big") if file.xFileSize() else 0
    finally:
        file.xClose()


class WalFile:
    """The log file of an open database, for reading. SQLite has no locks on this file."""

    __slots__ = ("_fd", "_page")

    def __init__(self, path: str) -> None:
        self._fd = -1
        self._fd = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        self._page = 0

    @property
    def is_empty(self) -> bool:
        """True if no log has begun in the file."""
        return int.from_bytes(os.pread(self._fd, 4, 0), "big") not in _MAGIC

    def salt(self) -> int:
        """Return the first salt, which grows by one whenever the log is begun anew."""
        return int.from_bytes(os.pread(self._fd, 4, 16), "big")

    def end(self, frames: int) -> bytes:
        """Return salts and running check sum of the page with this number; `NO_LOG` if there are fewer."""
        if frames == 0:
            return NO_LOG
        if not self._page:
            self._page = int.from_bytes(os.pread(self._fd, 4, 8), "big")
        found = os.pread(self._fd, 16, HEAD + (frames - 1) * (FRAME + self._page) + 8)
        return found.hex().encode() if len(found) == 16 else NO_LOG

    def has_commit(self) -> bool:
        """Return True if it contains a whole transaction, not only the beginning of one."""
        head = os.pread(self._fd, HEAD, 0)
        order = "big" if int.from_bytes(head[:4], "big") & 1 else "little"
        page = int.from_bytes(head[8:12], "big")
        sums = _summed(head[:24], (0, 0), order)
        for number in range(_MOST_CHECKED):
            frame = os.pread(self._fd, FRAME + page, HEAD + number * (FRAME + page))
            if len(frame) < FRAME + page:
                return False
            sums = _summed(frame[:8] + frame[FRAME:], sums, order)
            if frame[8:16] != head[16:24] or frame[16:24] != b"".join(each.to_bytes(4, "big") for each in sums):
                return False
            if frame[4:8] != b"\0\0\0\0":
                return True
        return True

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def __del__(self) -> None:
        self.close()


class Wal:
    """Keeps the log of an open database short, and the gate's high-water mark in step with it."""

    __slots__ = (
        "_busy_ms",
        "_gate",
        "_is_stamped",
        "_log",
        "_path",
        "checkpoint_mode",
        "fold_limit",
        "frames",
        "is_unmarked",
        "limit",
        "longest",
        "mark",
    )

    def __init__(self, path: str, gate: Gate, busy_ms: int) -> None:
        self._path = path
        self._gate = gate
        self._busy_ms = busy_ms
        self._log: WalFile | None = None
        self.mark = Mark(1)
        """The high-water mark of the last commit."""
        self.longest = 0
        """The longest TTL that was ever granted."""
        self.is_unmarked = False
        """True while the gate still lacks the mark of a commit, because it could not be written."""
        self.frames = 0
        """Pages in the log."""
        self.limit = self.fold_limit = BRIEF_CHECKPOINT
        """Pages in the log before it is copied into the database file; in a commit that folds the journal as well."""
        self.checkpoint_mode = apsw.SQLITE_CHECKPOINT_TRUNCATE
        self._is_stamped = False
        """True while the transaction under way changes the database's change counter: then its log may be copied."""

    def heed(self, mark: Mark) -> None:
        """Continue from this mark."""
        self.mark = mark
        self.longest = max(self.longest, mark.longest)
        self.frames = 0 if mark.log == EMPTIED else mark.frames

    def stamp(self, cursor: apsw.Cursor, *, is_folding: bool) -> None:
        """Change the database's change counter if the log is to be copied after the commit that follows."""
        self._is_stamped = self.frames >= (self.fold_limit if is_folding else self.limit)
        if self._is_stamped:
            cursor.execute(_STAMP)

    def after_commit(self, connection: apsw.Connection, _name: str, pages: int) -> int:
        """Copy a long log into the database file. SQLite calls this after each commit, still during the turn.

        SQLite's own way to do this leaves the log as it is, for the same process to overwrite. The next one-shot
        process cannot know that it was copied, reads all of it and appends to it: the log would grow for ever. So
        one-shot processes empty it.
        """
        self.frames = pages
        self.mark = self.mark._replace(frames=pages, log=CONTINUED, end=b"")
        if self._is_stamped:
            self._is_stamped = False
            self.copy(connection)
        return apsw.SQLITE_OK

    def copy(self, connection: apsw.Connection) -> None:
        """Copy the log into the database file as far as no reader needs it, and note how far that went."""
        self.mark = self.mark._replace(end=self._end())
        try:
            connection.set_busy_timeout(0)  # do not wait for readers: the next commit tries again
            length, copied = connection.wal_checkpoint(mode=self.checkpoint_mode)
            if length == copied:
                is_emptied = self.checkpoint_mode == apsw.SQLITE_CHECKPOINT_TRUNCATE
                self.frames = 0 if is_emptied else self.frames
                log = EMPTIED if is_emptied else COPIED
                self.mark = self.mark._replace(log=log, counter=change_counter(self._path))
        except apsw.Error:
            pass  # the commit happened, and must not be reported as failed; the next one reports a failing disk
        finally:
            connection.set_busy_timeout(self._busy_ms)

    def _end(self) -> bytes:
        self._log = self._log or WalFile(self._path)
        return self._log.end(self.mark.frames)

    def write_mark(self, meta: SqliteMeta) -> None:
        """Write the mark of the last commit to the gate. Only during a turn, after the commit."""
        self.is_unmarked = True
        end = self.mark.end or self._end()
        self.mark = self.mark._replace(fence=meta.fence, now=meta.now, longest=self.longest, end=end)
        self._gate.set_mark(self.mark)
        self.is_unmarked = False

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._log is not None:
            self._log.close()


def _summed(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    """Continue SQLite's running check sum."""
    first, second = sums
    for at in range(0, len(data), 8):
        first = (first + int.from_bytes(data[at : at + 4], order) + second) & 0xFFFFFFFF  # type: ignore[arg-type]
        second = (second + int.from_bytes(data[at + 4 : at + 8], order) + first) & 0xFFFFFFFF  # type: ignore[arg-type]
    return first, second


def is_alone(path: str) -> bool:
    """Return True if the database file has no log beside it, so that it alone has everything."""
    return not os.path.exists(f"{path}-wal") or os.stat(f"{path}-wal").st_size == 0


FITS = "fits"
"""The files are exactly those of the mark."""
AGREES = "agrees"
"""The log is empty, missing, or contained in the database: its numbers can be compared with the mark."""
UNKNOWN = "unknown"
"""The mark does not know this log: it is right only if its commits are newer than the mark."""
STRANGE = "strange"
"""The log and the database are of different times."""


def fit(path: str, mark: Mark) -> str:
    """Return how the database and the log beside it agree with the mark."""
    counter = change_counter(path)
    try:
        log = WalFile(path)
    except FileNotFoundError:
        return FITS if mark.log == EMPTIED and counter >= mark.counter else AGREES
    try:
        if log.is_empty:
            return FITS if mark.log == EMPTIED and counter >= mark.counter else AGREES
        if counter < mark.counter:
            return STRANGE
        return _log_fit(log, mark)
    finally:
        log.close()


def _log_fit(log: WalFile, mark: Mark) -> str:
    if mark.frames:
        begun, salt = log.salt(), int(mark.end[:8], 16)
        if begun == salt and log.end(mark.frames) == mark.end:
            return FITS
        if mark.log != CONTINUED and begun == (salt + 1) & 0xFFFFFFFF:
            return FITS  # begun anew by a process that was killed before it wrote the mark
    if mark.log == EMPTIED:
        return UNKNOWN if log.has_commit() else AGREES
    return STRANGE

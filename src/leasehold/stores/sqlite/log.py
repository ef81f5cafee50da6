"""The files of SQLite as they are on disk: the database's change counter, and the end of its write-ahead log.

SQLite does not notice that a log belongs to another state of the database than the one that it lies beside: it reads
pages of both. The high-water mark on the gate says which belong together (docs/adr/0011).

The layout is SQLite's file format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

# Pathlib costs a one-shot process more than all of this.
# ruff: noqa: PTH110, PTH116

from __future__ import annotations

import os

import apsw

from leasehold.noun import Noun

NO_LOG = b"0" * 32
"""Stands for the end of the log where there was none yet."""
CONTINUED = 0
COPIED = 1
EMPTIED = 2
"""What became of the log: the next commit appends to it, or may start it anew, or it was emptied or removed."""
HEAD = 32
FRAME = 24
"""Bytes that SQLite writes before all pages of its log, and before each of them."""
COUNTER = 24
"""Where the change counter is in a database file."""
_MAGIC = (0x377F0682, 0x377F0683)
_MOST_CHECKED = 4_096
"""Pages of a log that are looked through for a commit: no transaction of ours is so large."""


class Mark(Noun):
    """The high-water mark: what the database must have reached, and which files belong together."""

    fence: int
    """The first fence that was not given out."""
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
    """What became of the log after that commit."""
    end: bytes = NO_LOG
    """Salts and running check sum of the last of those pages, in hexadecimal digits: no other log has the same."""


def change_counter(path: str) -> int:
    """The change counter of the file itself, whatever the log says. 0 if it is empty.

    By way of SQLite: to open and close it ourselves would drop the locks that SQLite has on it in this process.
    """
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
    file = apsw.VFSFile("", path, [flags, 0])
    try:
        return int.from_bytes(file.xRead(4, COUNTER), "big") if file.xFileSize() else 0
    finally:
        file.xClose()


class Log:
    """The log of an open database, for reading. SQLite has no locks on this file."""

    __slots__ = ("_fd", "_page")

    def __init__(self, path: str) -> None:
        self._fd = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        self._page = 0

    @property
    def is_empty(self) -> bool:
        """Whether no log has begun in it."""
        return int.from_bytes(os.pread(self._fd, 4, 0), "big") not in _MAGIC

    def salt(self) -> int:
        """The first salt, which grows by one whenever the log is begun anew."""
        return int.from_bytes(os.pread(self._fd, 4, 16), "big")

    def end(self, frames: int) -> bytes:
        """Salts and running check sum of its page with this number; `NO_LOG` if it has not so many."""
        if frames == 0:
            return NO_LOG
        if not self._page:
            self._page = int.from_bytes(os.pread(self._fd, 4, 8), "big")
        found = os.pread(self._fd, 16, HEAD + (frames - 1) * (FRAME + self._page) + 8)
        return found.hex().encode() if len(found) == 16 else NO_LOG

    def has_commit(self) -> bool:
        """Whether SQLite would find a transaction in it, and not only the beginning of one that was never finished."""
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
        """Give the file back."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            self.close()


def _summed(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    """SQLite's running check sum."""
    first, second = sums
    for at in range(0, len(data), 8):
        first = (first + int.from_bytes(data[at : at + 4], order) + second) & 0xFFFFFFFF  # type: ignore[arg-type]
        second = (second + int.from_bytes(data[at + 4 : at + 8], order) + first) & 0xFFFFFFFF  # type: ignore[arg-type]
    return first, second


def is_alone(path: str) -> bool:
    """Whether the database file has no log beside it, so that all there is is in it."""
    return not os.path.exists(f"{path}-wal") or os.stat(f"{path}-wal").st_size == 0


FITS = "fits"
"""Exactly what the mark says."""
AGREES = "agrees"
"""All that is in the log, if there is one, is in the database as well: what they say together is worth comparing."""
UNKNOWN = "unknown"
"""A log that the mark does not know: right only if its commits are newer than the mark."""
STRANGE = "strange"
"""The log and the database are of different times."""


def fit(path: str, mark: Mark) -> str:
    """How the database and the log beside it agree with the mark."""
    counter = change_counter(path)
    try:
        log = Log(path)
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


def _log_fit(log: Log, mark: Mark) -> str:
    if mark.frames:
        begun, salt = log.salt(), int(mark.end[:8], 16)
        if begun == salt and log.end(mark.frames) == mark.end:
            return FITS
        if mark.log != CONTINUED and begun == (salt + 1) & 0xFFFFFFFF:
            return FITS  # begun anew by a process that was killed before it could say so
    if mark.log == EMPTIED:
        return UNKNOWN if log.has_commit() else AGREES
    return STRANGE

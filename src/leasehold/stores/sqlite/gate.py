"""The gate: processes take turns here before they write, and it remembers how far the database has come.

SQLite's own busy handler starves writers; `flock` hands the turn on in order. Nothing depends on the gate for
safety between processes, only for fairness: what keeps two writers apart is the database's own lock.

The file holds the high-water mark, see `Mark`. It is written after each commit, so it is never ahead of a healthy
database; a database that is behind it was restored from a backup, or put together from files of different times
(docs/adr/0011). The file must not be deleted, nor restored with the database.
"""

from __future__ import annotations

import fcntl
import os

from leasehold.domain.timestamps import FOREVER
from leasehold.stores.sqlite.wal import Mark

_FORM = b"%020d %020d %020d %020d %010d %010d %d %s"
_LENGTH = 4 * 21 + 2 * 11 + 2 + 32
_WHOLE = _LENGTH + 10
_PRIME = 0xFFFFFFFB
"""The remainder by it tells of each wrong byte. (To import a check sum takes longer than to open the database.)"""
_open: set[int] = set()
"""Gates of this process, by file descriptor."""


class Gate:
    """A turn-taking lock between processes, with a high-water mark written on it."""

    __slots__ = ("_fd", "_pid")

    def __init__(self, path: str, mode: int = 0o600) -> None:
        # A link in its place would have another file overwritten; NONBLOCK: a FIFO would wait for a writer.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._fd = os.open(path, flags, 0o600)
        self._pid = os.getpid()
        _open.add(self._fd)
        status = os.fstat(self._fd)
        if mode != 0o600 and not status.st_size and status.st_uid == os.geteuid():
            os.fchmod(self._fd, mode)

    def take(self) -> None:
        """Wait for our turn."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def try_to_take(self) -> bool:
        """Whether it is our turn at once."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """It is the next one's turn."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def mark(self) -> Mark | None:
        """The high-water mark; None if there is none that can be read (a new or damaged file)."""
        text = os.pread(self._fd, _WHOLE, 0)
        if len(text) != _WHOLE or text[_LENGTH:] != _check(text[:_LENGTH]):
            return None
        *numbers, end = text[:_LENGTH].split(b" ")
        mark = Mark._make((*map(int, numbers), end))
        return mark if mark.fence <= FOREVER else None

    def is_new(self) -> bool:
        """Whether nothing was ever written on it."""
        return os.fstat(self._fd).st_size == 0

    def set_mark(self, mark: Mark) -> None:
        """Write the mark. Only while it is our turn, or a lower one could replace a higher one."""
        text = _FORM % mark
        os.pwrite(self._fd, text + _check(text), 0)

    def sync(self) -> None:
        """Have the mark on disk now rather than some seconds later."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Give the turn up, if it is ours, and the file."""
        if self._fd >= 0 and self._pid == os.getpid():
            _open.discard(self._fd)
            os.close(self._fd)
        self._fd = -1

    def __del__(self) -> None:
        if hasattr(self, "_pid"):
            self.close()


def _check(text: bytes) -> bytes:
    return b" %08x\n" % (int.from_bytes(text, "big") % _PRIME)


def _let_go_in_child() -> None:
    # A child that keeps the file open would keep the gate shut if its parent were killed during its turn.
    for fd in _open:
        os.close(fd)
    _open.clear()


os.register_at_fork(after_in_child=_let_go_in_child)

"""The gate: a lock file at which processes take turns to write, with the database's high-water mark in it.

SQLite's own busy handler starves writers; `flock` serves them in order. The gate gives fairness, not safety: the
database's own lock excludes a second writer.

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
"""The remainder by it detects each wrong byte. (Importing a check sum takes longer than opening the database.)"""
_open: set[int] = set()
"""Gates of this process, by file descriptor."""


class Gate:
    """A lock between processes, granted in order, with a high-water mark in its file."""

    __slots__ = ("_fd", "_pid")

    def __init__(self, path: str, mode: int = 0o600) -> None:
        # NOFOLLOW: a link in its place would overwrite another file. NONBLOCK: a FIFO would wait for a writer.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._fd = -1  # for `__del__`, if it cannot be opened
        self._pid = os.getpid()
        self._fd = os.open(path, flags, 0o600)
        _open.add(self._fd)
        status = os.fstat(self._fd)
        if mode != 0o600 and not status.st_size and status.st_uid == os.geteuid():
            os.fchmod(self._fd, mode)

    def take(self) -> None:
        """Wait for the turn of this process."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def try_to_take(self) -> bool:
        """Take the turn if it is free; return True if it was."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """End the turn."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def mark(self) -> Mark | None:
        """Return the high-water mark; None if the file is new or damaged."""
        text = os.pread(self._fd, _WHOLE, 0)
        if len(text) != _WHOLE or text[_LENGTH:] != _check(text[:_LENGTH]):
            return None
        *numbers, end = text[:_LENGTH].split(b" ")
        mark = Mark._make((*map(int, numbers), end))
        return mark if mark.fence <= FOREVER else None

    def is_new(self) -> bool:
        """Return True if no mark was ever written."""
        return os.fstat(self._fd).st_size == 0

    def set_mark(self, mark: Mark) -> None:
        """Write the mark. Only during a turn, or a lower mark could replace a higher one."""
        text = _FORM % mark
        os.pwrite(self._fd, text + _check(text), 0)

    def sync(self) -> None:
        """Flush the mark to disk now rather than some seconds later."""
        os.fsync(self._fd)

    def close(self) -> None:
        """End the turn, if held, and close the file."""
        if self._fd >= 0 and self._pid == os.getpid():
            _open.discard(self._fd)
            os.close(self._fd)
        self._fd = -1

    def __del__(self) -> None:
        self.close()


def _check(text: bytes) -> bytes:
    return b" %08x\n" % (int.from_bytes(text, "big") % _PRIME)


def _close_in_child() -> None:
    # A child with the file open would hold the lock if its parent were killed during its turn.
    for fd in _open:
        os.close(fd)
    _open.clear()


os.register_at_fork(after_in_child=_close_in_child)

"""The gate: processes take turns here before they write, and it remembers the highest fence ever given out.

SQLite's own busy handler starves writers; `flock` hands the turn on in order. Nothing depends on the gate for
safety, only for fairness: what keeps two writers apart is the database's own lock.

The file's first line is the high-water mark: the first fence that was not given out when the last commit was
made. It is written after the commit, so it is never ahead of a healthy database; a database that is behind it
was restored from a backup. The file must not be deleted while anybody uses the database.
"""

from __future__ import annotations

import fcntl
import os

from leasehold.model import FOREVER

_DIGITS = 20
_open: set[int] = set()
"""Gates of this process, by file descriptor."""


class Gate:
    """A turn-taking lock between processes, with a number written on it."""

    __slots__ = ("_fd", "_pid")

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._pid = os.getpid()
        _open.add(self._fd)

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

    def mark(self) -> int | None:
        """The first fence that was not given out yet; None if that cannot be read (a new or damaged file)."""
        line = os.pread(self._fd, _DIGITS + 1, 0)
        if len(line) != _DIGITS + 1 or line[-1:] != b"\n" or not line[:-1].isdigit():
            return None
        mark = int(line)
        return mark if mark <= FOREVER else None

    def set_mark(self, fence: int) -> None:
        """Write the mark. Only while it is our turn, or a smaller number could replace a larger one."""
        os.pwrite(self._fd, b"%020d\n" % fence, 0)

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


def _let_go_in_child() -> None:
    # A child that keeps the file open would keep the gate shut if its parent were killed during its turn.
    for fd in _open:
        os.close(fd)
    _open.clear()


os.register_at_fork(after_in_child=_let_go_in_child)

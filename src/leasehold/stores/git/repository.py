"""The private bare repository, a cache: it holds the commits that were fetched and those about to be pushed.

The user's own clones stay untouched: their index, working tree and refs.
"""

# pathlib costs a one-shot process more than this whole module
# ruff: noqa: PTH103, PTH110, PTH116, PTH118, PTH123

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from stat import S_ISDIR, S_IWGRP, S_IWOTH

from leasehold.errors import StoreError, StoreUnsuitable

_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tfilemode = true\n"
_HEAD = "ref: refs/heads/none\n"
_PAUSE = 0.004
_CROWDED = 60


def make(directory: str) -> str:
    """Create the repository unless it exists; return a git directory in it that only this process uses.

    Like a worktree's, that directory shares everything but `FETCH_HEAD`: a git that outlives the process which started
    it must not write into the file that another process reads.
    """
    _refuse_planted(directory)
    own = os.path.join(directory, "turns", f"{os.getpid()}-{os.urandom(4).hex()}")
    ensure(directory, own)
    return own


def _refuse_planted(directory: str) -> None:
    """Raise StoreUnsuitable if another user can have changed the cache: git runs commands that its config names."""
    try:
        status = os.stat(directory)
    except FileNotFoundError:
        return
    is_own = S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    if not is_own or (status.st_mode & (S_IWGRP | S_IWOTH) and os.listdir(directory)):  # noqa: PTH208
        raise StoreUnsuitable(
            f"{directory} is not a directory that only you may write; delete it, set XDG_STATE_HOME to a directory of "
            "yours, or append ?cache=DIRECTORY to the URL"
        )


def ensure(directory: str, own: str) -> bool:
    """Create both, readable by their owner only. Return False if they exist already."""
    if os.path.exists(own):
        return False
    try:
        if not os.path.exists(os.path.join(directory, "HEAD")):
            for part in ("objects", "refs", "turns"):
                os.makedirs(os.path.join(directory, part), 0o700, exist_ok=True)
            os.chmod(directory, 0o700)  # noqa: PTH101
            _write(directory, "config", _CONFIG)
            _write(directory, "HEAD", _HEAD)  # last: it marks the repository as complete
        os.mkdir(own, 0o700)  # noqa: PTH102
        _write(own, "commondir", "../..\n")
        _write(own, "HEAD", _HEAD)
    except OSError as error:
        raise StoreError(
            f"{directory} cannot be used: {error.strerror}; set XDG_STATE_HOME to a directory of yours, or append "
            "?cache=DIRECTORY to the URL"
        ) from error
    return True


def _write(directory: str, name: str, text: str) -> None:
    draft = os.path.join(directory, f"{name}.{os.urandom(8).hex()}")  # a thread of this process may write one, too
    with open(draft, "w", encoding="ascii") as file:
        file.write(text)
    os.rename(draft, os.path.join(directory, name))  # noqa: PTH104


def clear(own: str) -> None:
    """Remove a process's own git directory."""
    with suppress(FileNotFoundError):
        for name in os.listdir(own):  # noqa: PTH208
            os.unlink(os.path.join(own, name))  # noqa: PTH108
        os.rmdir(own)  # noqa: PTH106


def clear_left_over(directory: str) -> None:
    """Remove the git directories of processes that were killed."""
    for name in os.listdir(os.path.join(directory, "turns")):  # noqa: PTH208
        number = name.partition("-")[0]
        if number.isdigit() and not os.path.exists(f"/proc/{number}") and os.path.isdir("/proc/self"):  # noqa: PTH112
            clear(os.path.join(directory, "turns", name))


def unlock(directory: str, complaint: str) -> bool:
    """Delete the lock file that a killed git has left here, if `complaint` names one. Return True if it does."""
    found = complaint.partition("Unable to create '")[2].partition(".lock'")[0] + ".lock"
    if not os.path.realpath(found).startswith(os.path.realpath(directory) + "/"):
        return False
    with suppress(FileNotFoundError):
        os.unlink(found)  # noqa: PTH108
    return True


def is_crowded(directory: str) -> bool:
    """Return True if a clean-up pays: there are many loose objects, estimated from one of their 256 folders."""
    try:
        return len(os.listdir(os.path.join(directory, "objects", "17"))) > _CROWDED  # noqa: PTH208
    except FileNotFoundError:
        return False


class ProcessLock:
    """A file lock: only one process at a time uses this cache.

    Safety does not depend on it, since the remote compares. It saves pushes that the remote would reject.
    """

    def __init__(self, directory: str, patience: float) -> None:
        self._path = os.path.join(directory, "turn")
        self._patience = patience
        self._fd = -1

    def acquire(self) -> None:
        """Acquire the lock. Raise `StoreError` if another process holds it for too long."""
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        end = time.monotonic() + self._patience
        while not self._try():
            if time.monotonic() > end:
                raise StoreError(
                    f"another process has been using {self._path} for {self._patience:.0f} s; is it stopped?"
                )
            time.sleep(_PAUSE)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Release the lock."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

"""Wake one process that waits: each has a FIFO of its own in a directory beside the database. A wake-up is only a hint.

The name of a FIFO is the key of the engine that listens to it. The process that ends a wait of that engine writes one
byte to it. A process that is killed leaves its FIFO behind, which nobody reads: the next process that writes to it, or
that listens after a minute, removes it. The directory is as private as the database, and a FIFO is used only if its
owner may write the database as well (docs/adr/0046).
"""

# Pathlib costs a one-shot process more than all of this.
# ruff: noqa: PTH101, PTH102, PTH108, PTH116, PTH208

from __future__ import annotations

import os
import time
from _thread import start_new_thread
from stat import S_ISDIR, S_ISFIFO, S_IWGRP, S_IWOTH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ENDING = ".wake"
"""The directory of the FIFOs is named after the database."""
STALE = 60.0
"""Seconds after which a FIFO that nobody reads is removed. One that is just being made is not read yet."""
_WRITE = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_AT_ONCE = 4_096
_open: set[int] = set()
"""FIFOs that this process reads, by file descriptor."""


class Ear:
    """Hears wake-ups of one engine, in a thread of its own, until it is closed."""

    __slots__ = ("_fd", "_is_closed", "_path", "_pid", "_told")

    def __init__(self, path: str, fd: int, told: Callable[[], None]) -> None:
        self._path = path
        self._fd = fd
        self._told = told
        self._pid = os.getpid()
        self._is_closed = False
        _open.add(fd)
        start_new_thread(self._hear, ())

    def _hear(self) -> None:
        while True:
            os.read(self._fd, _AT_ONCE)  # several wake-ups are one
            if self._is_closed:
                break
            self._told()
        _open.discard(self._fd)
        os.close(self._fd)

    def close(self) -> None:
        """Remove the FIFO and end the thread. In a child that inherited it, do nothing."""
        if self._is_closed or self._pid != os.getpid():
            return
        self._is_closed = True
        _remove(self._path)
        os.write(self._fd, b"\0")  # it opened the FIFO for writing, too


def hear(database: str, engine: str, told: Callable[[], None]) -> Ear | None:
    """Have `told` called when another process wakes this engine; None if that is not possible here."""
    directory = database + ENDING
    try:
        shared = bool(os.stat(database).st_mode & S_IWGRP)  # a group may write the database
        if not _make_directory(directory, database, shared):
            return None
        _remove_stale(directory)
        path = f"{directory}/{engine}"
        fd = _make_fifo(path, shared)
    except OSError:  # a file system without FIFOs, for example
        return None
    return None if fd is None else Ear(path, fd, told)


def wake(database: str, engines: Sequence[str]) -> None:
    """Wake these engines, as far as they listen."""
    try:
        status = os.stat(database)
    except OSError:
        return
    for engine in engines:
        if engine.isalnum():  # nothing that leads out of the directory
            _wake(f"{database}{ENDING}/{engine}", status)


def _wake(path: str, database: os.stat_result) -> None:
    """Write a byte into the FIFO of a waiting engine. Remove the FIFO if no process reads it."""
    try:
        fd = os.open(path, _WRITE)
    except FileNotFoundError:
        return  # it does not listen, and polls
    except OSError as error:
        if error.errno == 6:  # ENXIO: nobody reads it (importing `errno` is not worth it)
            _remove(path)
        return
    try:
        if _is_trusted(os.fstat(fd), database):
            os.write(fd, b"\1")
    except OSError:  # it is full: it will be read
        pass
    finally:
        os.close(fd)


def _is_trusted(fifo: os.stat_result, database: os.stat_result) -> bool:
    """Return True if this is a FIFO of a user who may write the database, and no other user may read or write it."""
    if not S_ISFIFO(fifo.st_mode) or fifo.st_mode & S_IWOTH:
        return False
    if fifo.st_uid in (os.geteuid(), database.st_uid):
        return True
    return bool(database.st_mode & S_IWGRP) and fifo.st_gid == database.st_gid


def _make_directory(directory: str, database: str, shared: bool) -> bool:
    """Make the directory if it is missing. Return False if another user could have planted it, or could change it."""
    try:
        os.mkdir(directory, 0o700)
        if shared:
            os.chmod(directory, 0o2770)  # noqa: S103 (the group may write the database, too) # nosec B103
    except FileExistsError:
        pass
    found, file = os.lstat(directory), os.stat(database)
    if not S_ISDIR(found.st_mode) or found.st_mode & S_IWOTH:
        return False
    if shared:
        return found.st_gid == file.st_gid
    return found.st_uid in (os.geteuid(), file.st_uid) and not found.st_mode & S_IWGRP


def _make_fifo(path: str, shared: bool) -> int | None:
    """Make the FIFO and open it; None if what is there is not ours."""
    os.mkfifo(path, 0o600)
    fd = os.open(path, _READ)
    status = os.fstat(fd)
    if not S_ISFIFO(status.st_mode) or status.st_uid != os.geteuid():
        os.close(fd)
        return None
    if shared:
        os.fchmod(fd, 0o660)  # the group may wake, too # nosec B103
    os.set_blocking(fd, True)
    return fd


def _remove_stale(directory: str) -> None:
    """Remove the FIFOs of processes that were killed."""
    old = time.time() - STALE
    for name in os.listdir(directory):
        path = f"{directory}/{name}"
        try:
            if os.lstat(path).st_mtime < old:
                os.close(os.open(path, _WRITE))
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno == 6:  # ENXIO, see above
                _remove(path)


def _remove(path: str) -> None:
    try:  # noqa: SIM105 (a one-shot process does not load contextlib)
        os.unlink(path)
    except OSError:
        pass


def _close_in_child() -> None:
    # A FIFO with a reader counts as one whose process lives.
    for fd in _open:
        os.close(fd)
    _open.clear()


os.register_at_fork(after_in_child=_close_in_child)

"""The tokens of the leases that the command line took, in private files, so that `release NAME` needs nothing else.

It keeps and finds; whether a lease still lives is for the store to say. A token that outlived its lease opens nothing.

A file for each resource and one for each lease, named after the hash of what they belong to; in it a line for each
lease: its id, its token, the resource. Whoever writes has the directory to itself, and replaces a file as a whole.
All spellings of one store's URL lead to the same files; those that were once written by the spelling itself are still
found by it.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH103, PTH123, PTH208

from __future__ import annotations

import fcntl
import os
import time
from stat import S_ISREG

from leasehold import places
from leasehold.errors import LeaseholdError
from leasehold.noun import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import Self

MOST = 100
"""So many leases of one holder on one resource are known; with more (a semaphore), the oldest are forgotten."""
_DAY = 24 * 3_600


class Kept(Noun):
    """One line of one file."""

    lease: str
    token: str
    resource: str


def remember(
    url: str,
    space: str,
    holder: str,
    resources: Iterable[str],
    lease: str,
    token: str,
    *,
    env: Mapping[str, str] | None = None,
) -> None:
    """Keep the token of a lease; it is found by each of its resources and by its id."""
    lines = [Kept(lease, token, resource) for resource in resources]
    scope = _scopes(url, space, holder)[0]
    with _Drawer(_directory(env), create=True) as drawer:
        drawer.write(_name(scope, lease), lines)
        for line in lines:
            name = _name(scope, line.resource)
            others = [other for other in drawer.read(name) if other.lease != lease]
            drawer.write(name, [*others, line][-MOST:])


def recall(
    url: str, space: str, holder: str, target: str, *, env: Mapping[str, str] | None = None
) -> tuple[str, str] | None:
    """Id and token of the newest lease on this resource, or of the lease with this id; None if none is known."""
    with _Drawer(_directory(env)) as drawer:
        for scope in _scopes(url, space, holder):
            lines = drawer.read(_name(scope, target))
            if lines:
                return lines[-1][:2]
    return None


def forget(url: str, space: str, holder: str, lease: str, *, env: Mapping[str, str] | None = None) -> None:
    """The lease is no more: forget its token, and no other's. Idempotent."""
    with _Drawer(_directory(env), alone=True) as drawer:
        for scope in _scopes(url, space, holder):
            lines = drawer.read(_name(scope, lease))
            for name in (_name(scope, line.resource) for line in lines):
                drawer.write(name, [line for line in drawer.read(name) if line.lease != lease])
            drawer.write(_name(scope, lease), [])


def all_for(url: str, space: str, holder: str, *, env: Mapping[str, str] | None = None) -> list[Kept]:
    """Everything that is kept for this holder, in no particular order."""
    scopes = _scopes(url, space, holder)
    with _Drawer(_directory(env)) as drawer:
        found = [line for name in drawer.names() if name.startswith(scopes) for line in drawer.read(name)]
    return list(dict.fromkeys(found))


def tidy(*, days: int = 30, env: Mapping[str, str] | None = None) -> int:
    """Remove what nobody has touched for so many days; how many files went."""
    with _Drawer(_directory(env), alone=True) as drawer:
        return sum(drawer.remove_if_older(name, time.time() - days * _DAY) for name in drawer.names())


def _directory(env: Mapping[str, str] | None) -> str:
    return places.token_directory(os.environ if env is None else env)


def _scopes(url: str, space: str, holder: str) -> tuple[str, ...]:
    """Under what the files are named: the first is written, also the others are read."""
    return tuple(dict.fromkeys(places.digest(each, space, holder) for each in (places.one_spelling(url), url)))


def _name(scope: str, target: str) -> str:
    return f"{scope}-{places.digest(target)}"


class _Drawer:
    """The directory, if it is private; one that is not there is empty."""

    def __init__(self, path: str, *, create: bool = False, alone: bool = False) -> None:
        self._path = path
        self._create = create
        self._alone = alone or create
        self._fd = -1

    def __enter__(self) -> Self:
        try:
            self._open()
        except FileNotFoundError:
            pass
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def _open(self) -> None:
        if self._create:
            os.makedirs(self._path, 0o700, exist_ok=True)
        self._fd = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        _refuse_exposed(self._path, os.fstat(self._fd), "700")
        if self._alone:
            fcntl.flock(self._fd, fcntl.LOCK_EX)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if isinstance(error, OSError):
            raise LeaseholdError(
                f"tokens cannot be kept in {self._path}: {error.strerror}; mend that, set XDG_STATE_HOME to another "
                "directory, or keep the token yourself with --token-file"
            ) from error

    def names(self) -> list[str]:
        """The names of all files, also of those that a killed process left half written."""
        return os.listdir(self._fd) if self._fd >= 0 else []

    def read(self, name: str) -> list[Kept]:
        """The lines of a file; one that is not there has none."""
        if self._fd < 0:
            return []
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._fd)
        except FileNotFoundError:
            return []
        with open(fd, encoding="utf-8", errors="replace", newline="\n") as file:
            _refuse_exposed(f"{self._path}/{name}", os.fstat(fd), "600")
            return [Kept(*parts) for line in file if len(parts := line.rstrip("\n").split(" ", 2)) == 3]

    def write(self, name: str, lines: list[Kept]) -> None:
        """Replace a file; without lines it goes."""
        if not lines:
            self._remove(name)
            return
        draft = f".{name}.{os.getpid()}"
        self._remove(draft)  # of a killed process that had our number
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(draft, flags, 0o600, dir_fd=self._fd)
        try:
            with open(fd, "w", encoding="utf-8", newline="\n") as file:
                file.writelines(f"{' '.join(line)}\n" for line in lines)
            os.rename(draft, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            self._remove(draft)
            raise

    def remove_if_older(self, name: str, than: float) -> bool:
        """Remove a file that was last written before this time; whether it was."""
        is_old = os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_mtime < than
        if is_old:
            self._remove(name)
        return is_old

    def _remove(self, name: str) -> None:
        try:
            if self._fd >= 0:
                os.unlink(name, dir_fd=self._fd)
        except FileNotFoundError:
            pass


def _refuse_exposed(path: str, status: os.stat_result, mode: str) -> None:
    why = places.exposure(status)
    if why:
        raise LeaseholdError(
            f"{path} is not private: {why}, so the tokens in it may be known to others. If you trust it, make it yours "
            f"(chown) and private (chmod {mode}); otherwise remove it"
        )
    if mode == "600" and not S_ISREG(status.st_mode):
        raise LeaseholdError(f"{path} is not a file: remove it")

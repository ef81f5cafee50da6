"""The tokens of the leases that the command line acquired, in private files, so that `release NAME` needs nothing else.

This module saves and finds tokens; only the store knows whether a lease still lives. A token that outlived its lease is
useless. Each token is saved with its owner: the holder's name, the layer that named it, and the processes that the
command came from (see ``identity``). A command only finds tokens that it may use.

There is one file for each resource and one for each lease, named after a hash. A writer locks the directory and
replaces a file as a whole. All spellings of one store's URL lead to the same files.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH103, PTH123, PTH208

from __future__ import annotations

import fcntl
import os
import time
from stat import S_ISREG

from leasehold.config import paths as places
from leasehold.config import urls
from leasehold.domain.keys import is_lease_id, is_plan_id
from leasehold.domain.nouns import Noun
from leasehold.errors import LeaseholdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import Protocol, Self

    class TokenUser(Protocol):
        """The identity of a command that saves or uses tokens (see ``identity``)."""

        @property
        def holder(self) -> str:
            """The holder's name."""

        @property
        def layer(self) -> int:
            """The layer that gave the name."""

        def saved(self) -> str:
            """Return the processes that the command comes from, as text."""

        def may_use(self, holder: str, layer: int, saved: str) -> bool:
            """True if this command may use a token that was saved with this identity."""


MOST = 256
"""The most leases kept for one resource; with more (a semaphore), the oldest are forgotten."""
PROOFS = 64
"""The most tokens sent with one request."""
_DAY = 24 * 3_600


class SavedToken(Noun):
    """A token as one line of a file."""

    lease: str
    token: str
    layer: int
    """The layer that named the holder."""
    chain: str
    """The processes that the acquiring command came from."""
    holder: str
    resource: str


class Tokens:
    """The tokens for one space of one store, as far as the caller may use them."""

    __slots__ = ("_directory", "_scope", "_user")

    def __init__(self, url: str, space: str, user: TokenUser, *, env: Mapping[str, str] | None = None) -> None:
        self._user = user
        self._directory = places.token_directory(os.environ if env is None else env)
        self._scope = places.digest(urls.one_spelling(url), space)

    def remember(self, resources: Iterable[str], lease: str, token: str) -> None:
        """Save the token of a lease under each of its resources and under its id."""
        user = self._user
        who = (lease, token, user.layer, user.saved(), user.holder)
        lines = [SavedToken(*who, resource) for resource in resources]
        with _TokenDirectory(self._directory, create=True) as directory:
            directory.write(self._name(lease), lines)
            for line in lines:
                name = self._name(line.resource)
                others = [other for other in directory.read(name) if other.lease != lease]
                directory.write(name, [*others, line][-MOST:])

    def recall(self, target: str) -> tuple[str, str] | None:
        """Return id and token of the newest lease on this resource, or with this id, that the caller may use."""
        return next(((line.lease, line.token) for line in reversed(self.seen(target)) if self._may_use(line)), None)

    def seen(self, target: str) -> list[SavedToken]:
        """Return everything that this user acquired under this name, or as this lease, for any caller."""
        with _TokenDirectory(self._directory) as directory:
            return directory.read(self._name(target))

    def forget(self, lease: str) -> None:
        """Remove the token of a lease that has ended, and no other's. Idempotent."""
        with _TokenDirectory(self._directory, alone=True) as directory:
            for name in [self._name(line.resource) for line in directory.read(self._name(lease))]:
                directory.write(name, [line for line in directory.read(name) if line.lease != lease])
            directory.write(self._name(lease), [])

    def all(self) -> list[SavedToken]:
        """Return every token that the caller may use, in no particular order."""
        return [line for line in self.every() if self._may_use(line)]

    def of_namesakes(self) -> list[SavedToken]:
        """Return the tokens that another process saved under the caller's name."""
        return [line for line in self.every() if line.holder == self._user.holder and not self._may_use(line)]

    def every(self) -> list[SavedToken]:
        """Return every token of this user, in no particular order."""
        head = f"{self._scope}--"
        with _TokenDirectory(self._directory) as directory:
            found = [line for name in directory.names() if name.startswith(head) for line in directory.read(name)]
        return list(dict.fromkeys(found))

    def proofs(self, resources: Iterable[str]) -> list[str]:
        """Return tokens as proof of what the caller holds, those on these resources first; at most `PROOFS`."""
        with _TokenDirectory(self._directory) as directory:
            if not directory.is_any:
                return []
        named = [line for resource in resources for line in reversed(self.seen(resource)) if self._may_use(line)]
        return list(dict.fromkeys(line.token for line in (*named, *self.all())))[:PROOFS]

    def _may_use(self, line: SavedToken) -> bool:
        return self._user.may_use(line.holder, line.layer, line.chain)

    def _name(self, target: str) -> str:
        return f"{self._scope}-{'-' if is_lease_id(target) or is_plan_id(target) else ''}{places.digest(target)}"


def tidy(*, days: int = 30, env: Mapping[str, str] | None = None) -> int:
    """Remove files that were not written for so many days; return how many."""
    with _TokenDirectory(places.token_directory(os.environ if env is None else env), alone=True) as directory:
        return sum(directory.remove_if_older(name, time.time() - days * _DAY) for name in directory.names())


class _TokenDirectory:
    """The directory of the tokens. Raises if it is not private; a missing directory counts as empty."""

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
                f"tokens cannot be kept in {self._path}: {error.strerror}; repair that, set XDG_STATE_HOME to another "
                "directory, or keep the token yourself with --token-file"
            ) from error

    @property
    def is_any(self) -> bool:
        """True if the directory exists."""
        return self._fd >= 0

    def names(self) -> list[str]:
        """Return the names of all files, those that a killed process left half written included."""
        return os.listdir(self._fd) if self._fd >= 0 else []

    def read(self, name: str) -> list[SavedToken]:
        """Return the tokens in a file; none if there is no such file."""
        if self._fd < 0:
            return []
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._fd)
        except FileNotFoundError:
            return []
        with open(fd, encoding="utf-8", errors="replace", newline="\n") as file:
            _refuse_exposed(f"{self._path}/{name}", os.fstat(fd), "600")
            return [kept for line in file if (kept := _read(line)) is not None]

    def write(self, name: str, lines: list[SavedToken]) -> None:
        """Replace a file; remove it if there are no lines."""
        if not lines:
            self._remove(name)
            return
        draft = f".{name}.{os.getpid()}"
        self._remove(draft)  # of a killed process with the same pid
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(draft, flags, 0o600, dir_fd=self._fd)
        try:
            with open(fd, "w", encoding="utf-8", newline="\n") as file:
                file.writelines("\t".join(map(str, line)) + "\n" for line in lines)
            os.rename(draft, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            self._remove(draft)
            raise

    def remove_if_older(self, name: str, than: float) -> bool:
        """Remove a file that was last written before this time; return whether it was."""
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


def _read(line: str) -> SavedToken | None:
    """Parse one line; None if it is malformed."""
    parts = line.rstrip("\n").split("\t")
    if len(parts) != 6 or not parts[2].isdecimal():
        return None
    lease, token, layer, chain, holder, resource = parts
    return SavedToken(lease, token, int(layer), chain, holder, resource)


def _refuse_exposed(path: str, status: os.stat_result, mode: str) -> None:
    why = places.exposure(status)
    if why:
        raise LeaseholdError(
            f"{path} is not private: {why}, so the tokens in it may be known to others. If you trust it, make it yours "
            f"(chown) and private (chmod {mode}); otherwise remove it"
        )
    if mode == "600" and not S_ISREG(status.st_mode):
        raise LeaseholdError(f"{path} is not a file: remove it")

"""The tokens of the leases that the command line took, in private files, so that `release NAME` needs nothing else.

It keeps and finds; whether a lease still lives is for the store to say. A token that outlived its lease opens nothing.
With each token stands who took it: the holder's name, by which layer it has it, and the processes that the command came
from (see ``identity``). A token is only found by those who may use it.

A file for each resource and one for each lease, named after the hash of what they belong to. A writer has the directory
to itself, and replaces a file as a whole. All spellings of one store's URL lead to the same files.
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
from leasehold.domain.keys import is_lease_id
from leasehold.domain.nouns import Noun
from leasehold.errors import LeaseholdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import Protocol, Self

    class TokenUser(Protocol):
        """What tokens want to know of those who take and use them (see ``identity``)."""

        @property
        def holder(self) -> str:
            """The holder's name."""

        @property
        def layer(self) -> int:
            """Which layer gave the name."""

        def saved(self) -> str:
            """The processes that the command comes from, as a text."""

        def may_use(self, holder: str, layer: int, saved: str) -> bool:
            """Whether a token that was taken so is for this command to use."""


MOST = 256
"""So many leases on one resource are known; with more (a semaphore), the oldest are forgotten."""
PROOFS = 64
"""So many tokens go with one request."""
_DAY = 24 * 3_600


class SavedToken(Noun):
    """One line of one file."""

    lease: str
    token: str
    layer: int
    """By which layer the holder was named."""
    chain: str
    """The processes that the command came from which took it."""
    holder: str
    resource: str


class Tokens:
    """The tokens for one space of one store, as one asker may use them."""

    __slots__ = ("_asker", "_directory", "_scope")

    def __init__(self, url: str, space: str, asker: TokenUser, *, env: Mapping[str, str] | None = None) -> None:
        self._asker = asker
        self._directory = places.token_directory(os.environ if env is None else env)
        self._scope = places.digest(urls.one_spelling(url), space)

    def remember(self, resources: Iterable[str], lease: str, token: str) -> None:
        """Keep the token of a lease; it is found by each of its resources and by its id."""
        asker = self._asker
        who = (lease, token, asker.layer, asker.saved(), asker.holder)
        lines = [SavedToken(*who, resource) for resource in resources]
        with _TokenDirectory(self._directory, create=True) as drawer:
            drawer.write(self._name(lease), lines)
            for line in lines:
                name = self._name(line.resource)
                others = [other for other in drawer.read(name) if other.lease != lease]
                drawer.write(name, [*others, line][-MOST:])

    def recall(self, target: str) -> tuple[str, str] | None:
        """Id and token of the newest lease on this resource, or of the lease with this id, that the asker may use."""
        return next(((line.lease, line.token) for line in reversed(self.seen(target)) if self._may_use(line)), None)

    def seen(self, target: str) -> list[SavedToken]:
        """Everything that this user has taken under this name, or as this lease, whoever may use it."""
        with _TokenDirectory(self._directory) as drawer:
            return drawer.read(self._name(target))

    def forget(self, lease: str) -> None:
        """The lease is no more: forget its token, and no other's. Idempotent."""
        with _TokenDirectory(self._directory, alone=True) as drawer:
            for name in [self._name(line.resource) for line in drawer.read(self._name(lease))]:
                drawer.write(name, [line for line in drawer.read(name) if line.lease != lease])
            drawer.write(self._name(lease), [])

    def all(self) -> list[SavedToken]:
        """Everything that the asker may use, in no particular order."""
        head = f"{self._scope}--"
        with _TokenDirectory(self._directory) as drawer:
            found = [line for name in drawer.names() if name.startswith(head) for line in drawer.read(name)]
        return [line for line in dict.fromkeys(found) if self._may_use(line)]

    def proofs(self, resources: Iterable[str]) -> list[str]:
        """The tokens that prove what the asker has, those on these resources first; at most as many as are taken."""
        with _TokenDirectory(self._directory) as drawer:
            if not drawer.is_any:
                return []
        named = [line for resource in resources for line in reversed(self.seen(resource)) if self._may_use(line)]
        return list(dict.fromkeys(line.token for line in (*named, *self.all())))[:PROOFS]

    def _may_use(self, line: SavedToken) -> bool:
        return self._asker.may_use(line.holder, line.layer, line.chain)

    def _name(self, target: str) -> str:
        return f"{self._scope}-{'-' if is_lease_id(target) else ''}{places.digest(target)}"


def tidy(*, days: int = 30, env: Mapping[str, str] | None = None) -> int:
    """Remove what nobody has touched for so many days; how many files went."""
    with _TokenDirectory(places.token_directory(os.environ if env is None else env), alone=True) as drawer:
        return sum(drawer.remove_if_older(name, time.time() - days * _DAY) for name in drawer.names())


class _TokenDirectory:
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

    @property
    def is_any(self) -> bool:
        """Whether the directory is there."""
        return self._fd >= 0

    def names(self) -> list[str]:
        """The names of all files, also of those that a killed process left half written."""
        return os.listdir(self._fd) if self._fd >= 0 else []

    def read(self, name: str) -> list[SavedToken]:
        """The lines of a file; one that is not there has none."""
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
                file.writelines("\t".join(map(str, line)) + "\n" for line in lines)
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


def _read(line: str) -> SavedToken | None:
    """One line; None if it makes no sense."""
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

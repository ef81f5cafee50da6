"""A copy of a large git index that has git's cache of untracked files, too: it saves a status a third of its time.

Git's own index is only read. The copy is named after the checksum at the end of the index, so that it is never another
one's. Git writes it once, while it takes a picture anyway; then nobody does. Its time is set to the moment before that
status began: whatever changed in that second or later, git compares by content ("racy" entries) or lists anew.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH103, PTH105, PTH108, PTH110, PTH113, PTH116, PTH118, PTH123, PTH208

from __future__ import annotations

import os
import time

from leasehold.domain.nouns import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LARGE_BYTES = 1024 * 1024
"""An index of this size, of some 10,000 files, is worth a copy."""
STALE_S = 600
"""Seconds after which a copy is made anew, as directories that changed since are listed each time."""
_CHECKSUM = 20
"""Bytes of it, or the last of those, at the end of an index."""
_READING = ("--no-optional-locks", "-c", "core.untrackedCache=keep")
_WRITING = ("-c", "core.untrackedCache=true", "-c", "core.splitIndex=false", "-c", "status.showUntrackedFiles=normal")
_COPY, _DRAFT = ".index", ".draft"
_UNTRACKED_CACHE = b"UNTR"


class QuickIndex(Noun):
    """How one status reads the index; `close` it afterwards."""

    words: tuple[str, ...] = _READING
    """Options of git."""
    env: Mapping[str, str] = {}
    descriptor: int = -1
    """The open copy, which git inherits: another process may remove its name at any time."""
    draft: str = ""
    """The copy that git completes in this status."""
    started: int = 0
    """The moment before the status, by the clock that stamps files, in nanoseconds."""

    def close(self, *, is_good: bool) -> None:
        """Close the copy; one that git has completed is published."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        if not self.draft:
            return
        directory = os.path.dirname(self.draft)  # noqa: PTH120
        if is_good:
            os.utime(self.draft, ns=(self.started, self.started))
            target = self.draft.partition(_COPY)[0] + _COPY
            os.replace(self.draft, target)
            _clean(directory, os.path.basename(target))  # noqa: PTH119
        else:
            _remove(self.draft)


PLAIN = QuickIndex()


def opened(root: str, directory: str) -> QuickIndex:
    """Return how to read the index of this tree, with a copy in this directory if that is worth it."""
    try:
        with open(_index(root), "rb") as index:
            size = os.fstat(index.fileno()).st_size
            if size < LARGE_BYTES:
                return PLAIN
            index.seek(-_CHECKSUM, os.SEEK_END)
            checksum = index.read()
            if not any(checksum):  # `index.skipHash`
                return PLAIN
            copy = os.path.join(directory, checksum.hex() + _COPY)
            return _read(copy) or _begun(index.fileno(), copy)
    except OSError:
        return PLAIN  # git says what is wrong, or the directory is read-only


def _index(root: str) -> str:
    place = os.path.join(root, ".git")
    if os.path.isfile(place):
        with open(place, encoding="utf-8", errors="surrogateescape") as file:
            place = os.path.join(root, file.read().removeprefix("gitdir:").strip())
    return os.path.join(place, "index")


def _read(copy: str) -> QuickIndex | None:
    """Return the copy, opened; None if there is none, or if it is worth another one."""
    try:
        descriptor = os.open(copy, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    path = f"/dev/fd/{descriptor}"
    if os.fstat(descriptor).st_mtime < time.time() - STALE_S or not os.path.exists(path):
        os.close(descriptor)
        return None
    return QuickIndex(env={"GIT_INDEX_FILE": path}, descriptor=descriptor)


def _begun(index: int, copy: str) -> QuickIndex:
    """Copy the index, for git to add its cache; its own time is kept meanwhile, by which git knows its racy entries."""
    if not os.path.isdir("/dev/fd"):  # noqa: PTH112
        return PLAIN
    os.makedirs(os.path.dirname(copy), 0o777, exist_ok=True)  # noqa: PTH120
    status = os.fstat(index)
    content = os.pread(index, status.st_size, 0)
    if _UNTRACKED_CACHE in content:
        return PLAIN  # it has one already
    draft = f"{copy}.{os.getpid()}{_DRAFT}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb") as file:
        file.write(content)
        file.flush()
        started = os.fstat(file.fileno()).st_mtime_ns
    os.utime(draft, ns=(status.st_mtime_ns, status.st_mtime_ns))
    return QuickIndex(_WRITING, {"GIT_INDEX_FILE": draft}, draft=draft, started=started)


def _clean(directory: str, newest: str) -> None:
    """Remove older copies, and the drafts of hooks that were killed."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        is_old = name != newest if name.endswith(_COPY) else _age(path) > STALE_S
        if is_old:
            _remove(path)


def _age(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_ctime
    except FileNotFoundError:
        return 0


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return  # another hook was quicker

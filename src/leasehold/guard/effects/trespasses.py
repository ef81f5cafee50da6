"""Changes of files that another agent held, until they are resolved: git's hooks refuse to commit or push those.

A trespass is resolved when the file is again as it was, or when its holder has released the file.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH103, PTH105, PTH108, PTH116, PTH118, PTH123, PTH208

from __future__ import annotations

import json
import os

from leasehold.config import paths as places
from leasehold.domain.names import shown
from leasehold.domain.nouns import Noun
from leasehold.guard.effects.picture import state_of
from leasehold.guard.effects.undoing import content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from leasehold.guard.effects.picture import State


class Trespass(Noun):
    """One file that one agent changed while another one held it."""

    root: str
    path: str
    """Below the root."""
    resource: str
    """The name that was held: the file's, or one that covers it."""
    lease: str
    holder: str
    """The agent that held it."""
    by: str
    """The agent that changed it."""
    original: str | None
    """Git's id of what the file held before; empty if it did not exist, None if that is unknown."""
    undo: str
    """The shell command that restores it; empty if only the holder can."""
    copy: str = ""
    """The file that this command copies from; empty if it takes the content from a commit."""
    is_certain: bool = True
    """False if another call may have changed the file: the agent may undo it, and nothing else comes of it."""
    left: State = None
    """In which state the agent's call left the file."""

    @property
    def is_undone(self) -> bool:
        """True if the file is as it was."""
        return self.original is not None and content(self.root, self.path) == self.original

    @property
    def is_as_left(self) -> bool:
        """True if nobody has changed the file since: only then may the agent undo what it did to it."""
        return state_of(self.root, self.path) == self.left


def report_to_holder(found: Collection[Trespass]) -> str:
    """Return the message for the holder of these files."""
    lines = [f"{each.path}, which you hold, was changed by {each.by}: read it anew." for each in found]
    return "\n".join(map(shown, lines))


class Trespasses:
    """The unresolved trespasses in one tree, in a directory that all of its agents share."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def add(self, trespass: Trespass) -> None:
        """Record a trespass; one on a file that has one already keeps what the file held at first."""
        os.makedirs(self._directory, 0o777, exist_ok=True)
        path = self._path(trespass)
        known = self._read(path)
        if known is not None and (known.is_certain or not trespass.is_certain):
            trespass = known._replace(left=trespass.left)
        if trespass != known:
            draft = f"{path}.{os.getpid()}"
            with open(draft, "w", encoding="utf-8", errors="surrogatepass") as file:
                json.dump(trespass._asdict(), file)
            os.replace(draft, path)

    def unresolved(self, leases: Collection[str]) -> list[Trespass]:
        """Return those on these leases, except of files that are as they were before."""
        return [each for each in self._all() if each.is_certain and each.lease in leases and not each.is_undone]

    def of_agent(self, holder: str) -> dict[tuple[str, str], Trespass]:
        """Return those of the agent that changed the files, by path and lease, also if they are undone."""
        return {(each.path, each.lease): each for each in self._all() if each.by == holder}

    def accept(self, paths: Collection[str], leases: Collection[str]) -> None:
        """Remove those on these files and leases, whose holder has worked on the files since."""
        for trespass in [each for each in self._all() if each.path in paths and each.lease in leases]:
            self._remove(trespass)

    def clean(self, held: Collection[str], since: int) -> None:
        """Remove those that are undone or whose lease is over, given the ids of all leases that were held since then.

        `since`: the moment, by the clock that stamps files. One that was recorded later may be on a newer lease.
        """
        for trespass in list(self._all()):
            if trespass.is_undone or (trespass.lease not in held and self._is_from_before(since, trespass)):
                self._remove(trespass)

    def _is_from_before(self, moment: int, trespass: Trespass) -> bool:
        try:
            return os.stat(self._path(trespass)).st_mtime_ns < moment
        except FileNotFoundError:
            return False  # another hook has just removed it

    def unreported(self, leases: Collection[str]) -> list[Trespass]:
        """Return those on these leases that were not reported to their holder yet, and count them as reported."""
        certain = [each for each in self._all() if each.is_certain and each.lease in leases]
        found = [each for each in certain if not os.path.exists(self._reported_mark(each))]  # noqa: PTH110 (see above)
        for trespass in found:
            with open(self._reported_mark(trespass), "wb"):
                pass
        return found

    def _reported_mark(self, trespass: Trespass) -> str:
        return f"{self._path(trespass)}.told"

    def _all(self) -> Iterator[Trespass]:
        try:
            names = sorted(os.listdir(self._directory))
        except FileNotFoundError:
            return
        for name in names:
            found = self._read(os.path.join(self._directory, name)) if name.endswith(_ENDING) else None
            if found is not None:
                yield found

    @staticmethod
    def _read(path: str) -> Trespass | None:
        """Return what is on record there; None if nothing is, or if another hook has just removed it."""
        try:
            with open(path, encoding="utf-8", errors="surrogatepass") as file:
                found = json.load(file)
        except FileNotFoundError:
            return None
        return Trespass(**{**found, "left": found["left"] and tuple(found["left"])})

    def _remove(self, trespass: Trespass) -> None:
        for path in filter(None, (self._path(trespass), self._reported_mark(trespass), trespass.copy)):
            try:
                os.unlink(path)
            except (FileNotFoundError, PermissionError):
                continue  # another hook was quicker, the holder got no report yet, or the copy is another user's

    def _path(self, trespass: Trespass) -> str:
        return os.path.join(self._directory, places.digest(trespass.path, trespass.lease, trespass.by) + _ENDING)


_ENDING = ".trespass"

"""How an agent can undo what its call did to a file that another agent holds. Nothing is ever undone for it."""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH103, PTH118

from __future__ import annotations

import os
import shutil
from stat import S_ISLNK, S_ISREG

from leasehold.domain.names import shown
from leasehold.guard.checking import typed
from leasehold.guard.effects.comparing import LINK, blobs, hashed, hashed_link
from leasehold.guard.effects.picture import git, hidden_in, state_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from leasehold.guard.effects.picture import TreePicture

COPIES_MOST, COPY_BYTES = 64, 4 * 1024 * 1024
"""Held files that are copied before a call, each of at most this size: those that differ from their commit."""
ABSENT = ""
"""The content of a file that does not exist."""
_TO = "to "
"""Before git's id of the target of a symbolic link, so that no file with that text counts as the link."""
_MAGIC = frozenset(":*?[\\")
"""Characters by which a path given to git may stand for others."""


def copy(picture: TreePicture, held: Iterable[str], directory: str) -> dict[str, str]:
    """Copy the held files that no commit has, so that they can be restored; return the copies by path."""
    copies: dict[str, str] = {}
    for path in _unlike_commit(picture, held):
        os.makedirs(directory, 0o700, exist_ok=True)
        target = os.path.join(directory, f"{len(copies)}-{os.path.basename(path)}")  # noqa: PTH119
        try:
            shutil.copy2(os.path.join(picture.root, path), target)
        except FileNotFoundError:
            continue  # its holder has just removed it
        copies[path] = target
        if len(copies) == COPIES_MOST:
            break
    return copies


def _unlike_commit(picture: TreePicture, held: Iterable[str]) -> list[str]:
    """Return the held files with other contents than in the commit, without large ones."""
    states = {path: picture.states[path] for path in sorted(picture.states.keys() & set(held))}
    plain = [path for path, state in states.items() if state and S_ISREG(state[0]) and state[2] <= COPY_BYTES]
    if not picture.head or not plain:
        return plain
    now, then = hashed(picture.root, plain), blobs(picture.root, picture.head, plain)
    return [path for path in plain if then.get(path, ("", ABSENT))[1] != now.get(path) or then[path][0] == LINK]


def content(root: str, path: str) -> str | None:
    """Return git's id of what is in this file now; empty if it does not exist, None if it is no file of git's."""
    state = state_of(root, path)
    if state is None:
        return ABSENT
    if S_ISLNK(state[0]):
        return _TO + hashed_link(root, path)
    return hashed(root, [path]).get(path, ABSENT) if S_ISREG(state[0]) else None


def committed(picture: TreePicture, path: str) -> str:
    """Return git's id of what the picture's commit has at this path; empty if it has nothing there."""
    found = blobs(picture.root, picture.head, [path]) if picture.head else {}
    mode, id_ = found.get(path, ("", ABSENT))
    return _TO + id_ if mode == LINK else id_


def original(picture: TreePicture, path: str, copies: Mapping[str, str]) -> str | None:
    """Return git's id of what the file held when the picture was taken; None if that is unknown."""
    if path in copies:
        return git(picture.root, "hash-object", "--path", path, copies[path]).decode().strip()
    if picture.states.get(path, _UNCHANGED) is None:
        return ABSENT
    if path in picture.watched:
        return committed(picture, path) or None  # an ignored file is in no commit
    return committed(picture, path) if picture.head and path not in picture.states else None


def command(picture: TreePicture, path: str, copies: Mapping[str, str]) -> str:
    """Return the shell command that restores the file as it was; empty if only its holder knows how it was."""
    file = typed(os.path.join(picture.root, path))
    if path in copies:
        folder = os.path.dirname(os.path.join(picture.root, path))  # noqa: PTH120
        first = "" if os.path.isdir(folder) else f"mkdir -p {typed(folder)} && "  # noqa: PTH112
        return shown(f"{first}cp -p {typed(copies[path])} {file}")
    then = original(picture, path, copies)
    if then == ABSENT:
        return shown(f"rm {file}")
    if then is None:
        return ""
    git_ = f"git -C {typed(picture.root)}" + (" --literal-pathspecs" if _MAGIC & {*path} else "")
    skipped = "--ignore-skip-worktree-bits " if path in hidden_in(picture.root, [path]) else ""
    return shown(f"{git_} restore {skipped}--source={picture.head[:12]} -- {typed(path)}")


_UNCHANGED = (0, 0, 0, 0)

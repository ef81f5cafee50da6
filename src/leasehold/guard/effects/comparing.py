"""Which paths of a tree changed between two pictures of it."""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH115, PTH118

from __future__ import annotations

import os
from stat import S_ISLNK, S_ISREG

from leasehold.errors import LeaseholdError
from leasehold.guard.effects.picture import git, hidden_in, names_in, state_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasehold.guard.effects.picture import State, TreePicture

CERTAIN_MOST = 5_000
"""Up to so many doubtful paths are compared by content; more than that count as changed."""
_AT_ONCE = 500
"""Paths that are given to one command of git."""
LINK = "120000"
"""Git's mode of a symbolic link, whose content is its target."""


def changed(before: TreePicture, after: TreePicture) -> list[str]:
    """Return the paths whose files are not as they were, by whatever way they changed."""
    found = {path for path, state in before.states.items() if state != state_in(after, path)}
    if not after.is_readable:  # nothing is lost of its other files that are gone: a commit has them
        return sorted(path for path in found if path not in before.watched or state_in(after, path) is not None)
    rewritten = _rewritten(before, found)
    # Watched paths with no file are folders that are gone, whose files git reports one by one.
    absent = {path for path in after.watched if after.states[path] is None and path not in after.hidden}
    new = after.states.keys() - before.states.keys() - absent
    doubtful = new & {*after.staged, *after.hidden}  # their index changed, and perhaps nothing else
    if before.head != after.head:
        doubtful |= set(_differing(before, after)) - before.states.keys()
        doubtful |= new
    return sorted((found - rewritten) | (new - doubtful) | _unlike(before, doubtful | rewritten))


def _rewritten(before: TreePicture, found: set[str]) -> set[str]:
    """Return those of the changed paths that held what the commit has, and may hold it still."""
    doubtful = found & set(before.watched) - set(before.hidden)
    if not doubtful or not before.head:
        return set()
    committed = blobs(before.root, before.head, doubtful)
    return doubtful & committed.keys() - set(hidden_in(before.root, doubtful))


def state_in(after: TreePicture, path: str) -> State:
    """Return the state of a file in this picture, or now if git did not report it."""
    return after.states[path] if path in after.states else state_of(after.root, path)


def _differing(before: TreePicture, after: TreePicture) -> list[str]:
    """Return the paths in which the two commits differ."""
    root, commits = after.root, [picture.head for picture in (before, after) if picture.head]
    if len(commits) == 1:
        return names_in(git(root, "ls-tree", "-r", "-z", "--full-tree", "--name-only", *commits))
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--ignore-submodules=all")
    return names_in(git(root, *words, *commits))


def _unlike(before: TreePicture, paths: Iterable[str]) -> set[str]:
    """Return those of the paths whose files have other contents than the commit of the first picture."""
    wanted = sorted(paths)
    if not wanted or len(wanted) > CERTAIN_MOST or not before.head:
        return set(wanted)
    states = {path: state_of(before.root, path) for path in wanted}
    plain = {path: state for path, state in states.items() if state is not None and S_ISREG(state[0])}
    ids = hashed(before.root, [*plain])
    # Of the mode of a plain file, git keeps only who may run it.
    now = {path: ("100755" if plain[path][0] & 0o100 else "100644", id_) for path, id_ in ids.items()}
    links = [path for path, state in states.items() if state is not None and S_ISLNK(state[0])]
    now |= {path: (LINK, hashed_link(before.root, path)) for path in links}
    then = blobs(before.root, before.head, wanted)
    known = {*plain, *links}
    return {path for path in wanted if then.get(path) != now.get(path) or (states[path] and path not in known)}


def hashed(root: str, paths: Sequence[str]) -> dict[str, str]:
    """Return git's ids of the contents of these files, without those that vanish meanwhile."""
    if not paths:
        return {}
    if len(paths) > _AT_ONCE:
        return {**hashed(root, paths[:_AT_ONCE]), **hashed(root, paths[_AT_ONCE:])}
    try:
        told = git(root, "hash-object", "--", *paths).decode().split()
    except LeaseholdError:
        there = [path for path in paths if state_of(root, path) is not None]
        if len(paths) == 1 and there:
            raise
        half = len(there) // 2
        return (
            hashed(root, there)
            if len(there) < len(paths)
            else {**hashed(root, there[:half]), **hashed(root, there[half:])}
        )
    return dict(zip(paths, told, strict=True))


def hashed_link(root: str, path: str) -> str:
    """Return git's id of the target of this link; empty if it is no link any more."""
    try:
        target = os.readlink(os.path.join(root, path))
    except OSError:
        return ""
    return git(root, "hash-object", "--stdin", feed=os.fsencode(target)).decode().strip()


def blobs(root: str, commit: str, paths: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the modes and the ids of the contents that these paths have in a commit."""
    wanted, words = list(paths), ("ls-tree", "-r", "-z", "--full-tree", commit, "--")
    entries: list[str] = []
    for start in range(0, len(wanted), _AT_ONCE):
        entries += names_in(git(root, *words, *wanted[start : start + _AT_ONCE]))
    found = {}
    for entry in entries:
        about, _, path = entry.partition("\t")
        mode, _, id_ = about.split()
        found[path] = (mode, id_)
    return found

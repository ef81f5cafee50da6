"""Which working trees a call of a hook concerns, and which files in them it names.

A path belongs to its own repository, whatever directory the tool runs in: to another worktree, a submodule, or another
repository altogether.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH118, PTH120

from __future__ import annotations

import os

from leasehold.guard.checking import Below
from leasehold.guard.effects import trees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasehold.guard.effects.trees import Tree


def of_paths(here: str, cwd: str, paths: Iterable[str]) -> tuple[Tree, ...]:
    """Return the tree of `here`, then those that contain the paths; a path outside of git concerns only the first."""
    found = {(first := trees.containing(here)).root: first}
    for path in paths:
        try:
            tree = trees.containing(os.path.dirname(os.path.join(cwd, path)))
        except ValueError:  # a NUL, or what cannot be encoded: no file is called that
            continue
        if tree.is_git:
            found.setdefault(tree.root, tree)
    return tuple(found.values())


def of_command(here: str, cwd: str, paths: Iterable[str], mentioned: Iterable[str] = ()) -> tuple[Tree, ...]:
    """Return every tree that a command reaches: the worktrees and submodules around it and around what it names."""
    found = [tree.root for tree in of_paths(here, cwd, paths)]
    others = filter(None, map(_mentioned, mentioned))
    return trees.around(dict.fromkeys([*found, *(tree.root for tree in others)]))


def _mentioned(place: str) -> Tree | None:
    """Return the git repository of a place that a command mentions; a home directory in git would take too long."""
    try:
        tree = trees.containing(place)
    except ValueError:  # no file is called that
        return None
    is_home = f"{os.path.expanduser('~')}/".startswith(f"{tree.root}/")  # noqa: PTH111 (see the module)
    return tree if tree.is_git and not is_home else None


def with_targets(paths: Sequence[str], cwd: str) -> list[str]:
    """Return the paths, and of those that are links also their targets: a file tool may write through a link."""
    found = dict.fromkeys(paths)
    for path in paths:
        whole = os.path.join(cwd, path)
        try:
            if os.path.islink(whole):  # noqa: PTH114 (see the module)
                found[os.path.realpath(whole)] = None
        except ValueError:  # a NUL, or what cannot be encoded: no file is called that
            continue
    return list(found)


def split(paths: Iterable[str], cwd: str, found: Sequence[Tree]) -> dict[str, list[str]]:
    """Return the paths below each tree that they are in, by its root; git's own files belong to none."""
    below = [(tree.root, Below(tree.root, cwd)) for tree in sorted(found, key=lambda tree: -len(tree.root))]
    named: dict[str, list[str]] = {tree.root: [] for tree in found}
    for path in paths:
        root, inner = next(((root, inner) for root, each in below if (inner := each.find(path))), ("", ""))
        if root and not inner.startswith(".git/"):
            named[root].append(inner)
    return named

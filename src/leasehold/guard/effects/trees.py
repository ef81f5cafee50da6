"""The working trees that a tool call can reach: the one it runs in, the repository's other worktrees, submodules.

Git is not asked, since this runs before each tool call: its small files are read instead.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH112, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import os

from leasehold.config import paths as places
from leasehold.domain.nouns import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TREES_MOST = 64
"""A tool call is compared in at most this many trees; more worktrees than that are left out."""


class Tree(Noun):
    """One working tree."""

    root: str
    """Its top directory, without links."""
    common: str
    """The git directory that it shares with its other worktrees; empty outside of git."""

    @property
    def is_git(self) -> bool:
        """True for the working tree of a git repository."""
        return bool(self.common)


def around(directories: Iterable[str]) -> tuple[Tree, ...]:
    """Return the trees that contain these directories, with their other worktrees, submodules and superprojects."""
    found: dict[str, Tree] = {}
    for directory in directories:
        tree: Tree | None = containing(directory)
        while tree is not None:
            for each in _related(tree) if tree.is_git else (tree,):
                found.setdefault(each.root, each)
            tree = _superproject(tree)
    return tuple(found.values())[:TREES_MOST]


def containing(directory: str) -> Tree:
    """Return the working tree that contains this directory; outside of git the directory itself."""
    real = os.path.realpath(directory)
    while not os.path.isdir(real):  # a folder that the call is about to create
        real = os.path.dirname(real)
    copy = places.working_copy(real, {})
    return Tree(real, "") if copy is None else Tree(os.path.realpath(copy.root), copy.common)


def shared(tree: Tree, what: str, state: str) -> str:
    """Return the directory in which all agents of a tree keep this; below `state` where git's directory is closed."""
    own = os.path.join(tree.common, places.LOCKS)
    top = own if tree.is_git and os.access(own, os.W_OK) else state
    return os.path.join(top, "effects", places.digest(tree.root), what)


def _related(tree: Tree) -> Iterator[Tree]:
    for root in (tree.root, *_worktrees(tree.common)):
        if os.path.lexists(os.path.join(root, ".git")):
            yield Tree(root, tree.common)
            yield from _submodules(root)


def _worktrees(common: str) -> Iterator[str]:
    """Yield the top directories of the main worktree and of all linked ones."""
    if os.path.basename(common) == ".git":  # noqa: PTH119 (see above)
        yield os.path.dirname(common)
    linked = os.path.join(common, "worktrees")
    try:
        names = sorted(os.listdir(linked))
    except FileNotFoundError:
        return
    for name in names:
        pointer = _text(os.path.join(linked, name, "gitdir")).rstrip("\n")
        if pointer:
            yield os.path.realpath(os.path.dirname(os.path.join(linked, name, pointer)))


def _submodules(root: str) -> Iterator[Tree]:
    """Yield the submodules that are checked out below this tree, and theirs."""
    for line in _text(os.path.join(root, ".gitmodules")).splitlines():
        name, equals, value = line.partition("=")
        inner = os.path.join(root, value.strip().strip('"'))
        if equals and name.strip() == "path" and os.path.lexists(os.path.join(inner, ".git")):
            tree = containing(inner)
            if tree.root != root:
                yield tree
                yield from _submodules(tree.root)


def _superproject(tree: Tree) -> Tree | None:
    """Return the tree of which this one is a submodule, if there is one."""
    above = os.path.dirname(tree.root)
    if not tree.is_git or above == tree.root:
        return None
    outer = containing(above)
    is_listed = outer.is_git and any(each.root == tree.root for each in _submodules(outer.root))
    return outer if is_listed else None


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""

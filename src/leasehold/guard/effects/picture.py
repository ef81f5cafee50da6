"""A picture of a working tree: its commit, and the state of every file that is not as that commit has it.

`git status` compares the files with git's index, by its own cache of times and sizes, so that a tree of 50,000 files
takes some 50 ms. Outside of git every file is recorded.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH118

from __future__ import annotations

import os
import subprocess

from leasehold.domain.nouns import Noun
from leasehold.errors import LeaseholdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeAlias

    from leasehold.guard.effects.trees import Tree

    State: TypeAlias = tuple[int, int, int, int] | None
    """Mode, inode, size and nanosecond of the last change, as `lstat` gives them; None if the file is absent."""

UNTRACKED_MOST = 20_000
"""Of more untracked files than this, the rest is not recorded, and the picture says so."""
_STATUS = (
    *("--no-optional-locks", "-c", "core.quotePath=false", "-c", "status.relativePaths=false"),
    *(
        "status",
        "--porcelain=v2",
        "-z",
        "--branch",
        "--no-ahead-behind",
        "--untracked-files=normal",
        "--ignore-submodules=all",
        "--no-renames",
    ),
)
_FIELDS = {"1": 8, "u": 10}
"""Before its path, a line of `git status` has this many words, by its first one."""


class TreePicture(Noun):
    """One tree at one moment."""

    root: str
    head: str
    """The commit that is checked out; empty before the first one and outside of git."""
    states: dict[str, State]
    """The files that are not as the commit has them, and those that were asked for, by their paths below the root."""
    staged: tuple[str, ...] = ()
    """Those of which the index differs from the commit: their files may still be as the commit has them."""
    watched: tuple[str, ...] = ()
    """Those that were asked for and that git does not report: they are as committed, ignored, or hidden."""
    hidden: tuple[str, ...] = ()
    """Those in watched folders that git's index hides: it assumes them unchanged, or skips them."""
    is_whole: bool = True
    """False if there were too many untracked files to record."""
    is_readable: bool = True
    """False if git could not read the tree: it was removed, or broken."""


def take(trees: Sequence[Tree], watched: Iterable[str] = (), *, is_later: bool = False) -> list[TreePicture]:
    """Take a picture of each tree, all at once; see `watching`.

    Of a later picture, the tree may be gone or broken; a first one raises LeaseholdError then.
    """
    running = [(tree, _status(tree.root) if tree.is_git else None) for tree in trees]
    pictures = [_developed(tree, process, is_later=is_later) for tree, process in running]
    return watching(trees, pictures, watched, is_later=is_later)


def watching(
    trees: Sequence[Tree], pictures: Iterable[TreePicture], watched: Iterable[str], *, is_later: bool = False
) -> list[TreePicture]:
    """Add to each picture the files of these paths as they are now, ignored or not."""
    paths = dict.fromkeys(sorted(set(watched)))
    return [
        _watching(each, paths, is_later=is_later) if paths and tree.is_git and each.is_readable else each
        for tree, each in zip(trees, pictures, strict=True)
    ]


def _watching(seen: TreePicture, paths: Collection[str], *, is_later: bool) -> TreePicture:
    """Add the files of these paths that git's status leaves out: what they name, what is ignored or hidden."""
    root = seen.root
    folders = [path for path in paths if path == "." or os.path.isdir(os.path.join(root, path))]  # noqa: PTH112
    found = dict.fromkeys(path for path in paths if path not in folders)
    is_missed = is_later and not all(os.path.lexists(os.path.join(root, path)) for path in found)
    hidden = hidden_in(root, paths) if folders or is_missed else []
    if folders:
        words = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", *folders)
        found |= dict.fromkeys(names_in(git(root, *words))[:UNTRACKED_MOST])
    for folder in folders:
        if folder != "." and os.path.lexists(os.path.join(root, folder, ".git")):  # a submodule, held from outside
            found |= dict.fromkeys(files_below(root, folder))
    more = {path: state_of(root, path) for path in (*found, *hidden) if path not in seen.states}
    again = {path: state_of(root, path) for path in seen.states if _lies_in(path, paths)}
    return seen._replace(states={**seen.states, **again, **more}, watched=tuple(more), hidden=tuple(hidden))


def _lies_in(path: str, folders: Collection[str]) -> bool:
    """Return True if these folders have the path or a directory above it."""
    return path in folders or "." in folders or any(path[:at] in folders for at, sign in enumerate(path) if sign == "/")


def hidden_in(root: str, paths: Iterable[str]) -> list[str]:
    """Return the files of these paths that git assumes to be unchanged, or skips: its status leaves them out."""
    entries = names_in(git(root, "ls-files", "-z", "-v", "--cached", "--", *paths))
    return [path for tag, path in (entry.split(" ", 1) for entry in entries) if tag == "S" or tag.islower()]


def state_of(root: str, path: str) -> State:
    """Return the state of one file now."""
    try:
        found = os.lstat(os.path.join(root, path))
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last: no file can be called that
        return None
    return found.st_mode, found.st_ino, found.st_size, found.st_ctime_ns


def files_below(root: str, path: str, most: int = UNTRACKED_MOST) -> Iterator[str]:
    """Yield the files in a directory, or the path itself if it is none; other repositories below it are left out."""
    pending, left = [path], most
    while pending and left > 0:
        current = pending.pop()
        try:
            entries = sorted(os.scandir(os.path.join(root, current)), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            yield current
            left -= 1
            continue
        except PermissionError:
            continue  # the call cannot have changed it either
        for entry in entries:
            inner = f"{current}/{entry.name}" if current not in ("", ".") else entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name != ".git" and not os.path.lexists(os.path.join(entry.path, ".git")):
                    pending.append(inner)
            elif left > 0:
                yield inner
                left -= 1


def git(root: str, *words: str, feed: bytes | None = None) -> bytes:
    """Return what git prints about this tree."""
    done = subprocess.run(  # noqa: S603 (git, as the user has it)
        _command(root, words), input=feed, capture_output=True, env=_environment(), check=False
    )
    if done.returncode:
        raise LeaseholdError(f"git {words[0]} failed in {root}: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout


def names_in(listing: bytes) -> list[str]:
    """Return the paths of a listing that git ends with NULs."""
    return [os.fsdecode(name) for name in listing.split(b"\0") if name]


def to_json(picture: TreePicture) -> dict[str, Any]:
    """Return the picture as JSON values."""
    return picture._asdict()


def from_json(given: Mapping[str, Any]) -> TreePicture:
    """Return the picture that `to_json` wrote."""
    states = {path: None if state is None else tuple(state) for path, state in given["states"].items()}
    lists = {name: tuple(given[name]) for name in ("staged", "watched", "hidden")}
    return TreePicture(**{**given, **lists, "states": states})


def _status(root: str) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 (git, as the user has it)
            _command(root, _STATUS), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment()
        )
    except FileNotFoundError:
        raise LeaseholdError("git is not installed, so nobody can tell what a tool call changes") from None


def _command(root: str, words: Iterable[str]) -> list[str]:
    return ["git", "-C", root, "--literal-pathspecs", *words]


def _environment() -> dict[str, str]:
    """Return the environment without what would lead git to another repository or index."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {"LC_ALL": "C"}


def _developed(tree: Tree, process: subprocess.Popen[bytes] | None, *, is_later: bool) -> TreePicture:
    if process is None:
        states = {path: state_of(tree.root, path) for path in files_below(tree.root, "")}
        return TreePicture(tree.root, "", states, is_whole=len(states) < UNTRACKED_MOST)
    told, trouble = process.communicate()
    if process.returncode and is_later:
        return TreePicture(tree.root, "", {}, is_readable=False)
    if process.returncode:
        raise LeaseholdError(f"git status failed in {tree.root}: {trouble.decode('utf-8', 'replace').strip()}")
    return _read(tree.root, names_in(told))


def _read(root: str, lines: Iterable[str]) -> TreePicture:
    """Return the picture of a tree by the lines of `git status --porcelain=v2`."""
    head, left = "", UNTRACKED_MOST
    states: dict[str, State] = {}
    staged: list[str] = []
    for line in lines:
        kind = line[0]
        if kind in _FIELDS:
            path = line.split(" ", _FIELDS[kind])[-1]
            states[path] = state_of(root, path)
            if line[2] != ".":
                staged.append(path)
        elif kind == "?":
            top = line[2:].rstrip("/")
            is_repository = os.path.lexists(os.path.join(root, top, ".git"))
            for path in () if is_repository else files_below(root, top, left):
                states[path] = state_of(root, path)
                left -= 1
        elif line.startswith("# branch.oid "):
            head = line.rpartition(" ")[2]
    return TreePicture(root, "" if head == "(initial)" else head, states, tuple(staged), is_whole=left > 0)

"""The paths of a commit, a merge or a push, and the fences in commits, as the command `git` reports them."""

from __future__ import annotations

import os
import subprocess

from leasehold.domain.keys import is_fence
from leasehold.errors import LeaseholdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

TRAILER = "Leasehold-Fence"
BRANCHES = "refs/heads/"
WITH_MESSAGE = "prepare-commit-msg"
"""The hook that runs before every commit, also with `--no-verify`."""
MERGES = 100
"""Up to so many merges of a push are analysed; with more, all of their paths from either side count."""
_SETTINGS = ("-c", "trailer.separators=:", "-c", "log.showSignature=false")
"""Settings that make trailers the same for every user."""
_SCISSORS = b" ------------------------ >8 ------------------------"
"""The lines after this one are only shown in the editor (`commit --verbose`)."""
_EVERY_NAME = ("--name-only", "--no-renames", "--ignore-submodules=none", "-z")


def git(*words: str, feed: bytes | None = None) -> bytes:
    """Run git and return its output."""
    done = _run(words, feed)
    if done.returncode:
        raise LeaseholdError(f"git {words[0]} failed: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout


def _run(words: tuple[str, ...], feed: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    whole = ["git", *_SETTINGS, *words]
    return subprocess.run(whole, input=feed, capture_output=True, check=False)  # noqa: S603 (git, as the user has it)


def _names(listing: bytes) -> list[str]:
    return [name.decode("utf-8", "surrogateescape") for name in listing.split(b"\0") if name]


def staged() -> list[str]:
    """Return the paths that the next commit changes or removes. In a hook, git may use a temporary index."""
    found = _staged_since()
    others = _being_merged()
    base = _base_of("HEAD", others[0]) if len(others) == 1 else None
    if base is None:
        return found
    taken = changed_by_itself(
        set(found), set(_staged_since(others[0])), _differing(base, "HEAD"), _differing(base, others[0])
    )
    return sorted(taken)


def _staged_since(*commit: str) -> list[str]:
    return _names(git("diff", "--cached", "--no-relative", *_EVERY_NAME, *commit))


def changed_by_itself(
    unlike_one: AbstractSet[str], unlike_other: AbstractSet[str], by_one: AbstractSet[str], by_other: AbstractSet[str]
) -> set[str]:
    """Return the paths that a merge changes by itself. Pure: it compares sets of file names.

    A path that one side alone has changed, and the merge has as that side does, was checked when that side was
    committed. The rest is the merge's own: paths that differ from both sides, and changes of a side that it drops.
    """
    in_neither = unlike_one & unlike_other
    undone = (unlike_one & by_one) | (unlike_other & by_other)
    return set(in_neither | undone)


def _being_merged() -> list[str]:
    """Return the commits that the next commit merges into HEAD, if it is a merge."""
    try:
        with open(_place("MERGE_HEAD"), encoding="ascii") as file:  # noqa: PTH123 (pathlib takes longer to import than this)
            return file.read().split()
    except FileNotFoundError:
        return []


def _base_of(one: str, other: str) -> str | None:
    """Return the merge base; None if there is none in this clone."""
    return _run(("merge-base", one, other)).stdout.decode().strip() or None


def _differing(one: str, other: str) -> set[str]:
    return set(_names(git("diff-tree", "-r", *_EVERY_NAME, one, other)))


def _place(name: str) -> str:
    """Return the path of one of git's files for this worktree."""
    return git("rev-parse", "--git-path", name).decode("utf-8", "surrogateescape").rstrip("\n")


def is_asked_with_message() -> bool:
    """True if Leasehold's `prepare-commit-msg` hook is installed, even where another tool has moved it."""
    folder = _place("hooks")
    hook = f"{folder}/{WITH_MESSAGE}"
    if not os.access(hook, os.X_OK):
        return False
    return any(map(_asks_us, (hook, f"{hook}.legacy", f"{folder}/../{WITH_MESSAGE}")))


def _asks_us(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 (pathlib takes longer to import than this)
            return f"leasehold git-hook {WITH_MESSAGE}".encode() in file.read()
    except FileNotFoundError:
        return False


def pushed(lines: str) -> list[str]:
    """Return the paths that a push changes, from pre-push's lines `LOCAL-REF LOCAL-ID REMOTE-REF REMOTE-ID`."""
    found: dict[str, None] = {}
    for line in lines.splitlines():
        words = line.split()
        if len(words) == 4 and words[1].strip("0"):
            _, new, ref, old = words
            # Git itself refuses such a push, unless it is forced; the paths that it undoes would be unknown.
            if old.strip("0") and _run(("cat-file", "-e", old)).returncode:
                raise LeaseholdError(
                    f"{ref} has commits at the remote that were never fetched: git fetch, then push again"
                )
            found |= dict.fromkeys([*_changed(new_commits(new, old, "--remotes")), *_taken_back(ref, old, new)])
    return list(found)


def received(lines: str) -> tuple[list[str], set[int]]:
    """Return the paths that a received push changes, and the fences in its commits: `OLD NEW REF` a line."""
    found: dict[str, None] = {}
    fences: set[int] = set()
    for line in lines.splitlines():
        words = line.split()
        if len(words) == 3 and words[1].strip("0"):
            old, new, ref = words
            commits = new_commits(new, old, "--all")
            found |= dict.fromkeys([*_changed(commits), *_taken_back(ref, old, new)])
            fences |= _fences(commits)
    return list(found), fences


def _taken_back(ref: str, old: str, new: str) -> list[str]:
    """Return the paths in which a forced push of a branch undoes changes of the other side."""
    if not ref.startswith(BRANCHES) or not old.strip("0"):
        return []
    base = _base_of(old, new)
    if base == old:
        return []
    done = _differing(base, old) if base is not None else set(_names(git("ls-tree", "-r", "--name-only", "-z", old)))
    return sorted(done & _differing(old, new))


def new_commits(new: str, old: str, known: str) -> list[str]:
    """Return the commits that the other side does not have yet."""
    without = ["--not", known] if not old.strip("0") else ["--not", old, known]
    return git("rev-list", new, *without).decode().split()


def _changed(commits: list[str]) -> list[str]:
    if not commits:
        return []
    merges = _merges(commits)
    plain = [commit for commit in commits if commit not in merges]
    words = ("diff-tree", "--stdin", "--root", "-r", "-m", "--no-commit-id", *_EVERY_NAME)
    found = dict.fromkeys(_names(git(*words, feed=_lines(plain))) if plain else ())
    for merge, (base, one, other) in merges.items():
        sides = _differing(one, merge), _differing(other, merge)
        found |= dict.fromkeys(sorted(changed_by_itself(*sides, _differing(base, one), _differing(base, other))))
    return list(found)


def _merges(commits: list[str]) -> dict[str, tuple[str, str, str]]:
    """Return the base and the two parents of each two-sided merge; empty if there are too many."""
    told = git("rev-list", "--no-walk", "--merges", "--parents", "--stdin", feed=_lines(commits)).decode()
    found = [line.split() for line in told.splitlines()]
    two_sided = [line for line in found if len(line) == 3] if len(found) <= MERGES else []
    bases = {commit: (_base_of(one, other), one, other) for commit, one, other in two_sided}
    return {commit: (base, one, other) for commit, (base, one, other) in bases.items() if base is not None}


def _lines(words: Iterable[str]) -> bytes:
    return "".join(f"{word}\n" for word in words).encode()


def _fences(commits: list[str]) -> set[int]:
    if not commits:
        return set()
    form = f"--format=%(trailers:key={TRAILER},valueonly)"
    told = git("log", "--no-walk", "--stdin", form, feed=_lines(commits))
    words = told.decode("utf-8", "replace").split()
    return {int(word) for word in words if is_fence(word)}


def add_fences(message: str, fences: list[int]) -> None:
    """Add these fences as trailers to a commit's message, once each."""
    words = [word for fence in fences for word in ("--trailer", f"{TRAILER}: {fence}")]
    if words:
        git("interpret-trailers", "--in-place", "--if-exists", "addIfDifferent", *words, message)


def drop_lone_fences(message: str) -> None:
    """Empty a message of nothing but fences, so that git aborts the commit as it does for an empty message."""
    with open(message, "rb") as file:  # noqa: PTH123 (pathlib takes longer to import than this)
        written = file.read()
    lines = written.splitlines()
    kept = [line for line in lines if not line.startswith(TRAILER.encode() + b":")]
    if len(kept) < len(lines) and not _said(kept):
        os.truncate(message, 0)


def _said(lines: list[bytes]) -> bytes:
    """Return what the user wrote. Comments are git's if there was an editor; without one they are the user's."""
    if os.environ.get("GIT_EDITOR") == ":":  # so git says that there is none
        return b"".join(lines).strip()
    shown = next((place for place, line in enumerate(lines) if _SCISSORS in line), len(lines))
    return git("stripspace", "--strip-comments", feed=b"\n".join(lines[:shown]) + b"\n").strip()

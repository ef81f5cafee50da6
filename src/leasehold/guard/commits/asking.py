"""What git knows: staged paths, the paths of a push, the fences in commits. It only asks git, by its own command."""

from __future__ import annotations

import os
import subprocess

from leasehold.errors import LeaseholdError

TRAILER = "Leasehold-Fence"
NOBODY = "0" * 40
WITH_MESSAGE = "prepare-commit-msg"
"""The hook that runs before every commit, also with `--no-verify`."""


def git(*words: str, feed: bytes | None = None) -> bytes:
    """What git prints."""
    done = subprocess.run(["git", *words], input=feed, capture_output=True, check=False)  # noqa: S603, S607 (git, as the user has it)
    if done.returncode:
        raise LeaseholdError(f"git {words[0]} failed: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout


def _names(listing: bytes) -> list[str]:
    return [name.decode("utf-8", "surrogateescape") for name in listing.split(b"\0") if name]


def staged() -> list[str]:
    """The paths that the next commit changes, also by removing; the index may be one that only a hook knows."""
    return _names(git("diff", "--cached", "--name-only", "--no-renames", "--no-relative", "-z"))


def is_asked_with_message() -> bool:
    """Whether git asks us a second time on the way to a commit: in `prepare-commit-msg`, or where others moved it."""
    folder = git("rev-parse", "--git-path", "hooks").decode("utf-8", "surrogateescape").rstrip("\n")
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
    """The paths that a push changes: `LOCAL-REF LOCAL-ID REMOTE-REF REMOTE-ID` a line, as `pre-push` gets them."""
    found: dict[str, None] = {}
    for line in lines.splitlines():
        words = line.split()
        if len(words) == 4 and words[1].strip("0"):
            found |= dict.fromkeys(_changed(new_commits(words[1], words[3], "--remotes")))
    return list(found)


def received(lines: str) -> tuple[list[str], set[int]]:
    """The paths that a received push changes, and the fences that its commits show: `OLD NEW REF` a line."""
    found: dict[str, None] = {}
    fences: set[int] = set()
    for line in lines.splitlines():
        words = line.split()
        if len(words) == 3 and words[1].strip("0"):
            commits = new_commits(words[1], words[0], "--all")
            found |= dict.fromkeys(_changed(commits))
            fences |= _fences(commits)
    return list(found), fences


def new_commits(new: str, old: str, known: str) -> list[str]:
    """The commits that the other side does not have yet."""
    without = ["--not", known] if not old.strip("0") else ["--not", old, known]
    return git("rev-list", new, *without).decode().split()


def _changed(commits: list[str]) -> list[str]:
    if not commits:
        return []
    feed = "\n".join(commits).encode() + b"\n"
    told = git(
        "diff-tree", "--stdin", "--root", "-r", "-m", "--no-renames", "--name-only", "--no-commit-id", "-z", feed=feed
    )
    return _names(told)


def _fences(commits: list[str]) -> set[int]:
    if not commits:
        return set()
    form = f"--format=%(trailers:key={TRAILER},valueonly)"
    told = git("log", "--no-walk", "--stdin", form, feed="\n".join(commits).encode() + b"\n").decode("utf-8", "replace")
    return {int(word) for word in told.split() if word.isdigit()}


def add_fences(message: str, fences: list[int]) -> None:
    """Write these fences into a commit's message, once each."""
    words = [word for fence in fences for word in ("--trailer", f"{TRAILER}: {fence}")]
    if words:
        git("interpret-trailers", "--in-place", "--if-exists", "addIfDifferent", *words, message)

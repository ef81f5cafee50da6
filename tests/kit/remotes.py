"""Git remotes to keep leases in, as real as can be: a bare repository, and one that `git daemon` serves on loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from leasehold.testing.conformance.asking import until
from leasehold.testing.lending import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.invalid",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.invalid",
}


def git(*words: str, cwd: Path | None = None) -> str:
    """Run git as nobody in particular; what it printed."""
    done = subprocess.run(["git", *words], cwd=cwd, env=ENV, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout.strip()


def bare(place: Path) -> Path:
    """A bare repository with a branch and a tag of another user."""
    git("init", "-q", "--bare", str(place))
    tree = git("hash-object", "-t", "tree", "-w", "/dev/null", cwd=place)
    commit = git("commit-tree", tree, "-m", "somebody else's", cwd=place)
    for ref in ("refs/heads/main", "refs/tags/v1", "refs/notes/commits", "refs/grite/wal"):
        git("update-ref", ref, commit, cwd=place)
    return place


def others(place: Path) -> str:
    """Every ref that is not ours, with what it points to."""
    lines = git("for-each-ref", "--format=%(objectname) %(refname)", cwd=place).splitlines()
    return "\n".join(line for line in lines if " refs/leasehold/" not in line)


def ours(place: Path) -> dict[str, str]:
    """Our refs, with what they point to."""
    lines = git("for-each-ref", "--format=%(refname) %(objectname)", "refs/leasehold/", cwd=place).splitlines()
    return dict(line.split(" ", 1) for line in lines)


@contextmanager
def served(folder: Path, *, is_writable: bool = True) -> Iterator[str]:
    """`git daemon` on loopback for the repositories in this folder; the URL that they are below."""
    port = free_port()
    words = [
        "--listen=127.0.0.1",
        f"--port={port}",
        f"--base-path={folder}",
        "--export-all",
        "--enable=receive-pack" if is_writable else "--forbid-override=receive-pack",
    ]
    daemon = subprocess.Popen(
        ["git", "daemon", "--reuseaddr", "--informative-errors", *words, str(folder)],
        env=ENV,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    try:
        until(lambda: _listens(port), "git daemon listens")
        yield f"git://127.0.0.1:{port}"
    finally:
        os.killpg(daemon.pid, signal.SIGTERM)
        daemon.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def spying(folder: Path) -> Path:
    """A folder to put first in PATH: its `git` writes down each run, then is the real one."""
    folder.mkdir()
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True, env=ENV).stdout.strip()
    (folder / "git").write_text(f'#!/bin/sh\necho "$*" >> "{folder}/log"\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    (folder / "log").touch()
    return folder


def runs(folder: Path) -> list[str]:
    """What the spying git was told since the last call."""
    log = folder / "log"
    lines = log.read_text().splitlines()
    log.write_text("")
    return lines

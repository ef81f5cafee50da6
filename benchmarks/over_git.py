"""An acquire at a git remote by path against a bare `git push` of one ref, by turns, in the same run."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from pathlib import Path

import leasehold
from benchmarks import scratch
from benchmarks.report import Figure, at_most
from leasehold.domain.outcomes import Granted

GOAL = 2.0
NOBODY = {
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{role}_{what}": "bench@example.invalid" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def _git(folder: Path, *words: str) -> str:
    env = {**os.environ, **NOBODY, "HOME": str(folder.parent)}
    done = subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True, text=True)  # noqa: S607
    return done.stdout.strip()


def acquiring(*, smoke: bool) -> list[Figure]:
    """Distinct names, one process, nobody else at the remote."""
    rounds = 3 if smoke else 40
    with scratch.folder() as folder:
        peer, ours, clone = (Path(folder, name) for name in ("peer.git", "ours.git", "clone.git"))
        for place in (peer, ours, clone):
            place.mkdir()
            _git(place, "init", "-q", "--bare")
        tree = _git(clone, "hash-object", "-t", "tree", "-w", "/dev/null")
        with leasehold.connect(f"git+file://{ours}?cache={folder}/cache", holder="bench", threaded=False) as locks:
            locks.acquire("warm", ttl=3_600)
            took = [_round(locks, clone, peer, tree, number) for number in range(rounds)]
    pushes, acquires = ([pair[place] for pair in took] for place in (0, 1))
    bare, own = statistics.median(pushes), statistics.median(acquires)
    what = "acquire at a git remote by path, against a bare push of one ref (median)"
    return [at_most(what, f"{own * 1_000:.0f} ms", f"{bare * 1_000:.0f} ms", own / bare, GOAL)]


def _round(locks: leasehold.Locks, clone: Path, peer: Path, tree: str, number: int) -> tuple[float, float]:
    commit = _git(clone, "commit-tree", tree, "-m", str(number))
    began = time.perf_counter()
    _git(clone, "push", "-q", str(peer), f"{commit}:refs/heads/b{number}")
    pushed = time.perf_counter()
    taken = locks.acquire(f"r{number}", ttl=3_600)
    done = time.perf_counter()
    assert isinstance(taken, Granted), taken
    return pushed - began, done - pushed

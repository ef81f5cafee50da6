"""Leaders that are killed or paused: each term has one leader, terms grow, and a new leader follows."""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.kit.holders import until

PROVE = bool(os.environ.get("LEASEHOLD_PROVE"))
CANDIDATES = 20 if PROVE else 4
FAULTS = 100 if PROVE else 6
TTL = 2.0
SLACK = 1.0
"""Seconds after the TTL within which a new leader follows; judged with the long settings only."""
PROGRAM = Path(__file__).with_name("candidate.py")


class Term(NamedTuple):
    """One line that a leader wrote when its term began."""

    fence: int
    name: str
    pid: int
    at: float


def terms(path: Path) -> list[Term]:
    """The terms that began so far, in the order in which their leaders wrote them."""
    lines = path.read_text().splitlines() if path.exists() else []
    words = [line.split() for line in lines if line.startswith("begin")]
    return [Term(int(fence), name, int(pid), float(at)) for _, fence, name, pid, at in words]


def another(path: Path, leader: Term | None) -> Term:
    """Wait for a term of another leader than this one, and return it."""
    until(lambda: [each for each in terms(path)[-1:] if leader is None or each.fence != leader.fence])
    return terms(path)[-1]


def test_each_term_has_one_leader_although_leaders_are_killed_and_paused(url: str, tmp_path: Path) -> None:
    log, chance = tmp_path / "terms", random.Random(7)
    took: list[float] = []
    with ExitStack() as stack:
        running: dict[int, subprocess.Popen[bytes]] = {}

        def start(number: int) -> None:
            words = [sys.executable, str(PROGRAM), url, f"candidate-{number}", str(log), str(TTL)]
            process = stack.enter_context(subprocess.Popen(words))
            stack.callback(process.kill)
            running[process.pid] = process

        for number in range(CANDIDATES):
            start(number)
        leader: Term | None = None
        for number in range(FAULTS):
            leader = another(log, leader)
            is_paused = chance.random() < 0.5
            begun = time.monotonic()
            os.kill(leader.pid, signal.SIGSTOP if is_paused else signal.SIGKILL)
            took.append(another(log, leader).at - begun)
            if is_paused:
                os.kill(leader.pid, signal.SIGCONT)
            else:
                running.pop(leader.pid).wait()
                start(CANDIDATES + number)
    seen = terms(log)
    assert len({each.fence for each in seen}) == len(seen), "a term had two leaders"
    for name in {each.name for each in seen}:
        own = [each.fence for each in seen if each.name == name]
        assert own == sorted(own), "the number of a term did not grow"
    if PROVE:
        assert max(took) <= TTL + SLACK, f"median {statistics.median(took):.2f} s, worst {max(took):.2f} s"

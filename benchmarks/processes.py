"""Many processes of one machine that want one name, without a server: on one SQLite file, on PostgreSQL, on etcd.

On the file, the same processes take turns by a server, too.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from benchmarks import peers, postgres, scratch
from benchmarks.report import Figure, at_most, is_quick

CROWDS = (5, 20, 50)
GOALS_MS = {20: 5.0, 50: 10.0}
"""The most milliseconds of a hand-over, with so many waiting."""
NETWORKED, NETWORKED_MS = 50, 15.0
"""So many processes on a store behind a network, and the most milliseconds of a hand-over between them."""


class Run(NamedTuple):
    """What a crowd of processes did."""

    hand_over: float
    """Median, in seconds, while all the others wait."""
    processor: float
    """Seconds of processor time for each hand-over, of all processes together."""
    wall: float
    """Seconds from the start of the first to the end of the last."""


def _start(url: str, number: int, rounds: int, key: str | None) -> subprocess.Popen[str]:
    env = {**os.environ, **({"LEASEHOLD_API_KEY": key} if key else {})}
    command = [sys.executable, "-m", "benchmarks.turn_taker", url, str(number), str(rounds)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)


def crowd(url: str, processes: int, rounds: int, key: str | None = None) -> Run:
    """Have so many processes take one name, so many times each."""
    takers = [_start(url, number, rounds, key) for number in range(processes)]
    try:
        for taker in takers:
            assert taker.stdout is not None
            assert taker.stdout.readline() == "ready\n"
        begun = time.monotonic()
        for taker in takers:
            assert taker.stdin is not None
            taker.stdin.write("go\n")
            taker.stdin.flush()
        told = [json.loads(taker.communicate()[0]) for taker in takers]
    finally:
        for taker in takers:
            taker.kill()
            taker.wait()
    turns = sorted(turn for one in told for turn in one["turns"])
    gaps = [later[0] - earlier[1] for earlier, later in pairwise(turns)]
    full = gaps[processes // 2 : -processes] or gaps  # at both ends fewer wait
    wall = turns[-1][1] - begun
    return Run(statistics.median(full), sum(one["processor"] for one in told) / len(turns), wall)


def _rounds(measured: int, turns: int) -> list[dict[str, Run]]:
    """Measure each crowd directly and by a server, one after the other, so often."""
    found = []
    for _ in range(measured):
        with scratch.folder() as folder, peers.ours(Path(folder) / "served") as server:
            served = (f"http://{server.host}:{server.port}", server.key)
            runs = {}
            for size in CROWDS:
                runs[f"direct {size}"] = crowd(f"sqlite:///{folder}/{size}.db", size, max(2, turns // size))
                runs[f"served {size}"] = crowd(served[0], size, max(2, turns // size), served[1])
            runs["direct short"] = crowd(f"sqlite:///{folder}/short.db", 20, 10)
            runs["served short"] = crowd(served[0], 20, 10, served[1])
        found.append(runs)
    return found


def _median(rounds: list[dict[str, Run]], name: str, field: str) -> float:
    return float(statistics.median(getattr(runs[name], field) for runs in rounds))


def taking_turns(*, smoke: bool) -> list[Figure]:
    """The hand-over between processes, its processor time, and twenty processes that lock ten times each."""
    rounds = _rounds(1, 100) if smoke else _rounds(2, 400) if is_quick() else _rounds(3, 1_000)
    figures = [_hand_over(rounds, size) for size in GOALS_MS]
    few, many = (_median(rounds, f"direct {size}", "processor") for size in (CROWDS[0], CROWDS[-1]))
    short, peer = (_median(rounds, f"{way} short", "wall") for way in ("direct", "served"))
    return [
        *figures,
        at_most(
            f"processes on one file, processor time of a hand-over with {CROWDS[-1]} of them",
            f"{many * 1e3:.2f} ms",
            f"with {CROWDS[0]} {few * 1e3:.2f} ms",
            many / few,
            1.5,
        ),
        at_most(
            "20 processes, 10 times lock and unlock of one name each",
            f"{short:.2f} s",
            f"by a server {peer:.2f} s",
            short / peer,
            3.0,
        ),
    ]


def _hand_over(rounds: list[dict[str, Run]], size: int) -> Figure:
    mine, theirs = (_median(rounds, f"{way} {size}", "hand_over") * 1e3 for way in ("direct", "served"))
    goal = GOALS_MS[size]
    spread = sorted(runs[f"direct {size}"].hand_over * 1e3 for runs in rounds)
    return at_most(
        f"{size} processes on one SQLite file, a hand-over, as a part of {goal:g} ms",
        f"{mine:.2f} ms ({spread[0]:.2f} to {spread[-1]:.2f})",
        f"by a server {theirs:.2f} ms",
        mine / goal,
        1.0,
    )


def on_network_stores(*, smoke: bool) -> list[Figure]:
    """The hand-over between processes that use PostgreSQL or etcd, each by itself."""
    processes, rounds, turns = (5, 1, 50) if smoke else (NETWORKED, 3, 500)
    with postgres.database() as database:
        figures = [_between("PostgreSQL", database.url, processes, rounds, turns)]
    with scratch.folder() as folder, peers.etcd(Path(folder)) as etcd:
        store = f"etcd://{etcd.host}:{etcd.port}"
        return [*figures, _between(f"etcd {peers.etcd_version()}", store, processes, rounds, turns)]


def _between(store: str, url: str, processes: int, rounds: int, turns: int) -> Figure:
    took = sorted(crowd(url, processes, max(2, turns // processes)).hand_over * 1e3 for _ in range(rounds))
    return at_most(
        f"{processes} processes on {store}, a hand-over, as a part of {NETWORKED_MS:g} ms",
        f"{statistics.median(took):.2f} ms ({took[0]:.2f} to {took[-1]:.2f})",
        f"{NETWORKED_MS:g} ms",
        statistics.median(took) / NETWORKED_MS,
        1.0,
    )

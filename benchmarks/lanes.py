"""Several processes on one store that is divided into lanes, beside one process, and beside stores of their own.

Each process opens the store itself, as a server does, and drives it with 64 tasks. Where each has spaces in a lane of
its own, nobody takes turns with another one.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import leasehold
from benchmarks import peers, postgres, scratch
from benchmarks.report import at_least
from benchmarks.serving import CLIENTS, _median, _rate, _ratio, _run
from leasehold.routing.lanes import lane_of_space

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.report import Figure

LANES = 4
PROCESSES = 3
SPACES = [next(f"s{n}" for n in range(1_000) if lane_of_space(f"s{n}", LANES) == lane) for lane in range(1, LANES + 1)]
"""One in each lane."""
SPREAD, THREE, TOGETHER = (
    f"one process, {LANES} lanes, its load in all of them",
    f"{PROCESSES} processes, each with a lane",
    f"{PROCESSES} processes in one lane",
)


class Stores:
    """Places for stores at one database."""

    def __init__(self, name: str, place: str, option: str, goals: tuple[float, float]) -> None:
        self.name = name
        self._place = place
        self._option = option
        self.goal_alone, self.goal_apart = goals

    def store(self, name: str, lanes: int = 1) -> str:
        """Return the URL of a store of this name."""
        url = f"{self._place}{self._option}{name}"
        return f"{url}{'&' if '?' in url else '?'}lanes={lanes}"


@contextmanager
def _on_postgres() -> Iterator[Stores]:
    with postgres.database() as server:
        yield Stores("PostgreSQL", server.url, "?schema=", (0.65, 0.9))


@contextmanager
def _on_etcd() -> Iterator[Stores]:
    with scratch.folder() as folder, peers.etcd(Path(folder)) as etcd:
        yield Stores("etcd", f"etcd://{etcd.host}:{etcd.port}", "/", (0.9, 0.9))


def _together(loads: Sequence[tuple[str, Sequence[str]]], seconds: float) -> float:
    """Run a process for each URL and its spaces at the same time; return the cycles a second of all."""
    with ThreadPoolExecutor(len(loads)) as pool:
        told = pool.map(lambda load: _run("tasks", load[0], CLIENTS, seconds, *load[1]), loads)
        return sum(map(_rate, told))


def _measure(stores: Stores, seconds: float, rounds: int) -> dict[str, list[float]]:
    divided, whole = stores.store("divided", LANES), stores.store("whole")
    apart = [stores.store(f"apart{number}") for number in range(PROCESSES)]
    for url in (divided, whole, *apart):
        leasehold.connect(url).close()
    ways = {
        "one": [(whole, SPACES[:1])],
        SPREAD: [(divided, SPACES)],
        THREE: [(divided, [space]) for space in SPACES[:PROCESSES]],
        "apart": [(url, SPACES[:1]) for url in apart],
        TOGETHER: [(whole, SPACES[:1])] * PROCESSES,
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, loads in ways.items():
            rate = _together(loads, seconds)
            if number:  # the first round warms all of them up
                rates[name].append(rate)
    return rates


def _figures(stores: Stores, seconds: float, rounds: int) -> list[Figure]:
    rates = _measure(stores, seconds, rounds)

    def against(ours: str, peer: str, words: str, goal: float) -> Figure:
        return at_least(
            f"{stores.name}, durable acquire and release, {ours}",
            f"{_median(rates[ours]):,.0f} cycles/s",
            f"{words} {_median(rates[peer]):,.0f} cycles/s",
            _ratio(rates[ours], rates[peer]),
            goal,
        )

    one = "one process in one lane"
    return [
        against(SPREAD, "one", one, 0.8),
        against(THREE, "one", one, stores.goal_alone),
        against(THREE, "apart", "the same with a store each", stores.goal_apart),
        against(TOGETHER, "one", one, 0.6),
    ]


def lanes(seconds: float, rounds: int) -> list[Figure]:
    """Acquire and release on distinct names."""
    figures: list[Figure] = []
    for place in (_on_postgres, _on_etcd):
        with place() as stores:
            figures += _figures(stores, seconds, rounds)
    return figures


BENCHMARKS = {"lanes": lambda *, smoke: lanes(0.3, 1) if smoke else lanes(3.0, 5)}

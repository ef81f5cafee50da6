"""A server that is watched, beside one that is not: what traces and scrapes cost, in processor time for each cycle.

Processor time, not throughput: it hardly changes with the load of the machine. The rounds are interleaved, and each
begins with another server.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

from benchmarks import peers, scratch
from benchmarks.report import at_least
from benchmarks.serving import CLIENTS, _brief_or_not, _generate, _median, _ratio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.report import Figure
    from benchmarks.wires import Target

GOAL = 0.95
SCRAPE = 1.0
"""Seconds between two scrapes: Prometheus' own default is a minute."""
TRACED = "traces of 1 % of the requests"
SCRAPED = "a scrape of the metrics each second"


def watched(seconds: float, rounds: int) -> list[Figure]:
    """64 connections, acquire and release on distinct names."""
    with scratch.folder() as made, ExitStack() as stack:
        folder = Path(made)
        words = {"plain": (), TRACED: ("--traces", f"file:{folder / 'spans.jsonl'}", "--trace-ratio", "0.01")}
        servers = {
            name: stack.enter_context(peers.ours(folder / str(place), *words.get(name, ())))
            for place, name in enumerate(("plain", TRACED, SCRAPED))
        }
        taken: dict[str, list[float]] = {name: [] for name in servers}
        for number in range(rounds + 1):
            order = [*servers][number % len(servers) :] + [*servers][: number % len(servers)]
            for name in order:
                cost = _cost(servers[name], seconds, is_scraped=name == SCRAPED)
                if number:  # the first round warms all of them up
                    taken[name].append(cost)
    return [_figure(taken, name) for name in (TRACED, SCRAPED)]


def _figure(taken: dict[str, list[float]], name: str) -> Figure:
    return at_least(
        f"HTTP, {CLIENTS} connections, processor time of a cycle with {name}",
        f"{_median(taken[name]) * 1e6:.1f} us",
        f"without {_median(taken['plain']) * 1e6:.1f} us",
        _ratio(taken["plain"], taken[name]),
        GOAL,
    )


def _cost(target: Target, seconds: float, *, is_scraped: bool) -> float:
    """Return the processor time that the server takes for a cycle."""
    with scraping(target) if is_scraped else ExitStack():
        before = _spent(target.process)
        told = _generate("cycles", target, CLIENTS, seconds)
        return (_spent(target.process) - before) / float(told["cycles"])


def _spent(process: int) -> float:
    """Return the processor time of a process, to the nanosecond: its clock's id, as Linux makes it of the process's."""
    return time.clock_gettime(~process << 3 | 2)


@contextmanager
def scraping(target: Target) -> Iterator[None]:
    """Read the metrics of a server as Prometheus does, in a thread of this process."""
    over = threading.Event()

    def scrape() -> None:
        while not over.wait(SCRAPE):
            with urlopen(f"http://{target.host}:{target.port}/metrics", timeout=60) as answer:
                answer.read()

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


BENCHMARKS = {"watched": _brief_or_not(watched, (3.0, 6), (0.3, 1), (1.5, 3))}

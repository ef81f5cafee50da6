"""The server under load, beside Redis and etcd in the same run: each round measures all of them, one after another.

Every system runs as its users run it, makes each grant durable before it answers, and has its data on the same disk.
Redis and ours are driven over a connection for each client. etcd is driven both ways, so and with all calls on one
connection, as its own client does; each has a line of its own.
"""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import leasehold
from benchmarks import peers, scratch
from benchmarks.report import at_least, at_most, is_quick

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.report import Figure
    from benchmarks.wires import Target

CLIENTS = 64
MANY = 512
HAND_OFF = {"p50": 0.7, "p99": 0.4}
Told = dict[str, Any]
Benchmark = Any
T = TypeVar("T", int, float)


def _run(module: str, *words: object) -> Told:
    """Run a module in a process of its own, and return what it prints."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, words)]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return dict(json.loads(told))


def _generate(scene: str, target: Target, clients: int, seconds: float) -> Told:
    return _run("generator", scene, json.dumps(target._asdict()), clients, seconds)


def _rate(told: Told) -> float:
    return float(told["cycles"] / told["seconds"])


class Servers:
    """All of them, side by side."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.redis = stack.enter_context(peers.redis(folder / "redis"))
        self.etcd = stack.enter_context(peers.etcd(folder / "etcd"))
        self.ours = stack.enter_context(peers.ours(folder / "ours"))
        self.etcd_shared = self.etcd._replace(sharing=CLIENTS)


def _ratio(ours: list[float], peer: list[float]) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(mine / theirs for mine, theirs in zip(ours, peer, strict=True))


def _median(taken: list[float]) -> float:
    return statistics.median(taken)


def under_load(seconds: float, rounds: int) -> list[Figure]:
    """64 connections, acquire and release on distinct names."""
    with scratch.folder() as folder, ExitStack() as stack:
        all_ = Servers(stack, Path(folder))
        targets = {"ours": all_.ours, "redis": all_.redis, "etcd": all_.etcd, "etcd, shared": all_.etcd_shared}
        rates: dict[str, list[float]] = {name: [] for name in targets}
        slow: dict[str, list[float]] = {name: [] for name in targets}
        for number in range(rounds + 1):
            for name, target in targets.items():
                told = _generate("cycles", target, CLIENTS, seconds)
                if number:  # the first round warms all of them up
                    rates[name].append(_rate(told))
                    slow[name].append(told["acquire"]["p99"])
    mine = f"{_median(rates['ours']):,.0f} cycles/s"
    what = f"HTTP, {CLIENTS} connections, durable acquire and release"
    figures = [_against(what, rates, "redis", f"Redis {peers.redis_version()} appendfsync always", mine, 0.5)]
    etcd = f"etcd {peers.etcd_version()} v3 lock"
    figures.append(_against(what, rates, "etcd", f"{etcd}, a connection each", mine, 3.0))
    figures.append(_against(what, rates, "etcd, shared", f"{etcd}, one connection for all", mine, 3.0))
    return [*figures, _slow_ones(slow)]


def _slow_ones(slow: dict[str, list[float]]) -> Figure:
    return at_most(
        f"HTTP, {CLIENTS} connections, durable acquire, p99",
        f"{_median(slow['ours']) * 1e3:.2f} ms",
        f"Redis {peers.redis_version()} appendfsync always {_median(slow['redis']) * 1e3:.2f} ms",
        _ratio(slow["ours"], slow["redis"]),
        2.5,
    )


def many_connections(seconds: float, rounds: int) -> list[Figure]:
    """512 connections, acquire and release on distinct names."""
    with scratch.folder() as folder, ExitStack() as stack:
        redis = stack.enter_context(peers.redis(Path(folder) / "redis"))
        ours = stack.enter_context(peers.ours(Path(folder) / "ours"))
        rates: dict[str, list[float]] = {"ours": [], "redis": []}
        for number in range(rounds + 1):
            for name, target in (("ours", ours), ("redis", redis)):
                rate = _rate(_generate("cycles", target, MANY, seconds))
                if number:
                    rates[name].append(rate)
    mine = f"{_median(rates['ours']):,.0f} cycles/s"
    what = f"HTTP, {MANY} connections, durable acquire and release"
    return [_against(what, rates, "redis", f"Redis {peers.redis_version()} appendfsync always", mine, 0.45)]


def _against(what: str, rates: dict[str, list[float]], name: str, peer: str, mine: str, goal: float) -> Figure:
    theirs = f"{peer} {_median(rates[name]):,.0f} cycles/s"
    return at_least(f"{what}, against {name}", mine, theirs, _ratio(rates["ours"], rates[name]), goal)


def alone(seconds: float, rounds: int) -> list[Figure]:
    """One connection: how long an acquire takes."""
    with scratch.folder() as folder, ExitStack() as stack:
        redis = stack.enter_context(peers.redis(Path(folder) / "redis"))
        ours = stack.enter_context(peers.ours(Path(folder) / "ours"))
        taken: dict[str, list[float]] = {"ours": [], "redis": []}
        for number in range(rounds + 1):
            for name, target in (("ours", ours), ("redis", redis)):
                told = _generate("cycles", target, 1, seconds)
                if number:
                    taken[name].append(told["acquire"]["p50"])
    mine, theirs = _median(taken["ours"]), _median(taken["redis"])
    return [
        at_most(
            "HTTP, one connection, durable acquire, p50",
            f"{mine * 1e3:.2f} ms",
            f"Redis {peers.redis_version()} appendfsync always {theirs * 1e3:.2f} ms",
            _ratio(taken["ours"], taken["redis"]),
            1.6,
        )
    ]


def handing_over(seconds: float, rounds: int) -> list[Figure]:
    """64 connections on one name, held for up to a millisecond: from a release until the next has it."""
    with scratch.folder() as folder:
        with peers.etcd(Path(folder) / "etcd") as etcd, peers.ours(Path(folder) / "ours") as ours:
            told = _contended({"ours": ours, "etcd": etcd, "shared": etcd._replace(sharing=CLIENTS)}, seconds, rounds)
        late = sum(_out_of_order(Path(folder) / "ours" / "locks.db", one["name"]) for one in told["ours"])
    ways = (("etcd", "a connection each"), ("shared", "one connection for all"))
    figures = [_hand_off(told["ours"], told[name], quantile, way) for quantile in ("p50", "p99") for name, way in ways]
    grants = sum(one["grants"] for one in told["ours"])
    what = "one name, grants that were not in order of arrival, of all"
    return [*figures, at_most(what, f"{late} of {grants:,}", "none", late / grants, 0)]


def _contended(targets: dict[str, Target], seconds: float, rounds: int) -> dict[str, list[Told]]:
    told: dict[str, list[Told]] = {name: [] for name in targets}
    for number in range(rounds + 1):
        for name, target in targets.items():
            one = _generate("contention", target, CLIENTS, seconds)
            if number:
                told[name].append(one)
    return told


def _out_of_order(database: Path, name: str) -> int:
    """By the history itself: how many were served before somebody who had come earlier."""
    with leasehold.connect(f"sqlite:///{database}") as locks:
        arrivals: list[int] = []
        before: int | None = None
        while page := locks.history(resource=name, kinds=("granted",), before=before):
            assert not isinstance(page, leasehold.Refused), page
            waiters = (event.detail.get("waiter") for event in page)
            arrivals += [int(str(waiter)[1:].partition("-")[0]) for waiter in waiters if waiter]
            before = page[-1].seq
    return sum(1 for later, earlier in itertools.pairwise(arrivals) if later < earlier)


def _hand_offs(told: list[Told], quantile: str) -> list[float]:
    return [one["hand_off"][quantile] for one in told]


def _hand_off(ours: list[Told], etcd: list[Told], quantile: str, way: str) -> Figure:
    mine, theirs = _hand_offs(ours, quantile), _hand_offs(etcd, quantile)
    return at_most(
        f"one name, {CLIENTS} connections, held for 0 to 1 ms, hand-off {quantile}",
        f"{_median(mine) * 1e3:.2f} ms",
        f"etcd {peers.etcd_version()} v3 lock, {way} {_median(theirs) * 1e3:.2f} ms",
        _ratio(mine, theirs),
        HAND_OFF[quantile],
    )


def from_python(seconds: float, rounds: int) -> list[Figure]:
    """One process with 64 tasks on `aconnect`, against the clients that Redis's and etcd's users have."""
    with scratch.folder() as folder, ExitStack() as stack:
        all_ = Servers(stack, Path(folder))
        rates: dict[str, list[float]] = {"ours": [], "redis-py": [], "grpc.aio": []}
        for number in range(rounds + 1):
            for name, target in (("ours", all_.ours), ("redis-py", all_.redis), ("grpc.aio", all_.etcd)):
                rate = _rate(_run("from_python", json.dumps(target._asdict()), CLIENTS, seconds))
                if number:
                    rates[name].append(rate)
    mine = f"{_median(rates['ours']):,.0f} cycles/s"
    what = f"Python, one process, {CLIENTS} tasks on aconnect"
    return [
        _against(what, rates, "redis-py", "redis-py's asyncio Lock, appendfsync always", mine, 2.0),
        _against(what, rates, "grpc.aio", f"etcd {peers.etcd_version()} v3 lock over grpc.aio", mine, 2.5),
    ]


def crowded(clients: int, hand_offs: int) -> list[Figure]:
    """So many requests wait at one server."""
    with scratch.folder() as folder, ExitStack() as stack:
        ours = stack.enter_context(peers.ours(Path(folder) / "ours", "--keep-open", "10m"))
        told = _generate("crowd", ours, clients, hand_offs)
    fewer = "" if told["clients"] == clients else f", as the limit of open files allows no {clients:,}"
    crowd = f"{told['clients']:,} open waiting requests{fewer}"
    queued = f"queued in {told['queued']:.1f} s, {told['idle']:.1%} of a CPU while they wait"
    median = told["hand_off"]["p50"]
    return [
        at_most(
            f"{crowd}, memory of each", f"{told['each'] / 1024:.1f} KiB", f"20 KiB; {queued}", told["each"] / 20480, 1.0
        ),
        at_most(f"{crowd}, from a release to the head, median", f"{median * 1e3:.1f} ms", "20 ms", median / 0.020, 1.0),
    ]


def _brief_or_not(
    measure: Callable[[T, int], list[Figure]],
    full: tuple[T, int],
    brief: tuple[T, int],
    quick: tuple[T, int] | None = None,
) -> Benchmark:
    def run(*, smoke: bool) -> list[Figure]:
        return measure(*(brief if smoke else quick if quick is not None and is_quick() else full))

    return run


BENCHMARKS = {
    "http": _brief_or_not(under_load, (3.0, 5), (0.3, 1), (1.5, 3)),
    "many-connections": _brief_or_not(many_connections, (3.0, 5), (0.3, 1)),
    "alone": _brief_or_not(alone, (2.0, 5), (0.3, 1), (1.0, 3)),
    "hand-off": _brief_or_not(handing_over, (3.0, 3), (0.3, 1), (1.5, 2)),
    "python": _brief_or_not(from_python, (3.0, 5), (0.3, 1)),
    "crowd": _brief_or_not(crowded, (10_000, 200), (200, 10)),
}

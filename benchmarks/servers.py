"""Three servers on one store, each lane with an owner, beside one server on a store of the same kind.

A load generator for each server: acquire and release on distinct names, each connection in the spaces that it is told.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import leasehold
from benchmarks.lanes import SPACES, _on_etcd, _on_postgres
from benchmarks.report import at_least, at_most
from benchmarks.serving import CLIENTS, _generate, _median, _rate, _ratio
from benchmarks.wires import Target
from leasehold.domain.outcomes import Refused
from leasehold.stores import SERVERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.lanes import Stores
    from benchmarks.report import Figure

COUNT = 3
LANES = 4
PATIENCE = 60.0
HOT_P50, HOT_P99 = 0.002, 0.015


class Goals(NamedTuple):
    """The ratios to reach."""

    own: float
    apart: float
    mixed: float
    together: float


GOALS = {"PostgreSQL": Goals(0.65, 0.9, 0.45, 0.6), "etcd": Goals(0.9, 0.9, 0.5, 0.6)}


@contextmanager
def _serving(stack: ExitStack, store: str, count: int, *words: str) -> Iterator[list[Target]]:
    """So many servers on a store."""
    command = [sys.executable, "-m", "leasehold.cli", "serve", "--store", store, "--port", "0", "--rate", "0", *words]
    with leasehold.connect(store) as locks:
        made = locks.create_key(role="admin", name="bench")
        assert isinstance(made, leasehold.KeyCreated)
    targets = []
    for _ in range(count):
        process = stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        )
        stack.callback(process.terminate)
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        targets.append(Target("leasehold", "127.0.0.1", port, made.credential, process=process.pid))
    yield targets


def _owned(store: str, targets: Sequence[Target], lanes: int) -> dict[int, list[str]]:
    """Wait until the lanes are spread; return the spaces of each server, by its port."""
    least, most = lanes // len(targets), -(-lanes // len(targets))
    end = time.monotonic() + PATIENCE
    with leasehold.connect(store) as locks:
        while time.monotonic() < end:
            found = locks.list(space=SERVERS)
            assert not isinstance(found, Refused)
            owners: dict[int, list[str]] = {target.port: [] for target in targets}
            for lease in found:
                name, _, lane = lease.resources[0].partition(":")
                if name == "lane":
                    port = int(json.loads(lease.context or "{}")["address"].rpartition(":")[2])
                    owners[port].append(SPACES[int(lane) - 1] if int(lane) else SPACES[0])
            counts = [len(each) for each in owners.values()]
            if sum(counts) == lanes and min(counts) >= least and max(counts) <= most:
                time.sleep(1.0)  # each server learns it with its next heartbeat
                return owners
            time.sleep(0.2)
    raise AssertionError("the lanes were not spread")


def _together(loads: Sequence[tuple[Target, Sequence[str]]], clients: int, seconds: float) -> float:
    """Drive each server with its spaces at the same time; return the cycles a second of all."""
    with ThreadPoolExecutor(len(loads)) as pool:
        told = pool.map(
            lambda load: _generate("cycles", load[0]._replace(spaces=tuple(load[1])), clients, seconds), loads
        )
        return sum(map(_rate, told))


def _measure(stores: Stores, seconds: float, rounds: int) -> tuple[dict[str, list[float]], list[dict[str, float]]]:
    with ExitStack() as stack:
        (one,) = stack.enter_context(_serving(stack, stores.store("alone"), 1))
        apart = [stack.enter_context(_serving(stack, stores.store(f"apart{n}"), 1))[0] for n in range(COUNT)]
        (spread,) = stack.enter_context(_serving(stack, stores.store("spread", LANES), 1, "--advertise", "auto"))
        several = stores.store("several", LANES)
        three = stack.enter_context(_serving(stack, several, COUNT, "--advertise", "auto"))
        owners = _owned(several, three, LANES)
        single = SPACES[:1]
        ways = {
            "one": [(one, single)],
            "spread": [(spread, SPACES)],
            "apart": [(each, single) for each in apart],
            "own": [(each, owners[each.port]) for each in three],
            "mixed": [(each, SPACES) for each in three],
            "together": [(each, single) for each in three],
        }
        rates: dict[str, list[float]] = {name: [] for name in ways}
        hot = []
        for number in range(rounds + 1):
            for name, loads in ways.items():
                rate = _together(loads, CLIENTS, seconds)
                if number:  # the first round warms all of them up
                    rates[name].append(rate)
            if number:
                hot.append(_hand_off(three, seconds))
    return rates, hot


def _hand_off(servers: Sequence[Target], seconds: float) -> dict[str, float]:
    """From a release at one server until a waiter at another has the lease."""
    told = _generate("contention", servers[0]._replace(ports=tuple(each.port for each in servers)), 16, seconds)
    return dict(told["hand_off"])


def _figures(stores: Stores, seconds: float, rounds: int) -> list[Figure]:
    rates, hot = _measure(stores, seconds, rounds)
    goals, what = GOALS[stores.name], f"{stores.name}, durable acquire and release, "

    def against(ours: str, peer: str, way: str, words: str, goal: float) -> Figure:
        mine, theirs = (f"{_median(rates[name]):,.0f} cycles/s" for name in (ours, peer))
        return at_least(what + way, mine, f"{words} {theirs}", _ratio(rates[ours], rates[peer]), goal)

    one, three = "one server", f"{COUNT} servers, {LANES} lanes"
    p50, p99 = (_median([each[name] for each in hot]) for name in ("p50", "p99"))
    away = f"{stores.name}, from a release at one of {COUNT} servers until a waiter at another has it"
    return [
        against("spread", "one", f"one server, its load in {LANES} lanes", f"{one}, one lane", 0.8),
        against("own", "one", f"{three}, each with the spaces that it owns", one, goals.own),
        against("own", "apart", f"{three}, each with its own, against {COUNT} stores", "a store each", goals.apart),
        against("mixed", "one", f"{three}, any space at any server", one, goals.mixed),
        against("together", "one", f"{three}, all in one space", one, goals.together),
        at_most(f"{away}, p50", f"{p50 * 1e3:.2f} ms", f"{HOT_P50 * 1e3:g} ms", p50 / HOT_P50, 1.0),
        at_most(f"{away}, p99", f"{p99 * 1e3:.2f} ms", f"{HOT_P99 * 1e3:g} ms", p99 / HOT_P99, 1.0),
    ]


def servers(seconds: float, rounds: int, places: Sequence[str] = ("postgres", "etcd")) -> list[Figure]:
    """Acquire and release on distinct names at several servers."""
    figures: list[Figure] = []
    for name in places:
        with {"postgres": _on_postgres, "etcd": _on_etcd}[name]() as stores:
            figures += _figures(stores, seconds, rounds)
    return figures


BENCHMARKS = {"servers": lambda *, smoke: servers(0.3, 1) if smoke else servers(2.0, 3)}

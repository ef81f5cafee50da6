"""Servers on one PostgreSQL, beside the usual lock table on the same PostgreSQL in the same run.

The lock table is driven by a psycopg pool with 64 tasks, once with 64 connections and once with 16. Ours is driven in
the same way, by one process with 64 tasks that opens the database itself, and as in ``serving``, over 64 connections to
one server. All of them wait for the disk.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import leasehold
from benchmarks import scratch
from benchmarks.generator import spread
from benchmarks.report import at_least, at_most
from benchmarks.serving import CLIENTS, _generate, _median, _rate, _ratio, _run
from benchmarks.wires import Target
from leasehold.testing.lending import free_port
from leasehold.testing.postgres import Postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.report import Figure

POOLS = (64, 16)
WAYS = {
    "tasks": f"one process, {CLIENTS} tasks on aconnect",
    "server": f"one server, {CLIENTS} connections",
}
GOAL = 3.0


@contextmanager
def database() -> Iterator[Postgres]:
    """A PostgreSQL as it comes, which waits for the disk."""
    with scratch.folder_for_servers() as folder, Postgres(folder=Path(folder), segment=16) as server:
        yield server


@contextmanager
def served(store: str) -> Iterator[Target]:
    """`leasehold serve` on this store, with a key to get in by, and a rate that nobody reaches."""
    with leasehold.connect(store) as locks:
        made = locks.create_key(role="agent", name="bench")
        assert isinstance(made, leasehold.KeyCreated)
    command = [sys.executable, "-m", "leasehold.cli", "serve", "--store", store, "--port", "0", "--rate", "10000000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rpartition(":")[2])
            yield Target("leasehold", "127.0.0.1", port, made.credential, process=process.pid)
        finally:
            process.terminate()


def under_load(seconds: float, rounds: int) -> list[Figure]:
    """64 tasks, or connections: acquire and release on distinct names."""
    rates: dict[str, list[float]] = {"tasks": [], "server": [], **{f"pool of {size}": [] for size in POOLS}}
    with database() as server, served(server.url) as target:
        for number in range(rounds + 1):
            told = {"tasks": _run("tasks", server.url, CLIENTS, seconds)}
            told["server"] = _generate("cycles", target, CLIENTS, seconds)
            for size in POOLS:
                told[f"pool of {size}"] = _run("lock_table", server.url, CLIENTS, size, seconds)
            for name, one in told.items():
                if number:  # the first round warms all of them up
                    rates[name].append(_rate(one))
    return [_against(rates, ours, f"pool of {size}") for ours in WAYS for size in POOLS]


def _against(rates: dict[str, list[float]], ours: str, peer: str) -> Figure:
    return at_least(
        f"PostgreSQL, durable acquire and release, {WAYS[ours]}, against a psycopg {peer}",
        f"{_median(rates[ours]):,.0f} cycles/s",
        f"the usual lock table, {CLIENTS} tasks, {_median(rates[peer]):,.0f} cycles/s",
        _ratio(rates[ours], rates[peer]),
        GOAL,
    )


def _hand_offs(one: leasehold.Locks, two: leasehold.Locks, count: int) -> list[float]:
    """The time from before a release at one server until the waiter at another has its answer."""
    taken: list[float] = []
    for number in range(count):
        name = f"handed-{number}"
        held = one.acquire(name, ttl=60, holder="first")
        assert isinstance(held, leasehold.Granted)
        ends: list[float] = []
        waiter = threading.Thread(target=lambda name=name, ends=ends: ends.append(_wait(two, name)))
        waiter.start()
        while not _is_waited_for(one, name):
            time.sleep(0.001)
        begun = time.perf_counter()
        one.release(held.lease.id, held.token)
        waiter.join()
        taken.append(ends[0] - begun)
    return taken


def _wait(locks: leasehold.Locks, name: str) -> float:
    granted = locks.acquire(name, ttl=60, wait=30, holder="second")
    end = time.perf_counter()
    assert isinstance(granted, leasehold.Granted), granted
    locks.release(granted.lease.id, granted.token)
    return end


def _is_waited_for(locks: leasehold.Locks, name: str) -> bool:
    seen = locks.inspect(name)
    return isinstance(seen, leasehold.Inspection) and bool(seen.waiting)


def handing_over(count: int) -> list[Figure]:
    """A release at one server, a grant at another; with notifications, and with all of them lost."""
    with database() as server, ExitStack() as stack:
        first, second = (stack.enter_context(served(server.url)) for _ in range(2))
        deaf = stack.enter_context(served(f"{server.url}?listen=postgresql://nobody@127.0.0.1:{free_port()}/nowhere"))
        one, two, three = (
            stack.enter_context(leasehold.connect(f"http://{each.host}:{each.port}", api_key=each.key))
            for each in (first, second, deaf)
        )
        _hand_offs(one, two, 3)
        told, lost = spread(_hand_offs(one, two, count)), spread(_hand_offs(one, three, max(count // 5, 3)))
    what = "PostgreSQL, from a release to a grant at another server"
    return [
        _within(f"{what}, p50", told["p50"], 0.020),
        _within(f"{what}, p99", told["p99"], 0.100),
        _within(f"{what}, at most, all notifications lost", lost["most"], 1.2),
    ]


def _within(what: str, seconds: float, goal: float) -> Figure:
    return at_most(what, f"{seconds * 1e3:.1f} ms", f"{goal * 1e3:,.0f} ms", seconds / goal, 1.0)


BENCHMARKS = {
    "postgres": lambda *, smoke: under_load(0.3, 1) if smoke else under_load(3.0, 5),
    "postgres-hand-off": lambda *, smoke: handing_over(5 if smoke else 200),
}

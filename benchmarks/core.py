"""The core: the engine on the embedded store, against bare SQLite and against itself with many leases."""

from __future__ import annotations

import math
import multiprocessing
import resource
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import bare, load, scratch
from benchmarks.report import Figure, at_least, at_most
from leasehold.domain.outcomes import Granted
from leasehold.engine.engine import Engine
from leasehold.stores.cache import RECORDS
from leasehold.stores.sqlite.database import LASTING

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection


def engine_against_sqlite(seconds: float = 3.0, rounds: int = 3) -> Figure:
    """64 callers, acquire and release on distinct names; rows a second as a part of what bare SQLite writes."""
    ours, peer, cycles = [], [], []
    with scratch.folder() as folder:
        store = load.CountingStore(Path(folder) / "ours.db")
        for number in range(rounds):
            done = load.run(store, 64, seconds, f"round{number}")
            per_transaction = round(sum(done.rows) / len(done.rows))
            ours.append(sum(done.rows) / done.seconds)
            cycles.append(done.cycles / done.seconds)
            peer.append(bare.rows_per_second(Path(folder) / "bare.db", per_transaction, seconds))
        store.close()
    ratio = statistics.median(mine / theirs for mine, theirs in zip(ours, peer, strict=True))
    mine = f"{statistics.median(ours):,.0f} rows/s ({statistics.median(cycles):,.0f} cycles/s)"
    theirs = f"bare sqlite3 {statistics.median(peer):,.0f} rows/s"
    return at_least("engine alone, 64 callers, durable, rows written a second", mine, theirs, ratio, 0.5)


def _serve(path: Path, seconds: float, pipe: Connection) -> None:
    """The median latency of an acquire on this database."""
    store = load.CountingStore(path)
    commits = 0
    while commits < 3 * LASTING:  # until then the store takes us for a process that soon ends
        commits += len(load.run(store, 64, seconds / 2, "warm").rows)
    done = load.run(store, 64, seconds, "probe")
    store.close()
    pipe.send(statistics.median(done.latencies))


def _remember(path: Path, leases: int, pipe: Connection) -> None:
    """The memory of an engine on this database, once it remembers as much as it ever does."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    store = load.CountingStore(path)
    load.touch(store, [load.live(number, leases) for number in range(min(leases, 2 * RECORDS))])
    load.run(store, 64, 1.0, "busy")
    store.close()
    pipe.send((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)


def _apart(target: Callable[..., None], *arguments: object) -> None:
    """Do this in a process of its own, so that its memory is its own."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == 0, f"{target.__name__} failed"


def _told_by(target: Callable[..., None], *arguments: object) -> float:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    _apart(target, *arguments, theirs)
    return float(ours.recv())


def many_leases(leases: int = 1_000_000, seconds: float = 3.0, rounds: int = 5) -> list[Figure]:
    """Latency with many live leases against that with a thousand, and the memory of each lease."""
    few, many = [], []
    with scratch.folder() as folder:
        small, large = Path(folder) / "few.db", Path(folder) / "many.db"
        _apart(load.fill, small, 1_000)
        _apart(load.fill, large, leases)
        for _ in range(rounds):
            few.append(_told_by(_serve, small, seconds))
            many.append(_told_by(_serve, large, seconds))
        memory = _told_by(_remember, large, leases)
    slopes = [math.log(mine / theirs) / math.log(leases / 1_000) for mine, theirs in zip(many, few, strict=True)]
    return [
        at_most(
            f"exponent of that latency from 1,000 to {leases:,} live leases",
            f"{statistics.median(slopes):.3f} ({min(slopes):.3f} to {max(slopes):.3f})",
            "0: it does not grow",
            statistics.median(slopes),
            0.05,
        ),
        at_most(
            f"acquire with {leases:,} live leases, 64 callers, median latency",
            f"{statistics.median(many) * 1e3:.2f} ms",
            f"with 1,000 leases {statistics.median(few) * 1e3:.2f} ms",
            statistics.median(mine / theirs for mine, theirs in zip(many, few, strict=True)),
            1.5,
        ),
        at_most(
            f"memory of the engine a live lease ({memory / 2**20:,.0f} MiB), as a part of 1.5 KiB",
            f"{memory / leases:,.0f} bytes",
            "1,536 bytes",
            memory / leases / 1536,
            1.0,
        ),
    ]


def release_with_waiters(waiters: int = 1_000) -> Figure:
    """Transactions of one release while so many wait."""
    with scratch.folder() as folder:
        store = load.CountingStore(Path(folder) / "queue.db")
        engine = Engine(store)
        asked = load.ordered("acquire", engine, resources="hot", ttl=600, holder="first")
        holding = engine.submit(asked.command, asked.secret)
        engine.turn()
        for number in range(waiters):
            asked = load.ordered("acquire", engine, resources="hot", ttl=600, wait=600, holder=f"waiter-{number}")
            engine.submit(asked.command, asked.secret)
        while engine.has_work:
            engine.turn()
        assert engine.waiting == waiters
        store.rows.clear()
        outcome = holding.result()
        assert isinstance(outcome, Granted)
        back = load.ordered(
            "release", engine, lease=outcome.lease.id, token=holding.token, status="completed", error=None
        )
        engine.submit(back.command)
        engine.turn()
        assert engine.waiting == waiters - 1
        rows = store.rows.copy()
        engine.close()
        store.close()
    what = f"one release with {waiters:,} waiters, store transactions as a part of 2"
    return at_most(what, f"{len(rows)} ({sum(rows)} rows)", "2", len(rows) / 2, 1.0)

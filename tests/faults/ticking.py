"""Runs whose command notes, every few milliseconds, that it lives; and ways to keep `leasehold run` from renewing.

No tests in here.
"""

from __future__ import annotations

import fcntl
import os
import random
import signal
import struct
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, Self

import apsw

from leasehold.domain.timestamps import SECOND
from leasehold.locks.connect import open_store
from leasehold.stores import HistoryQuery
from tests.kit.processes import is_there
from tests.kit.shell import PATIENCE, Shell, until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from leasehold.domain.events import Event

TTL = 1.0 if os.environ.get("LEASEHOLD_PROVE") else 2.0
"""A run allows for a tenth of it: the process that ends a command may wait so long for a processor."""
TRIES = 20
TICK = struct.Struct("d")
STILL = TTL / 20
"""A machine that does nothing for so long may not end a command in time: that is half of what a run allows for."""

COMMAND = """
import os, signal, sys, time
def tick(name):
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        os.write(file, TICK(time.clock_gettime(time.CLOCK_BOOTTIME)))
        time.sleep(0.005)
import struct
TICK = struct.Struct("d").pack
kind = sys.argv[1]
if kind != "plain":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if kind == "family":
    for _ in range(2):
        if os.fork() == 0:
            tick(f"ticks/{os.getpid()}")
tick(f"ticks/{os.getpid()}")
"""
KINDS = ("plain", "stubborn", "family")


class Story(NamedTuple):
    """What went wrong with a run, and how it ended."""

    fault: str
    kind: str
    struck_at: float
    last_tick: float
    """The last sign of life of the command or any of its family, on the clock that counts from boot."""
    expired_at: float
    """When the lease expired as the store saw it, on the same clock."""
    code: int
    family: int


class Run:
    """One `leasehold run` in a home of its own."""

    def __init__(self, home: Path, kind: str) -> None:
        self.shell = Shell(home)
        self.shell.__enter__()
        self.kind = kind
        self.ticks = home / "ticks"
        self.ticks.mkdir()
        command = [sys.executable, "-I", "-S", "-c", COMMAND, kind]
        self.process: subprocess.Popen[str] = self.shell.start(
            "run", "x", "--ttl", f"{TTL}s", "--", *command, start_new_session=True
        )

    @property
    def pids(self) -> list[int]:
        return [int(path.name) for path in self.ticks.iterdir()]

    def await_family(self) -> None:
        until(lambda: self.process.poll() is not None or self.is_complete())

    def is_complete(self) -> bool:
        return len(self.pids) == (3 if self.kind == "family" else 1) and self.last_tick() > 0

    def last_tick(self) -> float:
        """The newest note of all that are there; 0 if there is none yet."""
        newest = 0.0
        for path in self.ticks.iterdir():
            data = path.read_bytes()
            whole = len(data) // TICK.size * TICK.size
            if whole:
                newest = max(newest, TICK.unpack(data[whole - TICK.size : whole])[0])
        return newest

    def await_death(self) -> None:
        until(lambda: not any(map(is_there, self.pids)))

    def expired_at(self) -> float:
        """When the store says that the lease ends, on the clock that counts from boot."""
        store = open_store(f"sqlite://{self.shell.database}")
        try:
            events = store.history(HistoryQuery(kinds=("granted", "renewed"), limit=10_000))
            latest = max(_expiry(event) for event in events)
            before = boottime()
            now, _ = store.read(())
            return latest / SECOND - now / SECOND + before
        finally:
            store.close()

    def close(self) -> int:
        """The exit code of the run, whatever became of it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGCONT)
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode

    def clean_up(self) -> None:
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.shell.__exit__(None, None, None)


def _expiry(event: Event) -> int:
    """Until when the lease lives after this; a heartbeat of its session tells it of each lease."""
    leases = event.detail.get("leases")
    return max(leases.values()) if isinstance(leases, dict) else int(str(event.detail["expires_at"]))


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Witness:
    """Notes when even a thread that only reads the clock had to wait for a processor."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._gaps: list[tuple[float, float]] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        last = boottime()
        while not self._over.wait(0.005):
            now = boottime()
            if now - last > STILL:
                self._gaps.append((last, now))
            last = now

    def excuses(self, last_tick: float, expired_at: float) -> bool:
        """Whether it was too late because the machine stood still: nobody can end a command meanwhile."""
        begun = expired_at - TTL  # and when it goes on, everybody wants to do everything at once
        return last_tick > expired_at and any(since < last_tick and until > begun for since, until in self._gaps)


# -------------------------------------------------------------------------------------------- the faults


@contextmanager
def stopped(run: Run) -> Iterator[None]:
    """The process that renews is stopped, and nothing else."""
    os.kill(run.process.pid, signal.SIGSTOP)
    yield


@contextmanager
def group_stopped(run: Run) -> Iterator[None]:
    """Its whole process group is stopped, as by Ctrl-Z."""
    os.killpg(run.process.pid, signal.SIGSTOP)
    yield


@contextmanager
def killed(run: Run) -> Iterator[None]:
    """It is killed."""
    run.process.kill()
    yield


@contextmanager
def gate_shut(run: Run) -> Iterator[None]:
    """Somebody keeps the turn for ever."""
    gate = os.open(f"{run.shell.database}.gate", os.O_RDWR)
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield
    finally:
        os.close(gate)


@contextmanager
def database_locked(run: Run) -> Iterator[None]:
    """Another program locks the database, without coming through the gate."""
    connection = apsw.Connection(str(run.shell.database))
    connection.set_busy_timeout(10_000)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


@contextmanager
def database_gone(run: Run) -> Iterator[None]:
    """The directory of the database is moved away."""
    folder = run.shell.database.parent
    folder.rename(folder.with_name("elsewhere"))
    try:
        yield
    finally:
        folder.with_name("elsewhere").rename(folder)


FAULTS = {
    fault.__name__: fault for fault in (stopped, group_stopped, killed, gate_shut, database_locked, database_gone)
}


def tell(home: Path, fault: str, kind: str, seed: int) -> Story:
    """Start a run, let it live a little, strike, and see how it ends."""
    home.mkdir()
    for number in range(TRIES):
        with Witness() as witness:
            story = _try(home / str(number), fault, kind, seed, witness)
        if story is not None and not witness.excuses(story.last_tick, story.expired_at):
            return story
    raise AssertionError(f"none of {TRIES} runs came to life, and ended in time")


def _try(home: Path, fault: str, kind: str, seed: int, witness: Witness) -> Story | None:
    run = Run(home, kind)
    try:
        run.await_family()
        strike_at = run.last_tick() + random.Random(seed).uniform(0, TTL)
        until(lambda: run.last_tick() >= strike_at or run.process.poll() is not None)
        if run.process.poll() is not None:
            # A machine too busy to renew in time ends a run before we do; its command must be over as well.
            run.await_death()
            last_tick, expired_at = run.last_tick(), run.expired_at()
            assert last_tick <= expired_at or witness.excuses(last_tick, expired_at)
            return None
        with FAULTS[fault](run):
            struck_at = boottime()
            run.await_death()
            if fault in ("gate_shut", "database_locked", "database_gone"):
                run.process.wait(PATIENCE)
        expired_at = run.expired_at()
        return Story(fault, kind, struck_at, run.last_tick(), expired_at, run.close(), len(run.pids))
    finally:
        run.clean_up()

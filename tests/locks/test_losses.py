"""A holder learns at once that its lease was taken from it, long before its next renewal."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.client import losses as streams
from leasehold.errors import LeaseLost, Unreachable
from leasehold.testing.lending import free_port
from tests.kit import etcd, postgres
from tests.kit.holders import PATIENCE, async_until, until
from tests.kit.serving import serving
from tests.kit.taking import NAME, WAYS, Taking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from leasehold.locks.sync import Locks
    from tests.kit.serving import Running

PROVES = bool(os.environ.get("LEASEHOLD_PROVE"))
ROUNDS = 20 if PROVES else 2
"""Of each way. In the second round the watch is there already."""
RUNS = 20 if PROVES else 1
MEDIAN, WORST = 1.0, 2.0
"""Seconds within which a holder is told: a promise, looked at where the machine is left alone."""
TTL = "24h"
"""Renewals would take eight hours to tell of a loss."""
HELD = 10_000


PLACES = ("sqlite", "a server", "beside a server", "postgresql", "another server", "etcd")


@pytest.fixture(params=PLACES)
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Where the holder connects, and where the operator does."""
    with ExitStack() as stack:
        database = _database(request.param, tmp_path, stack)
        if "server" not in request.param:
            yield database, database
            return
        word = ("--store", database)
        url = stack.enter_context(serving(tmp_path, *word)).url
        if request.param == "another server":
            yield url, stack.enter_context(serving(tmp_path, *word)).url
        else:
            yield url, url if request.param == "a server" else database


def _database(place: str, folder: Path, stack: ExitStack) -> str:
    if place in ("postgresql", "another server"):
        return stack.enter_context(postgres.schema())
    return etcd.empty() if place == "etcd" else f"sqlite://{folder}/locks.db"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[streams.LossFeed]:
    """Every stream that a client in this process opens."""
    seen: list[streams.LossFeed] = []
    begin = streams.LossFeed._begin

    def counted(stream: streams.LossFeed, *words: object) -> None:
        seen.append(stream)
        begin(stream, *words)  # type: ignore[arg-type]

    monkeypatch.setattr(streams.LossFeed, "_begin", counted)
    return seen


def check_times(took: list[float]) -> None:
    assert len(took) == ROUNDS * len(WAYS)
    if PROVES:
        assert statistics.median(took) < MEDIAN, sorted(took)
        assert max(took) < WORST, sorted(took)


def test_a_block_is_told_at_once(urls: tuple[str, str]) -> None:
    with leasehold.connect(urls[0], holder="a") as locks, leasehold.connect(urls[1], holder="ops") as ops:
        check_times([_lose(locks, Taking(way, ops)) for _ in range(ROUNDS) for way in WAYS])


def _lose(locks: Locks, taking: Taking) -> float:
    """Seconds until the holder was told."""
    told = threading.Event()
    took: list[float] = []

    def block() -> None:
        with locks.lock(NAME, ttl=TTL, on_lost=lambda _reason: told.set(), **taking.options) as lease:
            taking.take()
            taken_at = time.monotonic()
            assert told.wait(PATIENCE), f"nobody was told: {taking.way}"
            took.append(time.monotonic() - taken_at)
            with pytest.raises(LeaseLost):
                lease.ensure()

    with pytest.raises(LeaseLost):
        block()
    taking.clean_up()
    return took[0]


def test_over_git_a_block_is_told_with_the_next_poll(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "hub.git")], check=True)
    url = f"git+file://{tmp_path}/hub.git"
    with leasehold.connect(url, holder="a") as locks, leasehold.connect(url, holder="ops") as ops:
        for way in WAYS:
            _lose(locks, Taking(way, ops))


def test_a_coroutine_is_cancelled_at_once(urls: tuple[str, str]) -> None:
    took: list[float] = []

    async def lose(locks: leasehold.AsyncLocks, taking: Taking) -> None:
        async with locks.lock(NAME, ttl=TTL, **taking.options):
            taken = asyncio.create_task(asyncio.to_thread(taking.take))
            taken_at = float("inf")
            try:
                await asyncio.shield(taken)
                taken_at = time.monotonic()
                await asyncio.sleep(PATIENCE)
            finally:
                took.append(max(0.0, time.monotonic() - taken_at))
                await taken  # the holder may learn of it before the taker has its answer
        raise AssertionError(f"nobody was told: {taking.way}")

    async def lose_all() -> None:
        async with await leasehold.aconnect(urls[0], holder="a") as locks:
            for way in WAYS * ROUNDS:
                taking = await asyncio.to_thread(Taking, way, ops)
                with pytest.raises(LeaseLost):
                    await lose(locks, taking)
                await asyncio.to_thread(taking.clean_up)

    with leasehold.connect(urls[1], holder="ops") as ops:
        asyncio.run(lose_all())
    check_times(took)


def test_the_command_of_a_run_is_ended_at_once(urls: tuple[str, str], tmp_path: Path) -> None:
    with leasehold.connect(urls[1], holder="ops") as ops:
        took = [_end_run(urls[0], tmp_path, Taking(way, ops), ops) for _ in range(RUNS) for way in WAYS]
    if PROVES:
        check_times(took)


def _end_run(url: str, folder: Path, taking: Taking, ops: Locks) -> float:
    """Seconds until the command had ended."""
    words = [sys.executable, "-m", "leasehold.cli", "run", NAME, "--ttl", TTL, "--on-expiry"]
    words.append(taking.options.get("on_expiry", "free"))
    if taking.session:
        (folder / "session").write_text(taking.session)
        words += ["--session-file", str(folder / "session")]
    command = [*words, "--", "/bin/sh", "-c", "echo running; exec sleep 600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "LEASEHOLD_URL": url}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"running\n"
        taking.take()
        taken_at = time.monotonic()
        assert process.stdout.read() == b"", "the command has ended"
        took = time.monotonic() - taken_at
        assert process.wait(PATIENCE) == 7
    taking.clean_up()
    return took


def test_a_lease_of_the_same_process_that_another_thread_takes(url: str) -> None:
    with leasehold.connect(url, holder="a") as locks:
        for way in WAYS:
            _lose(locks, Taking(way, locks))


def test_a_loss_while_the_server_was_away_is_told_once_it_is_back(
    tmp_path: Path, opened: list[streams.LossFeed]
) -> None:
    port, told = str(free_port()), threading.Event()
    url, database = f"http://127.0.0.1:{port}", f"sqlite://{tmp_path}/locks.db"

    def outlive(first: Running) -> None:
        with locks.lock(NAME, ttl=TTL, on_lost=lambda _reason: told.set()):
            until(lambda: opened)
            first.process.send_signal(signal.SIGKILL)
            first.process.wait()
            with leasehold.connect(database, holder="ops") as ops:
                ops.force_release(NAME, by="ops", reason="the server is down")
            with serving(tmp_path, "--port", port):
                assert told.wait(PATIENCE)

    with (
        serving(tmp_path, "--port", port) as first,
        leasehold.connect(url, holder="a") as locks,
        pytest.raises((LeaseLost, Unreachable)),
    ):
        outlive(first)


def test_a_lock_that_is_held_for_a_moment_opens_no_stream(tmp_path: Path, opened: list[streams.LossFeed]) -> None:
    with serving(tmp_path) as server, leasehold.connect(server.url, holder="a") as locks:
        for _ in range(3):
            with locks.lock(NAME, ttl=TTL):
                pass
        assert opened == []
        with locks.lock(NAME, ttl=TTL):
            until(lambda: opened)


def test_ten_thousand_leases_of_one_process_cost_one_stream(tmp_path: Path, opened: list[streams.LossFeed]) -> None:
    held = HELD if PROVES else HELD // 10

    async def hold() -> None:
        async with await leasehold.aconnect(server.url, holder="a") as locks:
            lost: list[str] = []
            blocks = [locks.lock(f"issue:{number}", ttl=TTL, on_lost=lost.append) for number in range(held)]
            for first in range(0, held, 100):
                await asyncio.gather(*(each.__aenter__() for each in blocks[first : first + 100]))
            await async_until(lambda: opened)
            await asyncio.to_thread(ops.force_release, f"issue:{held - 1}", by="ops", reason="test")
            await async_until(lambda: lost)
            for first in range(0, held, 100):
                leaving = (each.__aexit__(None, None, None) for each in blocks[first : first + 100])
                await asyncio.gather(*leaving, return_exceptions=True)

    with serving(tmp_path, "--rate", "0") as server, leasehold.connect(server.url, holder="ops") as ops:
        asyncio.run(hold())
    assert len(opened) == 1

"""Locks that nobody closed: once nobody has them any more, neither a thread nor an open file stays behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import leasehold
from tests.kit.holders import until

if TYPE_CHECKING:
    from collections.abc import Iterator

OPEN = Path("/proc/self/fd")


def files_in(folder: Path) -> list[str]:
    """What this process has open there."""
    return [str(file) for file in (each.resolve() for each in OPEN.iterdir()) if file.is_relative_to(folder)]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Empty, and in the end without anybody in it."""
    before = set(threading.enumerate())
    yield tmp_path
    gc.collect()
    until(lambda: not {each for each in threading.enumerate() if each.name == "leasehold"} - before)
    if OPEN.exists():
        until(lambda: not files_in(tmp_path))
    with leasehold.connect(f"sqlite://{tmp_path}/locks.db") as locks:
        leases = locks.list()
        assert not isinstance(leases, leasehold.Refused)
        assert [lease.resources for lease in leases] == [("x",)], "what was acquired is still held"


def test_of_plain_code(folder: Path) -> None:
    locks = leasehold.connect(f"sqlite://{folder}/locks.db")
    assert isinstance(locks.acquire("x", ttl=60), leasehold.Granted)
    assert locks.history()


def test_of_coroutines(folder: Path) -> None:
    async def forget() -> None:
        locks = await leasehold.aconnect(f"sqlite://{folder}/locks.db")
        assert isinstance(await locks.acquire("x", ttl=60), leasehold.Granted)
        assert await locks.history()

    asyncio.run(forget())


def test_of_a_caller_that_still_waits(folder: Path) -> None:
    """The thread that waits has them: they are not forgotten before it has its answer."""
    locks = leasehold.connect(f"sqlite://{folder}/locks.db")
    held = locks.acquire("x", ttl=60, holder="first")
    assert isinstance(held, leasehold.Granted)
    answers: list[object] = []

    def wait(locks: leasehold.Locks) -> None:
        answers.append(locks.acquire("x", ttl=60, wait=60))

    waiting = threading.Thread(target=wait, args=[locks])
    waiting.start()
    del locks
    gc.collect()
    with leasehold.connect(f"sqlite://{folder}/locks.db") as others:
        others.release(held.lease.id, held.token)
    waiting.join()
    assert isinstance(answers[0], leasehold.Granted)

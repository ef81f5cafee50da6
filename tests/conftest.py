"""What several files of tests ask for by name: a home, and locks on a store of their own. A file may have its own."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest

import leasehold
from tests.kit import selection
from tests.kit.holders import renew_eagerly
from tests.kit.shell import Shell
from tests.kit.someone import settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from leasehold.locks.aio import AsyncLocks
    from leasehold.locks.sync import Locks
    from tests.kit.holders import Run
    from tests.kit.serving import Running


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files; the others keep their order."""
    items.sort(key=lambda item: selection.rank(item.path))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What was collected stays to the end: no later search for garbage looks through it."""
    gc.freeze()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of somebody who has configured nothing."""
    return settle(tmp_path, monkeypatch)


@pytest.fixture
def work(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = home / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    renew_eagerly(monkeypatch)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/locks.db"


@pytest.fixture
def locks(url: str) -> Iterator[Locks]:
    with leasehold.connect(url, holder="a") as opened:
        yield opened


@pytest.fixture
def ops(url: str) -> Iterator[Locks]:
    with leasehold.connect(url, holder="ops") as opened:
        yield opened


@pytest.fixture
def run(url: str) -> Run:
    """Runs a coroutine function with locks of its own."""

    def start(story: Callable[[AsyncLocks], Awaitable[None]]) -> None:
        async def told() -> None:
            async with await leasehold.aconnect(url, holder="a") as locks:
                await story(locks)

        asyncio.run(told())

    return start


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """The commands of a user who has configured nothing."""
    with Shell(tmp_path / "home") as shell:
        yield shell


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server, without keys and limits, for all tests of a file."""
    from tests.kit.serving import serving  # it loads the whole server, which most files do not need

    with serving(tmp_path_factory.mktemp("server"), "--rate", "0") as running:
        yield running

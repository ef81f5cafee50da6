"""Keys that this process or another one changes: the next read notices."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.locks.hosted import Served
from leasehold.requests.checks import Settings
from leasehold.server.access.authentication import Authenticator
from leasehold.server.api.problems import Problem
from leasehold.stores.sqlite import SqliteStore
from leasehold.stores.sqlite.database import ALONE, LASTING
from tests.kit.serving import id_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from leasehold.stores.protocol import Store

BUSY = LASTING + ALONE + 10
"""After so many commits a store keeps its journal."""


class Scene:
    """The authenticator of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.served = Served([self.store], Settings(), asyncio.get_running_loop(), space="default")
        self.authenticator = Authenticator(self.served, loopback=True)

    async def create_key(self) -> str:
        made = await self.served.locks.create_key(role="agent", name="x")
        assert isinstance(made, leasehold.KeyCreated)
        return made.credential

    async def be_busy(self, cycles: int) -> None:
        for cycle in range(cycles):
            await self.served.locks.acquire(f"busy {cycle}", ttl=60)

    def is_let_in(self, key: str) -> bool:
        try:
            return bool(self.authenticator.by_key(key).id)
        except Problem:
            return False


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'locks.db'}"


def perform(url: str, play: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        scene = Scene(SqliteStore(url.removeprefix("sqlite:///")))
        await play(scene)
        await scene.served.close()

    asyncio.run(run())


@pytest.mark.parametrize("cycles", [1, BUSY], ids=["idle", "busy"])
def test_a_key_that_another_process_revokes(url: str, cycles: int) -> None:
    """`connect` has a connection of its own, which is all that a process of its own would have."""

    async def play(scene: Scene) -> None:
        await scene.be_busy(cycles)
        key = await scene.create_key()
        await scene.authenticator.refresh()
        assert scene.is_let_in(key)
        await asyncio.to_thread(revoke, url, key)
        await scene.authenticator.refresh()  # no turn has happened here meanwhile
        assert not scene.is_let_in(key)
        again = await asyncio.to_thread(create, url)
        await scene.be_busy(cycles)  # and here some have, which have noticed that before the keys are read
        await scene.authenticator.refresh()
        assert scene.is_let_in(again)

    perform(url, play)


def test_a_key_that_is_revoked_while_the_keys_are_read(url: str) -> None:
    """Whatever is written after the look has begun is noticed by the next one."""

    async def play(scene: Scene) -> None:
        key = await scene.create_key()
        reading = scene.store.scan

        def scan(kind: str) -> Iterator[Any]:
            found = list(reading(kind))
            revoke(url, key)
            return iter(found)

        scene.store.scan = scan  # type: ignore[method-assign]
        await scene.authenticator.refresh()
        scene.store.scan = reading  # type: ignore[method-assign]
        assert scene.is_let_in(key)
        await scene.authenticator.refresh()
        assert not scene.is_let_in(key)

    perform(url, play)


def test_a_key_that_this_process_revokes(url: str) -> None:
    async def play(scene: Scene) -> None:
        key = await scene.create_key()
        await scene.authenticator.refresh()
        assert scene.authenticator.is_fresh(time.monotonic())
        await scene.served.locks.revoke_key(id_of(key))
        assert not scene.authenticator.is_fresh(time.monotonic())
        await scene.authenticator.refresh()
        assert not scene.is_let_in(key)

    perform(url, play)


def revoke(url: str, key: str) -> None:
    with leasehold.connect(url) as elsewhere:
        revoked = elsewhere.revoke_key(id_of(key))
        assert isinstance(revoked, leasehold.KeyRevoked)
        assert revoked.revoked


def create(url: str) -> str:
    with leasehold.connect(url) as elsewhere:
        made = elsewhere.create_key(role="agent", name="y")
        assert isinstance(made, leasehold.KeyCreated)
        return made.credential

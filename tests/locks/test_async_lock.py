"""`async with locks.lock(...)` on a real store: a block under a lease, its renewal, and how it is left."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from leasehold.domain.outcomes import Granted, Held, TimedOut
from leasehold.errors import LeaseLost, NotAcquired, Unreachable
from tests.kit.holders import (
    ENDS,
    PATIENCE,
    TTL,
    Losses,
    async_until,
    events,
    give_back_later,
    last_end,
    store_of,
    unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leasehold.locks.aio import AsyncLocks
    from leasehold.locks.sync import Locks
    from leasehold.stores.protocol import Transaction
    from tests.kit.holders import Run


pytestmark = pytest.mark.usefixtures("eager")


def test_a_block_under_a_lease(run: Run, ops: Locks) -> None:
    async def story(locks: AsyncLocks) -> None:
        async with locks.lock("deploy://api", ttl="5m", name="release 7") as lease:
            assert lease.resources == ("deploy://api",)
            assert 0 < lease.remaining() < 300
            lease.ensure()
            refused = ops.acquire("deploy://api", ttl=1)
            assert isinstance(refused, Held)
            assert refused.blockers[0].lease == lease.id
        assert lease.lost == "released"
        assert locks._entered == {}
        assert len(asyncio.all_tasks()) == 1, "the renewal has ended"

    run(story)
    assert isinstance(ops.acquire("deploy://api", ttl=1), Granted)
    assert last_end(ops) == ("completed", None)


def test_it_is_renewed_in_the_background(run: Run, ops: Locks) -> None:
    async def story(locks: AsyncLocks) -> None:
        async with locks.lock("x", ttl=TTL) as lease:
            first = lease.lease.expires_us
            await async_until(lambda: len(events(ops, "renewed")) >= 3)
            lease.ensure()
            assert lease.lease.expires_us > first

    run(story)
    assert last_end(ops) == ("completed", None)


def test_a_grant_that_waited_was_renewed_before_the_block_begins(run: Run, ops: Locks) -> None:
    first = ops.acquire("x", ttl=600)
    assert isinstance(first, Granted)

    async def story(locks: AsyncLocks) -> None:
        async with locks.lock("x", ttl=TTL, wait=600) as lease:
            lease.ensure()
            assert events(ops, "renewed")[-1].lease == lease.id

    releasing = give_back_later(ops, first)
    run(story)
    releasing.join()


def test_no_grant_no_block(run: Run, ops: Locks) -> None:
    async def story(locks: AsyncLocks) -> None:
        with pytest.raises(NotAcquired) as caught:
            await locks.lock("x", ttl=1).__aenter__()
        assert isinstance(caught.value.outcome, Held)
        with pytest.raises(NotAcquired) as caught:
            await locks.lock("x", ttl=1, wait=0.02).__aenter__()
        assert isinstance(caught.value.outcome, TimedOut)

    with ops.lock("x", ttl=60):
        run(story)


def test_a_lock_can_be_used_again_but_not_twice_at_once(run: Run) -> None:
    async def story(locks: AsyncLocks) -> None:
        lock = locks.lock("x", ttl=60)
        async with lock as first:
            with pytest.raises(RuntimeError, match="held already"):
                await lock.__aenter__()
        async with lock as second:
            assert second.fence > first.fence
        with pytest.raises(RuntimeError, match="not held"):
            await lock.__aexit__(None, None, None)

    run(story)


def test_the_same_holder_again(run: Run, ops: Locks) -> None:
    async def story(locks: AsyncLocks) -> None:
        async with locks.lock("x", ttl=60) as outer:
            async with locks.lock("x", ttl=60, reentrant=True, token=outer.token) as inner:
                assert inner.id == outer.id
            outer.ensure()
            assert isinstance(ops.acquire("x", ttl=1), Held), "the inner block's end released nothing"

    run(story)
    assert isinstance(ops.acquire("x", ttl=1), Granted)


def test_what_the_body_raises_is_raised(run: Run, ops: Locks) -> None:
    async def story(locks: AsyncLocks) -> None:
        async with locks.lock("x", ttl=60):
            raise ValueError("no such service")

    with pytest.raises(ValueError, match="no such service"):
        run(story)
    assert last_end(ops) == ("failed", "ValueError: no such service")


# ------------------------------------------------------------------------------------------- stores that fail


def test_an_unreachable_store(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = Losses()

    async def story(locks: AsyncLocks) -> None:
        async with locks.lock("x", ttl=ENDS, on_lost=losses):
            monkeypatch.setattr(store_of(locks), "begin", unreachable)
            await asyncio.Event().wait()

    with pytest.raises(LeaseLost, match="not renewed in time: nobody answers") as caught:
        run(story)
    assert losses == ["not renewed in time: nobody answers"]
    assert isinstance(caught.value.__cause__, Unreachable)
    assert losses.threads == [threading.current_thread()], "in the loop"


def test_a_store_that_comes_back_in_time(run: Run, ops: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[int] = []

    async def story(locks: AsyncLocks) -> None:
        begin = store_of(locks).begin

        def shaky() -> Transaction:
            if len(failures) < 4:
                failures.append(1)
                unreachable()
            return begin()

        async with locks.lock("x", ttl=TTL) as lease:
            monkeypatch.setattr(store_of(locks), "begin", shaky)
            before = lease.lease.expires_us
            await async_until(lambda: lease.lease.expires_us > before)

    run(story)
    assert len(failures) == 4
    assert last_end(ops) == ("completed", None)


def test_a_store_that_hangs_does_not_hold_back_the_news(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    losses = Losses()

    def lost(reason: str) -> None:
        losses(reason)
        go_on.set()

    async def story(locks: AsyncLocks) -> None:
        begin = store_of(locks).begin

        def hang() -> Transaction:
            go_on.wait(PATIENCE)
            return begin()

        async with locks.lock("x", ttl=ENDS, on_lost=lost):
            monkeypatch.setattr(store_of(locks), "begin", hang)
            await asyncio.Event().wait()

    with pytest.raises(LeaseLost, match="not renewed in time: the store does not answer"):
        run(story)
    assert losses == ["not renewed in time: the store does not answer"]


def test_a_release_that_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def story(error: Exception | None) -> Callable[[AsyncLocks], Coroutine[Any, Any, None]]:
        async def told(locks: AsyncLocks) -> None:
            async with locks.lock("x", ttl="5m"):
                monkeypatch.setattr(store_of(locks), "begin", unreachable)
                if error is not None:
                    raise error

        return told

    with pytest.raises(Unreachable) as silent:
        run(story(None))
    assert "will expire by itself" in silent.value.__notes__[0]
    monkeypatch.undo()
    with pytest.raises(NotAcquired):
        run(story(None))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tasks start eagerly from Python 3.12 on")
def test_eager_tasks(run: Run, ops: Locks) -> None:
    async def story(locks: AsyncLocks) -> None:
        asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009
        async with locks.lock("x", ttl=TTL) as lease:
            await async_until(lambda: events(ops, "renewed"))
            lease.ensure()

    run(story)

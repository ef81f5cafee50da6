"""`async with locks.lock(...)` and cancellation: a loss cancels the block, and nobody else's cancellation is lost."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from leasehold.domain.leases import Inspection
from leasehold.errors import LeaseLost
from tests.kit.holders import TTL, Losses, async_until, last_end

if TYPE_CHECKING:
    from leasehold.locks.aio import AsyncLocks
    from leasehold.locks.sync import Locks
    from tests.kit.holders import Run


pytestmark = pytest.mark.usefixtures("eager")


def cancellations() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


async def for_ever() -> None:
    await asyncio.Event().wait()


# ------------------------------------------------------------------------------------------------- by a loss


def test_a_loss_cancels_the_block(run: Run, ops: Locks) -> None:
    losses = Losses()

    async def story(locks: AsyncLocks) -> None:
        async def block() -> None:
            async with locks.lock("x", ttl=TTL, on_lost=losses):
                ops.force_release("x", by="ops", reason="hotfix")
                await for_ever()

        with pytest.raises(LeaseLost, match="forced by ops: hotfix") as caught:
            await block()
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        assert cancellations() == 0
        await asyncio.sleep(0)  # nothing is left to be delivered

    run(story)
    assert losses == ["forced by ops: hotfix"]
    assert losses.threads == [threading.current_thread()], "in the loop"


def test_a_loss_that_only_the_release_brings_to_light(run: Run, ops: Locks) -> None:
    async def story(locks: AsyncLocks) -> None:
        async with locks.lock("x", ttl="1h"):
            ops.force_release("x", by="ops", reason="hotfix")

    with pytest.raises(LeaseLost, match="forced by ops: hotfix"):
        run(story)


def test_a_body_that_will_not_be_cancelled_is_told_at_its_end(run: Run, ops: Locks) -> None:
    async def story(locks: AsyncLocks) -> None:
        async def block() -> None:
            async with locks.lock("x", ttl=TTL) as lease:
                ops.force_release("x", by="ops", reason="hotfix")
                with pytest.raises(asyncio.CancelledError):
                    await for_ever()
                with pytest.raises(LeaseLost):
                    lease.ensure()

        with pytest.raises(LeaseLost, match="hotfix"):
            await block()
        assert cancellations() == 0
        await asyncio.sleep(0)

    run(story)


def test_a_body_that_makes_an_error_of_its_own_of_it(run: Run, ops: Locks) -> None:
    async def story(locks: AsyncLocks) -> None:
        async def block() -> None:
            async with locks.lock("x", ttl=TTL):
                ops.force_release("x", by="ops", reason="hotfix")
                try:
                    await for_ever()
                except asyncio.CancelledError:
                    raise ValueError("the body's own") from None

        with pytest.raises(ValueError, match="the body's own") as caught:
            await block()
        assert "forced by ops: hotfix" in caught.value.__notes__[0]
        assert cancellations() == 0

    run(story)


def test_a_task_group_in_the_block(run: Run, ops: Locks) -> None:
    ended: list[str] = []

    async def worker(name: str) -> None:
        try:
            await for_ever()
        finally:
            ended.append(name)

    async def story(locks: AsyncLocks) -> None:
        async with locks.lock("x", ttl=TTL), asyncio.TaskGroup() as group:
            group.create_task(worker("one"))
            group.create_task(worker("two"))
            ops.force_release("x", by="ops", reason="hotfix")

    with pytest.raises(LeaseLost, match="hotfix"):
        run(story)
    assert sorted(ended) == ["one", "two"]


def test_two_blocks_that_are_lost_together(run: Run, ops: Locks) -> None:
    async def story(locks: AsyncLocks) -> None:
        async def block() -> None:
            async with locks.lock("x", ttl=TTL), locks.lock("y", ttl=TTL):
                ops.force_release("x", by="ops", reason="hotfix")
                ops.force_release("y", by="ops", reason="hotfix")
                await for_ever()

        with pytest.raises(LeaseLost, match="hotfix"):
            await block()
        assert cancellations() == 0
        await asyncio.sleep(0)

    run(story)


def test_an_on_lost_that_fails_is_reported(run: Run, ops: Locks) -> None:
    reported: list[dict[str, Any]] = []

    def broken(reason: str) -> None:
        raise ValueError(reason)

    async def story(locks: AsyncLocks) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
        async with locks.lock("x", ttl=TTL, on_lost=broken):
            ops.force_release("x", by="ops", reason="hotfix")
            await for_ever()

    with pytest.raises(LeaseLost, match="hotfix"):
        run(story)
    assert [type(each["exception"]) for each in reported] == [ValueError]


# --------------------------------------------------------------------------------------------- by another task


def test_a_cancellation_by_other_code_passes_through(run: Run, ops: Locks) -> None:
    async def story(locks: AsyncLocks) -> None:
        entered = asyncio.Event()

        async def block() -> None:
            async with locks.lock("x", ttl=60):
                entered.set()
                await for_ever()

        task = asyncio.create_task(block())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(story)
    assert last_end(ops) == ("cancelled", "asyncio.exceptions.CancelledError")


def test_a_cancellation_by_other_code_is_not_swallowed_by_a_loss(run: Run, ops: Locks) -> None:
    async def story(locks: AsyncLocks) -> None:
        task: asyncio.Task[None]

        def lost(_reason: str) -> None:
            task.cancel()

        async def block() -> None:
            async with locks.lock("x", ttl=TTL, on_lost=lost):
                ops.force_release("x", by="ops", reason="hotfix")
                await for_ever()

        task = asyncio.create_task(block())
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert task.cancelled()
        assert "hotfix" in caught.value.__notes__[0]

    run(story)


def slow_release(monkeypatch: pytest.MonkeyPatch, locks: AsyncLocks) -> tuple[asyncio.Event, asyncio.Event]:
    """Releases begin with the first of these, and go on with the second."""
    begun, goes_on = asyncio.Event(), asyncio.Event()
    release = locks.release

    async def slow(*args: Any, **kwargs: Any) -> object:
        begun.set()
        await goes_on.wait()
        return await release(*args, **kwargs)

    monkeypatch.setattr(locks, "release", slow)
    return begun, goes_on


async def cancelled_while_released(locks: AsyncLocks, begun: asyncio.Event) -> asyncio.Task[None]:
    """A block that is being left, and has just been told that it is cancelled."""

    async def block() -> None:
        async with locks.lock("x", ttl=60):
            pass

    task = asyncio.create_task(block())
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    return task


def test_a_cancellation_while_it_is_released(run: Run, ops: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(locks: AsyncLocks) -> None:
        begun, goes_on = slow_release(monkeypatch, locks)
        task = await cancelled_while_released(locks, begun)
        assert not task.done(), "the release comes first"
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(story)
    assert ops.list() == ()


def test_a_cancellation_while_a_loss_is_brought_to_light(run: Run, ops: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(locks: AsyncLocks) -> None:
        begun, goes_on = slow_release(monkeypatch, locks)

        async def block() -> None:
            async with locks.lock("x", ttl="1h"):
                ops.force_release("x", by="ops", reason="hotfix")

        task = asyncio.create_task(block())
        await begun.wait()
        task.cancel()
        await asyncio.sleep(0)
        goes_on.set()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert "forced by ops: hotfix" in caught.value.__notes__[0]

    run(story)


def test_who_cancels_twice_does_not_wait_for_the_release(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(locks: AsyncLocks) -> None:
        begun, _ = slow_release(monkeypatch, locks)
        task = await cancelled_while_released(locks, begun)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(story)


def test_timeouts_around_and_inside(run: Run, ops: Locks) -> None:
    async def story(locks: AsyncLocks) -> None:
        async def inside() -> None:
            async with locks.lock("x", ttl=60) as lease:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(for_ever(), 0.01)
                lease.ensure()

        async def around() -> None:
            async with asyncio.timeout(None) as limit, locks.lock("x", ttl=60):
                limit.reschedule(asyncio.get_running_loop().time())
                await for_ever()

        await inside()
        assert last_end(ops) == ("completed", None)
        with pytest.raises(TimeoutError):
            await around()

    run(story)
    assert ops.list() == ()


def test_a_timeout_inside_does_not_catch_the_loss(run: Run, ops: Locks) -> None:
    async def story(locks: AsyncLocks) -> None:
        async with locks.lock("x", ttl=TTL):
            ops.force_release("x", by="ops", reason="hotfix")
            async with asyncio.timeout(3600):
                await for_ever()

    with pytest.raises(LeaseLost, match="hotfix"):
        run(story)


def test_cancelled_in_the_queue(run: Run, ops: Locks) -> None:
    def queue() -> int:
        seen = ops.inspect("x")
        assert isinstance(seen, Inspection)
        return len(seen.waiting)

    async def story(locks: AsyncLocks) -> None:
        task = asyncio.ensure_future(locks.lock("x", ttl=60, wait=60).__aenter__())
        await async_until(lambda: queue() == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await async_until(lambda: queue() == 0)

    with ops.lock("x", ttl=60):
        run(story)
    assert ops.list() == ()


def test_cancelled_while_it_leaves(run: Run, ops: Locks) -> None:
    """The release comes first, and then the cancellation."""

    async def story(locks: AsyncLocks) -> None:
        left = asyncio.Event()

        async def block() -> None:
            async with locks.lock("x", ttl=60):
                asyncio.get_running_loop().call_soon(task.cancel)
            left.set()

        task = asyncio.create_task(block())
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not left.is_set()

    run(story)
    assert ops.list() == ()
    assert last_end(ops) == ("cancelled", "asyncio.exceptions.CancelledError")

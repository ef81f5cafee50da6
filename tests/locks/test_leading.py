"""`locks.lead(...)`: leadership as a loop with a turn for each term, for plain code and for coroutines."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.domain.outcomes import Held
from leasehold.errors import InvalidInput, LeaseLost
from tests.kit.holders import Losses, async_until, events, last_end, until

if TYPE_CHECKING:
    from leasehold.locks.aio import AsyncLocks
    from leasehold.locks.holding.held import HeldLease
    from leasehold.locks.sync import Locks
    from tests.kit.holders import Run

pytestmark = pytest.mark.usefixtures("eager")


def await_loss(term: HeldLease) -> None:
    until(lambda: term.lost)


def test_candidates_lead_one_after_the_other_in_growing_terms(url: str) -> None:
    leading, fences = threading.Lock(), []

    def campaign(name: str) -> None:
        with leasehold.connect(url, holder=name) as locks:
            for turn, term in enumerate(locks.lead("scheduler", ttl=60)):
                assert leading.acquire(blocking=False), "two leaders at once"
                fences.append(term.fence)
                leading.release()
                if turn == 4:
                    break

    threads = [threading.Thread(target=campaign, args=(f"candidate-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fences == sorted(fences)
    assert len(set(fences)) == 20


def test_the_work_of_a_leader_is_called_so_unless_it_is_named(locks: Locks) -> None:
    """The dashboard and the metrics know elections by it."""
    assert next(iter(locks.lead("scheduler", ttl=60))).lease.name == "leader"
    assert next(iter(locks.lead("reporter", ttl=60, name="nightly reports"))).lease.name == "nightly reports"


def test_a_deposed_leader_learns_of_it_and_campaigns_again(locks: Locks, ops: Locks) -> None:
    fences, losses = [], Losses()
    for term in locks.lead("scheduler", ttl=60, on_lost=losses):
        fences.append(term.fence)
        if len(fences) == 2:
            break
        assert ops.force_release("scheduler", by="ops", reason="drill")
        await_loss(term)
        with pytest.raises(LeaseLost, match="drill"):
            term.ensure()
    assert fences[0] < fences[1]
    assert ["drill" in each for each in losses] == [True]


def test_leaving_the_loop_resigns(locks: Locks, ops: Locks) -> None:
    for term in locks.lead("scheduler"):
        assert term.lease.ttl.total_seconds() == 15
        assert isinstance(ops.acquire("scheduler", ttl=1), Held)
        break
    assert ops.acquire("scheduler", ttl=60)

    def fail() -> None:
        for _term in locks.lead("other"):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert ops.acquire("other", ttl=60)
    assert len(events(locks, "released")) == 2


def test_a_turn_that_ends_is_a_completed_term(locks: Locks) -> None:
    turns = iter(locks.lead("scheduler", ttl=60))
    first = next(turns)
    second = next(turns)
    assert first.lost == "released"
    assert second.lost is None
    assert last_end(locks) == ("completed", None)


def test_a_wrong_argument_raises_where_the_loop_is_written(locks: Locks, run: Run) -> None:
    with pytest.raises(InvalidInput, match="ttl"):
        locks.lead("scheduler", ttl="soon")

    async def story(locks: AsyncLocks) -> None:
        with pytest.raises(InvalidInput, match="ttl"):
            locks.lead("scheduler", ttl="soon")

    run(story)


# ------------------------------------------------------------------------------------------------ coroutines


def test_the_body_of_a_deposed_leader_is_cancelled_and_the_loop_goes_on(run: Run, ops: Locks) -> None:
    async def story(locks: AsyncLocks) -> None:
        fences = []
        async for term in locks.lead("scheduler", ttl=60):
            fences.append(term.fence)
            if len(fences) == 2:
                break
            async with term:
                assert ops.force_release("scheduler", by="ops", reason="drill")
                await asyncio.Event().wait()
            assert "drill" in str(term.lease.lost)
        assert fences[0] < fences[1]
        assert not asyncio.current_task().cancelling()  # type: ignore[union-attr]

    run(story)


def test_a_body_that_begins_after_the_loss_is_cancelled_at_its_first_step(run: Run, ops: Locks) -> None:
    async def story(locks: AsyncLocks) -> None:
        async for term in locks.lead("scheduler", ttl=60):
            assert ops.force_release("scheduler", by="ops", reason="drill")
            await asyncio.to_thread(await_loss, term.lease)
            async with term:
                await asyncio.Event().wait()
            break

    run(story)


def test_another_cancellation_goes_on(run: Run) -> None:
    async def story(locks: AsyncLocks) -> None:
        async def lead() -> None:
            async for term in locks.lead("scheduler", ttl=60):
                async with term:
                    await asyncio.Event().wait()

        leader = asyncio.create_task(lead())
        await async_until(lambda: locks._entered)
        leader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leader
        await async_until(lambda: not locks._entered)

    run(story)


def test_coroutines_lead_one_after_the_other_in_growing_terms(run: Run) -> None:
    async def story(locks: AsyncLocks) -> None:
        fences: list[int] = []

        async def campaign(name: str) -> None:
            turns = 0
            async for term in locks.lead("scheduler", ttl=60, holder=name):
                fences.append(term.fence)
                turns += 1
                if turns == 3:
                    break

        await asyncio.gather(*(campaign(f"candidate-{n}") for n in range(3)))
        assert fences == sorted(fences)
        assert len(set(fences)) == 9

    run(story)

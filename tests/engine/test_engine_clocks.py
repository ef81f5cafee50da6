"""A wait lasts as long as was asked, by the clock of the process that waits, although the store's clock is set."""

from __future__ import annotations

import pytest

from leasehold.domain.outcomes import Granted, TimedOut
from tests.engine.rig import Rig, begin_waiting, release, take


@pytest.mark.parametrize("apart", [-60.0, -0.5, 0.5, 60.0])
def test_a_wait_ends_in_time_although_the_stores_clock_was_set(apart: float) -> None:
    rig = Rig()
    engine = rig.engine()
    take(engine, "r", ttl=3600)
    waiting = begin_waiting(engine, "r", "bob", wait=3)
    rig.now, rig.apart = 0.5, apart
    assert 2.0 <= rig.until_answered(waiting, engine) <= 4.01
    assert isinstance(waiting.outcome, TimedOut)
    assert not any(record.waiters for record in rig.memory.records.values())


@pytest.mark.parametrize("apart", [-60.0, 60.0])
def test_a_wait_is_served_although_the_stores_clock_was_set(apart: float) -> None:
    rig = Rig()
    engine = rig.engine()
    held = take(engine, "r", ttl=3600)
    waiting = begin_waiting(engine, "r", "bob", wait=30)
    rig.now, rig.apart = 0.5, apart
    engine.turn()
    rig.now = 5.0
    engine.submit(release(held))
    assert rig.until_answered(waiting, engine) == pytest.approx(5.0, abs=0.05)
    assert isinstance(waiting.outcome, Granted)


def test_two_engines_keep_their_own_time() -> None:
    rig = Rig()
    here, there = rig.engine(), rig.engine()
    take(here, "r", ttl=3600)
    waiting = begin_waiting(there, "r", "bob", wait=3)
    rig.now, rig.apart = 0.5, 60.0
    here.submit(release(take(here, "other")))
    assert rig.until_answered(waiting, here, there) == pytest.approx(3.0, abs=0.05)
    assert isinstance(waiting.outcome, TimedOut)

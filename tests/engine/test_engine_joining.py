"""A request that is asked again while it waits: it waits as long as it now says, and the engine does not spin."""

from __future__ import annotations

from leasehold.domain.outcomes import Granted, TimedOut
from leasehold.requests import checks
from leasehold.requests.checks import Settings
from leasehold.testing.asking import asking
from tests.engine.rig import Rig, begin_waiting, begun, release, take


def test_a_longer_wait_is_waited_without_spinning() -> None:
    rig = Rig()
    engine = rig.engine()
    take(engine, "r")
    first = begin_waiting(engine, "r", "bob", wait=1, request_id="q")
    again = begin_waiting(engine, "r", "bob", wait=20, request_id="q")
    before = begun(engine)
    assert abs(rig.until_answered(again, engine, within=30) - 20) < 0.1
    assert begun(engine) - before < 20 * 4  # two heartbeats a second, and some looks; not one a millisecond
    assert isinstance(first.outcome, TimedOut)
    assert isinstance(again.outcome, TimedOut)


def test_a_shorter_wait_ends_sooner() -> None:
    rig = Rig()
    engine = rig.engine()
    take(engine, "r")
    begin_waiting(engine, "r", "bob", wait=60, request_id="q")
    again = begin_waiting(engine, "r", "bob", wait=1, request_id="q")
    assert abs(rig.until_answered(again, engine) - 1) < 0.1


def test_the_first_caller_may_go_and_the_other_keeps_the_place() -> None:
    rig = Rig()
    engine = rig.engine()
    held = take(engine, "r")
    first = begin_waiting(engine, "r", "bob", wait=60, request_id="q")
    asked = asking("r", 600, "bob", wait=60, request_id="q")
    again = engine.submit(checks.acquire(asked, Settings(), "another token", engine.key), "another token")
    engine.turn()
    engine.abandon(first)
    engine.turn()
    engine.submit(release(held))
    engine.turn()
    assert isinstance(again.outcome, Granted)

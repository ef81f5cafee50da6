"""A request that is asked again while it waits: it waits as long as it now says, and the engine does not spin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.outcomes import Granted, Refused, TimedOut
from leasehold.requests import checks
from leasehold.requests.checks import Settings
from leasehold.testing.asking import asking
from tests.engine.rig import Rig, begin_waiting, begun, release, take

if TYPE_CHECKING:
    from leasehold.engine.engine import Engine
    from leasehold.engine.pending import Pending


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


def _delayed(engine: Engine, **asked: object) -> Pending:
    """A copy of bob's request that another server has received late, and whose caller is gone."""
    asked = asking("r", 600, "bob", wait=60, request_id="q", **asked)
    late = engine.submit(checks.acquire(asked, Settings(), "late", engine.key), "late")
    engine.turn()
    return late


def test_a_delayed_copy_that_takes_the_place_at_another_engine_does_not_keep_it() -> None:
    """The forwarder of the request decided it itself after the owner was silent; then the owner goes on."""
    rig = Rig(poll=20_000)
    forwarder, owner = rig.engine(), rig.engine()
    held = take(forwarder, "r")
    waiting = begin_waiting(forwarder, "r", "bob", wait=60, request_id="q")
    waiting.was_sent_elsewhere = True
    behind = begin_waiting(forwarder, "r", "carol")
    rig.now = 0.1
    late = _delayed(owner)
    rig.now = 0.2
    for _ in range(3):
        forwarder.turn()
    owner.abandon(late)
    owner.turn()
    forwarder.submit(release(held))
    rig.until_answered(waiting, forwarder, owner, within=5)
    assert isinstance(waiting.outcome, Granted)
    assert not behind.is_done


def test_a_delayed_first_copy_takes_no_place() -> None:
    rig = Rig(poll=20_000)
    forwarder, owner = rig.engine(), rig.engine()
    held = take(forwarder, "r")
    waiting = begin_waiting(forwarder, "r", "bob", wait=60, request_id="q")
    late = _delayed(owner, first=True)
    assert isinstance(late.outcome, Refused)
    assert late.outcome.code == "spent"
    forwarder.submit(release(held))
    rig.until_answered(waiting, forwarder, within=1)
    assert isinstance(waiting.outcome, Granted)

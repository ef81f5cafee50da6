"""Callers that go away: at whatever stage they do, nothing stays behind and nobody else is harmed."""

from __future__ import annotations

from leasehold.domain.outcomes import Granted
from leasehold.errors import StoreError
from leasehold.requests.checks import Settings
from leasehold.requests.checks import acquire as checked
from leasehold.testing.asking import asking
from tests.engine.rig import Rig, acquire, begin_waiting, release, striking, take


class TestAbandoning:
    """A caller disconnects at any stage: nothing of its request stays."""

    def test_in_the_inbox(self) -> None:
        rig = Rig()
        engine = rig.engine()
        pending = engine.submit(acquire(engine, "r"), "token")
        engine.abandon(pending)
        engine.turn()
        assert pending.is_done
        assert rig.is_empty()
        assert rig.memory.events == []

    def test_a_release_in_the_inbox_is_done_all_the_same(self) -> None:
        rig = Rig()
        engine = rig.engine()
        held = take(engine, "r")
        engine.abandon(engine.submit(release(held)))
        engine.turn()
        assert rig.is_empty()

    def test_a_release_that_only_the_close_comes_across_is_done_too(self) -> None:
        rig = Rig()
        engine = rig.engine()
        held = take(engine, "r")
        engine.abandon(engine.submit(release(held)))
        engine.close()
        assert rig.is_empty()

    def test_in_the_queue(self) -> None:
        rig = Rig()
        engine = rig.engine()
        held = take(engine, "r")
        gone = begin_waiting(engine, "r", "gone")
        behind = begin_waiting(engine, "r", "behind")
        engine.abandon(gone)
        engine.turn()
        assert gone.is_done
        assert engine.waiting == 1
        engine.submit(release(held))
        engine.turn()
        assert isinstance(behind.outcome, Granted)

    def test_with_the_lease(self) -> None:
        rig = Rig()
        engine = rig.engine()
        pending = engine.submit(acquire(engine, "r"), "alice")
        engine.turn()
        engine.abandon(pending)
        engine.turn()
        assert rig.is_empty()

    def test_while_it_is_decided(self) -> None:
        rig = Rig()
        engine = rig.engine()
        pending = engine.submit(acquire(engine, "r"), "alice")
        rig.trouble = lambda _point: engine.abandon(pending)
        engine.turn()
        rig.trouble = None
        engine.turn()
        assert rig.is_empty()

    def test_while_it_is_queued(self) -> None:
        rig = Rig()
        engine = rig.engine()
        held = take(engine, "r")
        pending = engine.submit(acquire(engine, "r", "gone", wait=60), "gone")
        rig.trouble = lambda point: engine.abandon(pending) if point == "before_commit" else None
        engine.turn()
        rig.trouble = None
        engine.turn()
        assert engine.waiting == 0
        engine.submit(release(held))
        engine.turn()
        assert rig.is_empty()

    def test_while_another_engine_serves_it(self) -> None:
        rig = Rig()
        here, there = rig.engine(), rig.engine()
        held = take(here, "r")
        gone = begin_waiting(there, "r", "gone")
        here.submit(release(held))
        here.turn()
        there.abandon(gone)
        there.turn()
        for _ in range(10):
            rig.now += 0.1
            there.turn()
        assert rig.is_empty()

    def test_when_the_store_is_broken_is_made_up_for(self) -> None:
        rig = Rig()
        engine = rig.engine()
        pending = engine.submit(acquire(engine, "r"), "alice")
        engine.turn()
        rig.trouble = striking("begin", StoreError("the disk is full"))
        engine.abandon(pending)
        engine.turn()
        assert not rig.is_empty()
        at = engine.next_time()
        assert at is not None
        rig.now = at
        engine.turn()
        assert rig.is_empty()

    def test_one_of_two_that_asked_for_the_same_request(self) -> None:
        rig = Rig()
        engine = rig.engine()
        held = take(engine, "r")
        asked = asking("r", 600, "bob", wait=60, request_id="q")
        commands = [checked(asked, Settings(), token, engine.key) for token in ("one", "two")]
        first, second = (engine.submit(command, "token") for command in commands)
        engine.turn()
        assert engine.waiting == 1
        engine.abandon(first)
        engine.turn()
        engine.submit(release(held))
        engine.turn()
        assert isinstance(second.outcome, Granted)
        assert not rig.is_empty()
        engine.abandon(second)
        engine.turn()
        assert rig.is_empty()

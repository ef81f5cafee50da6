"""The engine: many requests, one transaction; the cost of a release; looking exactly when something runs out."""

from __future__ import annotations

import pytest

from leasehold.domain.outcomes import Granted, Held, Released, TimedOut
from leasehold.engine.engine import BATCH
from tests.engine.rig import BEAT_EVERY, Rig, acquire, begin_waiting, begun, release, take

NEVER = 3_600_000_000
"""A poll that does not come during a test: what happens then happened because the engine looked by itself."""


class TestGroupCommit:
    def test_what_arrived_together_is_one_transaction(self) -> None:
        rig = Rig()
        engine = rig.engine()
        pending = [engine.submit(acquire(engine, f"r{place}", f"h{place}"), "token") for place in range(300)]
        before = rig.memory.version
        engine.turn()
        assert all(isinstance(each.result(), Granted) for each in pending)
        assert begun(engine) == 1
        assert rig.memory.version == before + 1

    def test_more_than_a_batch_holds_is_not_forgotten(self) -> None:
        rig = Rig()
        engine = rig.engine()
        pending = [engine.submit(acquire(engine, f"r{place}"), "token") for place in range(BATCH + 10)]
        engine.turn()
        assert engine.has_work
        engine.turn()
        assert all(each.is_done for each in pending)
        assert begun(engine) == 2
        assert not engine.has_work

    def test_order_of_arrival_decides_within_a_batch(self) -> None:
        rig = Rig()
        engine = rig.engine()
        tries = [engine.submit(acquire(engine, "r", f"h{place}"), "token") for place in range(3)]
        waits = [engine.submit(acquire(engine, "r", f"w{place}", wait=60), f"w{place}") for place in range(3)]
        engine.turn()
        assert isinstance(tries[0].outcome, Granted)
        assert all(isinstance(each.outcome, Held) for each in tries[1:])
        assert [each.is_done for each in waits] == [False, False, False]

    def test_queued_and_served_in_one_batch(self) -> None:
        rig = Rig()
        engine = rig.engine()
        held = take(engine, "r")
        waiting = engine.submit(acquire(engine, "r", "bob", wait=60), "bob")
        given_back = engine.submit(release(held))
        engine.turn()
        assert isinstance(given_back.result(), Released)
        granted = waiting.result()
        assert isinstance(granted, Granted)
        assert granted.token == "bob"
        assert engine.waiting == 0

    def test_nothing_to_do_is_no_transaction(self) -> None:
        rig = Rig()
        engine = rig.engine()
        engine.turn()
        take(engine, "r")
        engine.turn()
        assert begun(engine) == 1
        assert engine.next_time() is None


class TestCost:
    def test_a_release_with_1000_waiters_is_one_transaction(self) -> None:
        rig = Rig(poll=NEVER)
        engine = rig.engine()
        held = take(engine, "r")
        waiting = [engine.submit(acquire(engine, "r", f"w{place}", wait=60), f"w{place}") for place in range(1000)]
        engine.turn()
        assert engine.waiting == 1000
        for place in range(3):
            before = begun(engine)
            engine.submit(release(held, "alice" if place == 0 else f"w{place - 1}"))
            engine.turn()
            assert begun(engine) - before == 1
            outcome = waiting[place].result()
            assert isinstance(outcome, Granted)
            held = outcome
        assert not waiting[3].is_done

    def test_a_release_with_1000_waiters_elsewhere_is_two_transactions(self) -> None:
        rig = Rig()
        here, there = rig.engine(), rig.engine()
        held = take(here, "r")
        waiting = [there.submit(acquire(there, "r", f"w{place}", wait=60), f"w{place}") for place in range(1000)]
        there.turn()
        before = begun(here) + begun(there)
        here.submit(release(held))
        here.turn()
        rig.until_answered(waiting[0], there)
        assert isinstance(waiting[0].outcome, Granted)
        assert begun(here) + begun(there) - before <= 2

    def test_waiting_costs_a_heartbeat_and_no_more(self) -> None:
        rig = Rig(poll=NEVER)
        engine = rig.engine()
        take(engine, "r")
        for place in range(100):
            engine.submit(acquire(engine, "r", f"w{place}", wait=600), "token")
        engine.turn()
        before, rig.now = begun(engine), rig.now
        while rig.now < 60:
            rig.now = max(rig.now, engine.next_time() or 0.0)
            engine.turn()
        assert begun(engine) - before <= 60 / BEAT_EVERY + 2


class TestDeadlines:
    """With polls out of the way: whatever happens, happens at the very moment that something runs out."""

    @pytest.mark.parametrize("ttl", [0.0123, 0.333, 7.77])
    def test_a_waiter_is_served_the_moment_the_holder_expires(self, ttl: float) -> None:
        rig = Rig(poll=NEVER)
        engine = rig.engine()
        take(engine, "r", ttl=ttl)
        waiting = begin_waiting(engine, "r", "bob")
        assert rig.until_answered(waiting, engine) == pytest.approx(ttl, abs=2e-6)
        assert isinstance(waiting.outcome, Granted)

    def test_a_waiter_is_served_the_moment_a_holder_elsewhere_expires(self) -> None:
        rig = Rig(poll=NEVER)
        here, there = rig.engine(), rig.engine()
        take(there, "r", ttl=0.4567)
        waiting = begin_waiting(here, "r", "bob")
        assert rig.until_answered(waiting, here) == pytest.approx(0.4567, abs=2e-6)

    def test_a_wait_ends_at_its_deadline(self) -> None:
        rig = Rig(poll=NEVER)
        engine = rig.engine()
        take(engine, "r")
        waiting = begin_waiting(engine, "r", "bob", wait=0.123)
        assert rig.until_answered(waiting, engine) == pytest.approx(0.123, abs=2e-3)
        assert isinstance(waiting.outcome, TimedOut)
        assert rig.now >= 0.123

    def test_a_grace_ends_at_its_end(self) -> None:
        rig = Rig(poll=NEVER)
        engine = rig.engine()
        take(engine, "r", ttl=0.1, grace=0.25)
        waiting = begin_waiting(engine, "r", "bob")
        assert rig.until_answered(waiting, engine) == pytest.approx(0.35, abs=2e-6)

    def test_the_last_of_several_holders_counts(self) -> None:
        rig = Rig(poll=NEVER)
        engine = rig.engine()
        for ttl in (0.1, 0.3, 0.2):
            take(engine, "r", ttl=ttl, mode="shared")
        waiting = begin_waiting(engine, "r", "bob")
        assert rig.until_answered(waiting, engine) == pytest.approx(0.3, abs=2e-6)

    def test_a_renewal_moves_the_moment(self) -> None:
        rig = Rig(poll=NEVER)
        engine, elsewhere = rig.engine(), rig.engine()
        take(engine, "r", ttl=0.3)
        waiting = begin_waiting(engine, "r", "bob")
        rig.now = 0.2
        elsewhere.submit(acquire(elsewhere, "r", "alice", ttl=0.3, reentrant=True, token="alice"), "alice")
        elsewhere.turn()
        assert rig.until_answered(waiting, engine) == pytest.approx(0.5, abs=2e-6)

    def test_whichever_of_a_choice_comes_first(self) -> None:
        rig = Rig(poll=NEVER)
        engine = rig.engine()
        take(engine, "a", ttl=0.3)
        take(engine, "b", ttl=0.2)
        waiting = begin_waiting(engine, ["a", "b"], "bob", any_of=True)
        assert rig.until_answered(waiting, engine) == pytest.approx(0.2, abs=2e-6)
        assert isinstance(waiting.outcome, Granted)
        assert waiting.outcome.lease.resources == ("b",)

"""When the store breaks, when callers go away, when all is closed: everybody is answered, nothing stays behind."""

from __future__ import annotations

from collections import deque

import pytest

from leasehold.domain.outcomes import Granted, TimedOut
from leasehold.engine.engine import TROUBLE_PAUSE
from leasehold.engine.pending import Pending
from leasehold.engine.waiters import OVERDUE
from leasehold.errors import Closed, Conflict, OutcomeUnknown, StoreError
from tests.engine.rig import Rig, acquire, begin_waiting, begun, release, striking, take


class TestStoreErrors:
    @pytest.mark.parametrize("point", ["begin", "before_commit"])
    def test_are_told_to_everybody_in_the_batch_and_to_nobody_else(self, point: str) -> None:
        rig = Rig()
        engine = rig.engine()
        error = StoreError("the disk is full")
        pending = [engine.submit(acquire(engine, f"r{place}"), "token") for place in range(5)]
        rig.trouble = striking(point, error)
        engine.turn()
        assert [each.error for each in pending] == [error] * 5
        with pytest.raises(StoreError, match="disk is full"):
            pending[0].result()
        assert rig.is_empty()
        assert [take(engine, f"r{place}").lease.resources for place in range(5)]

    def test_do_not_end_a_wait(self) -> None:
        rig = Rig()
        engine = rig.engine()
        held = take(engine, "r")
        waiting = begin_waiting(engine, "r", "bob")
        rig.trouble = striking("begin", StoreError("the disk is full"), times=3)
        failed = engine.submit(acquire(engine, "other"), "token")
        engine.turn()
        assert isinstance(failed.error, StoreError)
        rig.now = 5.0
        for _ in range(5):
            engine.turn()
            rig.now += TROUBLE_PAUSE
        assert not waiting.is_done
        engine.submit(release(held))
        rig.until_answered(waiting, engine)
        assert isinstance(waiting.outcome, Granted)

    def test_do_not_lose_a_deadline(self) -> None:
        rig = Rig()
        engine = rig.engine()
        take(engine, "r")
        first = begin_waiting(engine, "r", "first")
        second = begin_waiting(engine, "r", "second", wait=0.25)
        rig.now = 0.25
        rig.trouble = striking("begin", StoreError("the disk is full"))
        engine.turn()
        assert rig.until_answered(second, engine) <= 0.25 + TROUBLE_PAUSE + 0.01
        assert isinstance(second.outcome, TimedOut)
        assert not first.is_done

    def test_that_do_not_end_are_reported_to_callers_that_waited_long_enough(self) -> None:
        rig = Rig()
        engine = rig.engine()
        held = take(engine, "r")
        short = begin_waiting(engine, "r", "short", wait=3)
        long = begin_waiting(engine, "r", "long", wait=3600)
        rig.trouble = striking("begin", StoreError("gone for good"), times=10**9)
        assert rig.until_answered(short, engine, within=10.0) >= 3 + OVERDUE
        assert isinstance(short.error, StoreError)
        assert not long.is_done
        rig.trouble = None
        engine.submit(release(held))
        rig.until_answered(long, engine)
        assert isinstance(long.outcome, Granted), "and not the caller that went away"
        engine.submit(release(long.outcome, "long"))
        engine.turn()
        assert rig.is_empty()

    def test_do_not_make_it_spin(self) -> None:
        rig = Rig()
        engine = rig.engine()
        take(engine, "r")
        begin_waiting(engine, "r", "bob")
        rig.trouble = striking("begin", StoreError("gone for good"), times=10**9)
        before = begun(engine)
        while rig.now < 10:
            engine.turn()
            rig.now = max(rig.now, engine.next_time() or 0.0)
        assert begun(engine) - before <= 10 / TROUBLE_PAUSE + 2


class TestCommitsOfUnknownOutcome:
    def test_that_happened_are_answered_as_such(self) -> None:
        rig = Rig()
        engine = rig.engine()
        rig.trouble = striking("after_commit", OutcomeUnknown("the line is dead"))
        granted = take(engine, "r")
        assert granted.lease.fence == 1
        assert len([event for event in rig.memory.events if event.kind == "granted"]) == 1

    def test_that_did_not_happen_are_decided_again(self) -> None:
        rig = Rig()
        engine = rig.engine()
        rig.trouble = striking("before_commit", OutcomeUnknown("the line is dead"))
        take(engine, "r")
        assert len([event for event in rig.memory.events if event.kind == "granted"]) == 1

    def test_that_last_longer_than_a_wait_leave_nothing_of_it_behind(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A waiter was served by that very commit, after an answer that the store is silent."""
        rig = Rig()
        engine = rig.engine()
        held = take(engine, "r")
        waiting = begin_waiting(engine, "r", "bob", wait=3)
        engine.submit(release(held))

        def silent(*_: object) -> None:
            raise StoreError("gone for good")

        with monkeypatch.context() as trouble:
            trouble.setattr(engine.store, "read", silent)
            rig.trouble = striking("after_commit", OutcomeUnknown("the line is dead"))
            engine.turn()
            rig.trouble = silent
            rig.until_answered(waiting, engine, within=10.0)
        assert isinstance(waiting.error, StoreError)
        assert not rig.is_empty(), "it was served"
        rig.trouble = None
        for _ in range(3):
            rig.now += TROUBLE_PAUSE
            engine.turn()
        assert rig.is_empty()

    def test_conflicts_are_decided_again(self) -> None:
        rig = Rig()
        engine = rig.engine()
        rig.trouble = striking("before_commit", Conflict("somebody was quicker"), times=5)
        take(engine, "r")
        assert begun(engine) == 6

    def test_conflicts_without_end_are_told(self) -> None:
        rig = Rig()
        engine = rig.engine()
        rig.trouble = striking("before_commit", Conflict("somebody was quicker"), times=10**9)
        pending = engine.submit(acquire(engine, "r"), "token")
        engine.turn()
        with pytest.raises(StoreError, match="too busy"):
            pending.result()


class TestClosing:
    def test_answers_who_asked_and_who_waits(self) -> None:
        rig = Rig()
        engine = rig.engine()
        take(engine, "r")
        waiting = [begin_waiting(engine, "r", f"w{place}") for place in range(3)]
        asked = engine.submit(acquire(engine, "other"), "token")
        engine.close()
        for pending in (*waiting, asked):
            with pytest.raises(Closed):
                pending.result()
        assert engine.waiting == 0
        assert not engine.has_work
        assert [waiter for record in rig.memory.records.values() for waiter in record.waiters] == []

    def test_answers_who_comes_too_late(self) -> None:
        rig = Rig()
        engine = rig.engine()
        engine.close()
        engine.close()
        with pytest.raises(Closed):
            engine.submit(acquire(engine, "r"), "token").result()

    def test_answers_who_comes_in_at_that_very_moment(self) -> None:
        rig = Rig()
        engine = rig.engine()

        class ClosingInbox(deque[Pending]):
            def append(self, pending: Pending) -> None:
                engine.close()
                super().append(pending)

        engine._inbox._requests = ClosingInbox()
        with pytest.raises(Closed):
            engine.submit(acquire(engine, "r"), "token").result()

    def test_answers_even_if_the_store_is_broken(self) -> None:
        rig = Rig()
        engine = rig.engine()
        take(engine, "r")
        waiting = begin_waiting(engine, "r", "bob")
        rig.trouble = striking("begin", StoreError("the disk is full"), times=10**9)
        with pytest.raises(StoreError):
            engine.close()
        with pytest.raises(Closed):
            waiting.result()

    def test_lets_the_next_in_the_queue_go_on(self) -> None:
        rig = Rig()
        here, there = rig.engine(), rig.engine()
        take(here, "r", mode="shared")
        begin_waiting(there, "r", "writer")
        reader = begin_waiting(here, "r", "reader", mode="shared")
        there.close()
        rig.until_answered(reader, here)
        assert isinstance(reader.outcome, Granted)


class TestBreakingDown:
    """A bug in a store or in the engine itself must not leave anybody waiting for ever."""

    def test_tells_everybody_who_asked_or_waits(self) -> None:
        rig = Rig()
        engine = rig.engine()
        take(engine, "r")
        waiting = begin_waiting(engine, "r", "bob")
        asked = [engine.submit(acquire(engine, f"r{place}"), "token") for place in range(3)]
        rig.trouble = striking("before_commit", ZeroDivisionError("a bug"))
        with pytest.raises(ZeroDivisionError):
            engine.turn()
        assert [type(each.error) for each in (waiting, *asked)] == [ZeroDivisionError] * 4

    def test_of_a_callback_does_not_keep_answers_from_the_others(self) -> None:
        rig = Rig()
        engine = rig.engine()
        told: list[object] = []

        def breaks(_pending: object) -> None:
            raise ZeroDivisionError("a bug")

        first = engine.submit(acquire(engine, "a"), "token", breaks)
        second = engine.submit(acquire(engine, "b"), "token", told.append)
        with pytest.raises(ZeroDivisionError):
            engine.turn()
        assert isinstance(first.outcome, Granted)
        assert told == [second]
        assert isinstance(second.error, ZeroDivisionError)

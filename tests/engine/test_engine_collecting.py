"""Clearing up: all of it in the end, but a little each turn, and nobody else waits for it."""

from __future__ import annotations

import pytest

from leasehold.domain.commands import Sweep
from leasehold.domain.outcomes import Collected, Granted
from leasehold.engine.cleanup import PAUSE, Cleanup
from leasehold.engine.engine import FORGET_EVERY, SWEEP_AT_ONCE, Engine
from leasehold.engine.pending import Pending
from leasehold.errors import Closed, StoreError
from leasehold.stores.memory import PRUNE, MemoryStore
from tests.engine.rig import Rig, acquire, take
from tests.kit.samples import event

BACKLOG = 5 * PRUNE + 500


def with_backlog() -> Rig:
    """More old events than one turn may forget."""
    rig = Rig()
    rig.memory.events = [event(at=number) for number in range(BACKLOG)]
    rig.memory.keep_events = 0
    return rig


def expired(rig: Rig, engine: Engine, count: int) -> None:
    for number in range(count):
        engine.submit(acquire(engine, f"r{number}", f"h{number}", ttl=1), "token")
    while engine.has_work:
        engine.turn()
    rig.now += 10


class TestAsked:
    def test_all_old_history_is_forgotten_and_counted(self) -> None:
        rig = with_backlog()
        engine = rig.engine()
        asked = engine.submit(Sweep(()))
        rig.until_answered(asked, engine)
        assert asked.result() == Collected(0, BACKLOG)
        assert rig.memory.events == []
        assert rig.now == 0, "it is not put off while somebody waits for it"
        assert engine.next_time() is None

    def test_one_turn_forgets_a_bounded_part(self) -> None:
        rig = with_backlog()
        engine = rig.engine()
        asked = engine.submit(Sweep(()))
        while not asked.is_done:
            before = len(rig.memory.events)
            engine.turn()
            assert before - len(rig.memory.events) <= PRUNE

    def test_others_are_served_meanwhile(self) -> None:
        rig = with_backlog()
        engine = rig.engine()
        asked = engine.submit(Sweep(()))
        engine.turn()
        for number in range(3):
            take(engine, f"r{number}")
            assert not asked.is_done

    def test_more_than_one_sweep_holds_is_swept_and_counted(self) -> None:
        rig = Rig()
        engine = rig.engine()
        expired(rig, engine, 3 * SWEEP_AT_ONCE)
        asked = engine.submit(Sweep(()))
        rig.until_answered(asked, engine)
        assert rig.is_empty()
        collected = asked.result()
        assert isinstance(collected, Collected)
        assert collected.swept >= 2 * SWEEP_AT_ONCE  # the turn in which it was asked has swept some already

    def test_what_a_sweep_does_not_change_is_not_swept_for_ever(self) -> None:
        cleanup = Cleanup(MemoryStore())
        cleanup.join(Pending(Sweep(())))
        cleanup.count(("a", "b"), 2)
        assert cleanup.sweeps
        cleanup.count(("a", "b"), 2)
        assert not cleanup.sweeps

    def test_two_who_ask_are_both_answered(self) -> None:
        rig = with_backlog()
        engine = rig.engine()
        first = engine.submit(Sweep(()))
        engine.turn()
        second = engine.submit(Sweep(()))
        rig.until_answered(second, engine)
        assert first.result() == second.result() == Collected(0, BACKLOG)

    def test_a_failure_is_told_to_who_asked_and_to_nobody_else(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rig = with_backlog()
        engine = rig.engine()

        def broken(_store: MemoryStore) -> int:
            raise StoreError("the disk is full")

        monkeypatch.setattr(MemoryStore, "prune", broken)
        asked = engine.submit(Sweep(()))
        other = engine.submit(acquire(engine, "r"), "alice")
        engine.turn()
        assert isinstance(other.result(), Granted)
        with pytest.raises(StoreError, match="the disk is full"):
            asked.result()
        assert engine.next_time() is None

    def test_a_store_that_fails_on_the_way_is_told(self) -> None:
        rig = Rig()
        engine = rig.engine()
        expired(rig, engine, 3 * SWEEP_AT_ONCE)
        asked = engine.submit(Sweep(()))
        engine.turn()

        def trouble(_point: str) -> None:
            raise StoreError("gone")

        rig.trouble = trouble
        engine.turn()
        with pytest.raises(StoreError, match="gone"):
            asked.result()

    def test_closing_on_the_way_answers(self) -> None:
        engine = with_backlog().engine()
        asked = engine.submit(Sweep(()))
        engine.turn()
        engine.close()
        with pytest.raises(Closed):
            asked.result()


class TestByItself:
    def test_old_history_is_forgotten_in_time_with_pauses(self) -> None:
        rig = with_backlog()
        engine = rig.engine()
        take(engine, "a")
        assert len(rig.memory.events) > BACKLOG, "not before its time"
        rig.now = FORGET_EVERY
        take(engine, "b")
        turns = 0
        while (at := engine.next_time()) is not None:
            assert at == pytest.approx(rig.now + PAUSE)
            rig.now, turns = at, turns + 1
            engine.turn()
        assert rig.memory.events == []
        assert turns >= BACKLOG // PRUNE

    def test_a_busy_engine_keeps_the_pauses_too(self) -> None:
        rig = with_backlog()
        engine = rig.engine()
        rig.now = FORGET_EVERY
        take(engine, "a")
        left = len(rig.memory.events)
        for number in range(10):
            take(engine, f"r{number}")
        assert len(rig.memory.events) >= left, "the clock stood still, so nothing more was to go"

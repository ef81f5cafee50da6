"""Several engines on one store: woken by hints, served without them, and never by the dead."""

from __future__ import annotations

from leasehold.domain.commands import Steal
from leasehold.domain.entries import Presence
from leasehold.domain.outcomes import Deadlock, Granted, TimedOut
from leasehold.domain.rules.granting import PICK_UP
from leasehold.domain.timestamps import SECOND
from leasehold.engine.waiters import AT_ONCE
from leasehold.errors import Unreachable
from tests.engine.rig import (
    ALIVE,
    BEAT_EVERY,
    CountingStore,
    Rig,
    acquire,
    begin_waiting,
    begun,
    release,
    striking,
    take,
)

PICKED_UP = PICK_UP / SECOND


def _deafen(*stores: object) -> None:
    for store in stores:
        assert isinstance(store, CountingStore)
        store.hears = False


class TestWakeUp:
    def test_by_the_next_poll(self) -> None:
        rig = Rig(poll=20_000)
        here, there = rig.engine(), rig.engine()
        held = take(here, "r")
        waiting = begin_waiting(there, "r", "bob")
        rig.now = 0.1
        there.turn()
        here.submit(release(held))
        here.turn()
        released_at = rig.now
        assert rig.until_answered(waiting, there) <= released_at + 0.05
        assert isinstance(waiting.outcome, Granted)
        assert waiting.outcome.lease.expires_us == waiting.outcome.lease.as_of_us + 600 * SECOND

    def test_with_every_hint_lost_by_the_next_heartbeat(self) -> None:
        rig = Rig(poll=20_000)
        here, there = rig.engine(), rig.engine()
        _deafen(here.store, there.store)
        held = take(here, "r")
        waiting = begin_waiting(there, "r", "bob")
        rig.now = 0.1
        here.submit(release(held))
        here.turn()
        assert rig.until_answered(waiting, there) <= 0.1 + BEAT_EVERY
        assert isinstance(waiting.outcome, Granted)

    def test_with_every_hint_lost_after_the_expiry_of_a_lease_that_nobody_here_has_seen(self) -> None:
        rig = Rig(poll=20_000)
        here, there = rig.engine(), rig.engine()
        _deafen(here.store, there.store)
        take(here, "r")
        waiting = begin_waiting(there, "r", "bob")
        stolen = here.submit(Steal("ops", "in a hurry", acquire(here, "r", "ops", ttl=0.7)), "ops")
        here.turn()
        assert isinstance(stolen.outcome, Granted)
        assert rig.until_answered(waiting, there) <= 0.7 + BEAT_EVERY
        assert isinstance(waiting.outcome, Granted)

    def test_of_a_choice_served_elsewhere(self) -> None:
        rig = Rig(poll=20_000)
        here, there = rig.engine(), rig.engine()
        take(here, "a")
        held = take(here, "b")
        waiting = begin_waiting(there, ["a", "b"], "bob", any_of=True)
        here.submit(release(held))
        here.turn()
        rig.until_answered(waiting, there)
        assert isinstance(waiting.outcome, Granted)
        assert waiting.outcome.lease.resources == ("b",)


class TestTheDead:
    def test_a_dead_waiter_is_not_served(self) -> None:
        rig = Rig()
        here, dead = rig.engine(), rig.engine()
        held = take(here, "r")
        lost = begin_waiting(dead, "r", "ghost")
        waiting = begin_waiting(here, "r", "bob")
        rig.now = ALIVE + 0.1
        here.submit(release(held))
        here.turn()
        rig.until_answered(waiting, here)
        assert isinstance(waiting.outcome, Granted)
        assert not lost.is_done

    def test_a_waiter_that_dies_in_the_moment_of_its_grant_does_not_keep_it(self) -> None:
        rig = Rig()
        here, dead = rig.engine(), rig.engine()
        held = take(here, "r")
        begin_waiting(dead, "r", "ghost")
        waiting = begin_waiting(here, "r", "bob")
        here.submit(release(held))
        here.turn()
        assert not waiting.is_done
        assert rig.until_answered(waiting, here) <= PICKED_UP + 0.1
        assert isinstance(waiting.outcome, Granted)

    def test_a_dead_waiter_is_dropped_from_the_queue(self) -> None:
        rig = Rig()
        here, dead = rig.engine(), rig.engine()
        take(here, "r")
        begin_waiting(dead, "r", "ghost")
        waiting = begin_waiting(here, "r", "bob", wait=10)
        assert rig.until_answered(waiting, here) >= 10
        assert isinstance(waiting.outcome, TimedOut)
        holders = [waiter.holder for record in rig.memory.records.values() for waiter in record.waiters]
        assert holders == []

    def test_an_engine_that_comes_back_after_it_was_given_up_queues_anew(self) -> None:
        rig = Rig()
        here, sleepy = rig.engine(), rig.engine()
        held = take(here, "r")
        late = begin_waiting(sleepy, "r", "late", wait=60)
        waiting = begin_waiting(here, "r", "bob")
        rig.now = ALIVE + 0.1
        here.submit(release(held))
        here.turn()
        rig.until_answered(waiting, here)
        assert isinstance(waiting.outcome, Granted)
        sleepy.turn()
        sleepy.turn()
        assert not late.is_done
        here.submit(release(waiting.outcome, "bob"))
        here.turn()
        rig.until_answered(late, sleepy)
        assert isinstance(late.outcome, Granted)
        assert late.outcome.lease.fence > waiting.outcome.lease.fence

    def test_an_engine_that_comes_back_after_its_deadline_is_told_so(self) -> None:
        rig = Rig()
        here, sleepy = rig.engine(), rig.engine()
        take(here, "r")
        late = begin_waiting(sleepy, "r", "late", wait=1)
        rig.now = 30.0
        rig.until_answered(late, sleepy)
        assert isinstance(late.outcome, TimedOut)
        assert [waiter for record in rig.memory.records.values() for waiter in record.waiters] == []

    def test_a_promise_that_was_not_picked_up_in_time_is_no_grant(self) -> None:
        rig = Rig()
        here, sleepy = rig.engine(), rig.engine()
        held = take(here, "r")
        late = begin_waiting(sleepy, "r", "late", wait=60)
        here.submit(release(held))
        here.turn()
        rig.now = PICKED_UP + 0.1
        second = take(here, "r", "bob")
        sleepy.turn()
        sleepy.turn()
        assert not late.is_done
        here.submit(release(second, "bob"))
        here.turn()
        rig.until_answered(late, sleepy)
        assert isinstance(late.outcome, Granted)

    def test_presence_is_left_when_nobody_waits_any_more(self) -> None:
        rig = Rig()
        here, there = rig.engine(), rig.engine()
        held = take(here, "r")
        waiting = begin_waiting(there, "r", "bob")
        here.submit(release(held))
        here.turn()
        rig.until_answered(waiting, there)
        there.close()
        notes = rig.memory.records[there.key].notes
        assert not any(isinstance(note, Presence) for note in notes.values())


class TestBackAgain:
    """A waiter at a silent engine counts for no other, and counts again once its engine is back."""

    def test_a_cycle_that_was_closed_meanwhile_has_its_victim(self) -> None:
        rig = Rig()
        here, sleepy = rig.engine(), rig.engine()
        take(sleepy, "r1", "ann")
        held = take(here, "r2", "bob")
        late = begin_waiting(sleepy, "r2", "ann", wait=60, request_id="q")
        rig.now = ALIVE
        waiting = begin_waiting(here, "r1", "bob", wait=60)
        assert rig.until_answered(late, sleepy, here) == ALIVE
        assert late.outcome == Deadlock(("r2",), ("ann", "r2", "bob", "r1"))
        assert not waiting.is_done
        here.submit(release(held, "bob"))
        here.turn()
        again = sleepy.submit(acquire(sleepy, "r2", "ann", wait=60, request_id="q"), "ann")
        sleepy.turn()
        assert isinstance(again.outcome, Granted), "an earlier answer does not count against a retry"

    def test_of_several_waits_in_one_cycle_one_is_the_victim(self) -> None:
        rig = Rig()
        here, sleepy = rig.engine(), rig.engine()
        take(sleepy, "r1", "ann")
        take(sleepy, "r2", "cyd")
        take(here, "r3", "bob")
        late = [begin_waiting(sleepy, "r2", "ann", wait=60), begin_waiting(sleepy, "r3", "cyd", wait=60)]
        rig.now = ALIVE
        waiting = begin_waiting(here, "r1", "bob", wait=60)
        rig.until_answered(late[0], sleepy, here)
        for _ in range(5):
            here.turn()
            sleepy.turn()
        assert isinstance(late[0].outcome, Deadlock)
        assert not late[1].is_done
        assert not waiting.is_done

    def test_a_place_in_a_queue_closes_a_cycle_as_well(self) -> None:
        """The one that was silent holds nothing: a reader waits for it only because it stands before it."""
        rig = Rig()
        here, sleepy = rig.engine(), rig.engine()
        take(here, "r1", "bob", mode="shared")
        take(here, "r2", "cyd")
        late = begin_waiting(sleepy, "r1", "ann", wait=60)
        reader = begin_waiting(sleepy, "r1", "cyd", wait=60, mode="shared")
        rig.now = ALIVE
        waiting = begin_waiting(here, "r2", "bob", wait=60)
        rig.until_answered(late, sleepy, here)
        assert late.outcome == Deadlock(("r1",), ("ann", "r1", "bob", "r2", "cyd", "r1"))
        assert isinstance(reader.outcome, Granted)
        assert not waiting.is_done

    def test_who_is_in_no_cycle_keeps_its_place(self) -> None:
        rig = Rig()
        here, sleepy = rig.engine(), rig.engine()
        held = take(here, "r", "bob")
        take(sleepy, "other", "ann")
        late = begin_waiting(sleepy, "r", "ann", wait=60)
        rig.now = ALIVE
        sleepy.turn()
        before = begun(sleepy)
        sleepy.turn()
        assert begun(sleepy) == before + 1
        sleepy.turn()
        assert begun(sleepy) == before + 1, "one look is enough"
        second = begin_waiting(here, "r", "cyd", wait=60)
        here.submit(release(held, "bob"))
        here.turn()
        rig.until_answered(late, sleepy)
        assert isinstance(late.outcome, Granted)
        assert not second.is_done

    def test_nobody_is_looked_at_again_after_a_time_in_which_nobody_waited(self) -> None:
        rig = Rig()
        here = rig.engine()
        held = take(here, "r", "bob")
        first = begin_waiting(here, "r", "ann", wait=60)
        here.submit(release(held, "bob"))
        here.turn()
        assert isinstance(first.outcome, Granted)
        rig.now = 10 * ALIVE
        begin_waiting(here, "r", "cyd", wait=60)
        before = begun(here)
        here.turn()
        assert begun(here) == before

    def test_of_many_waits_each_is_looked_at_a_few_in_a_turn(self) -> None:
        rig = Rig()
        here, sleepy = rig.engine(), rig.engine()
        take(sleepy, "r1", "ann")
        take(here, "r2", "bob")
        for number in range(2 * AT_ONCE):
            begin_waiting(sleepy, f"r{number % 2 + 1}", f"agent {number}", wait=60)
        late = begin_waiting(sleepy, "r2", "ann", wait=60)
        rig.now = ALIVE
        begin_waiting(here, "r1", "bob", wait=60)
        before = begun(sleepy)
        rig.until_answered(late, sleepy)
        assert isinstance(late.outcome, Deadlock)
        assert begun(sleepy) - before == 1 + 3

    def test_a_look_that_failed_is_made_again(self) -> None:
        rig = Rig()
        here, sleepy = rig.engine(), rig.engine()
        take(sleepy, "r1", "ann")
        take(here, "r2", "bob")
        late = begin_waiting(sleepy, "r2", "ann", wait=60)
        rig.now = ALIVE
        begin_waiting(here, "r1", "bob", wait=60)
        sleepy.turn()
        rig.trouble = striking("begin", Unreachable("gone"), times=3)
        assert rig.until_answered(late, sleepy) < ALIVE + 10
        assert isinstance(late.outcome, Deadlock)

    def test_who_goes_on_waiting_at_another_engine_is_looked_at_there(self) -> None:
        rig = Rig()
        here, dead = rig.engine(), rig.engine()
        take(here, "r1", "ann")
        take(here, "r2", "bob")
        begin_waiting(dead, "r2", "ann", wait=60, request_id="q")
        rig.now = ALIVE
        waiting = begin_waiting(here, "r1", "bob", wait=60)
        moved = here.submit(acquire(here, "r2", "ann", wait=60, request_id="q"), "ann")
        here.turn()
        assert moved.outcome == Deadlock(("r2",), ("ann", "r2", "bob", "r1"))
        assert not waiting.is_done

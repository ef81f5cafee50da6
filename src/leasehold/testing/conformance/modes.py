"""Modes: one holder, many readers, or so many at a time (spec 3.1)."""

from __future__ import annotations

import pytest

from leasehold.domain.outcomes import Granted, Held
from leasehold.testing.conformance.asking import (
    LONG,
    Connect,
    at_once,
    expect,
    holders_of,
    leases_of,
    refused,
    release,
    take,
    wait_for,
    wrong,
)


class Modes:
    """Which leases go together."""

    def test_modes_exclusive_is_the_default(self, connect: Connect) -> None:
        """One holder at a time."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        granted = take(alice, "r")
        assert (granted.lease.mode, granted.lease.slots) == ("exclusive", 1)
        expect(Held, bob.acquire("r", ttl=LONG))
        release(alice, granted)
        take(bob, "r")

    def test_modes_exclusive_has_one_winner_among_many(self, connect: Connect) -> None:
        """However many try at the same moment, one gets it and all others learn which."""
        callers = [connect(holder=f"h{place}") for place in range(6)]
        answers = at_once(lambda locks: locks.acquire("r", ttl=LONG), callers)
        winners = [answer for answer in answers if isinstance(answer, Granted)]
        assert len(winners) == 1
        losers = [expect(Held, answer) for answer in answers if answer is not winners[0]]
        assert {blocker.holder for held in losers for blocker in held.blockers} == {winners[0].lease.holder}

    def test_modes_shared_go_together(self, connect: Connect) -> None:
        """Many readers, each with a lease of its own, and no writer."""
        alice, bob, writer = connect(holder="alice"), connect(holder="bob"), connect(holder="writer")
        leases = [take(alice, "r", mode="shared"), take(bob, "r", mode="shared"), take(bob, "r", mode="shared")]
        assert len({granted.lease.id for granted in leases}) == 3
        assert holders_of(writer, "r") == ["alice", "bob", "bob"]
        held = expect(Held, writer.acquire("r", ttl=LONG))
        assert {blocker.lease for blocker in held.blockers} == {granted.lease.id for granted in leases}
        for granted in leases:
            release(alice, granted)
        take(writer, "r")

    def test_modes_exclusive_keeps_readers_out(self, connect: Connect) -> None:
        """A writer is alone."""
        take(connect(holder="writer"), "r")
        expect(Held, connect(holder="reader").acquire("r", ttl=LONG, mode="shared"))

    def test_modes_exclusive_has_one_slot(self, connect: Connect) -> None:
        """An exclusive lease of several holders is a contradiction; without a mode, several slots are a semaphore."""
        locks = connect()
        refusal = wrong("slots", lambda: locks.acquire("r", ttl=LONG, mode="exclusive", slots=3))
        assert "leave slots out, or leave mode out" in str(refusal)
        wrong("slots", lambda: locks.acquire("r", ttl=LONG, mode="shared", slots=3))
        assert leases_of(locks) == ()
        assert take(locks, "r", mode="exclusive", slots=1).lease.mode == "exclusive"
        assert take(locks, "pool", slots=3).lease.mode == "slots"
        assert take(locks, "other", mode="slots", slots=3).lease.slots == 3

    def test_modes_slots_are_counted(self, connect: Connect) -> None:
        """As many holders as slots and no more; a holder that leaves makes room for one."""
        locks = connect()
        leases = [take(locks, "pool", slots=3, holder=f"h{place}") for place in range(3)]
        assert {(granted.lease.mode, granted.lease.slots) for granted in leases} == {("slots", 3)}
        held = expect(Held, locks.acquire("pool", ttl=LONG, slots=3, holder="late"))
        assert {blocker.holder for blocker in held.blockers} == {"h0", "h1", "h2"}
        release(locks, leases[1])
        take(locks, "pool", slots=3, holder="late")
        expect(Held, locks.acquire("pool", ttl=LONG, slots=3, holder="later"))

    def test_modes_slots_are_counted_among_many(self, connect: Connect) -> None:
        """However many try at the same moment, exactly so many get in."""
        callers = [connect(holder=f"h{place}") for place in range(6)]
        answers = at_once(lambda locks: locks.acquire("pool", ttl=LONG, slots=2), callers)
        assert sum(isinstance(answer, Granted) for answer in answers) == 2
        assert len(leases_of(callers[0], resource="pool")) == 2

    def test_modes_slots_waiters_come_in_one_by_one(self, connect: Connect) -> None:
        """A freed slot serves one waiter."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        first = take(alice, "pool", slots=2)
        take(alice, "pool", slots=2)
        one = wait_for(bob, "pool", slots=2)
        two = wait_for(carol, "pool", slots=2)
        release(alice, first)
        expect(Granted, one.answer())
        assert not two.is_over
        assert holders_of(alice, "pool") == ["alice", "bob"]

    @pytest.mark.parametrize("slots", [2, 4])
    def test_modes_slots_of_another_number_are_refused(self, connect: Connect, slots: int) -> None:
        """While it is held, everybody must mean the same number; afterwards another one is fine."""
        locks = connect()
        granted = take(locks, "pool", slots=3)
        refusal = refused(locks.acquire("pool", ttl=LONG, slots=slots), "slots_mismatch", "slots")
        assert "slots=3" in refusal.message
        release(locks, granted)
        take(locks, "pool", slots=slots)

    def test_modes_slots_of_another_number_are_only_one_choice(self, connect: Connect) -> None:
        """Of several choices one that is free is taken; none is if all are held with another number."""
        locks = connect()
        take(locks, "pool-1", slots=2)
        assert take(locks, ["pool-1", "pool-2"], any_of=True, slots=3).lease.resources == ("pool-2",)
        refused(locks.acquire(["pool-1", "pool-2"], ttl=LONG, any_of=True, slots=4), "slots_mismatch", "slots")

    def test_modes_slots_and_other_modes_exclude_each_other(self, connect: Connect) -> None:
        """A semaphore's holder keeps readers and writers out, and they keep it out."""
        locks = connect()
        pool = take(locks, "r", slots=2)
        expect(Held, locks.acquire("r", ttl=LONG))
        expect(Held, locks.acquire("r", ttl=LONG, mode="shared"))
        release(locks, pool)
        reader = take(locks, "r", mode="shared")
        expect(Held, locks.acquire("r", ttl=LONG, slots=2))
        release(locks, reader)
        take(locks, "r")
        expect(Held, locks.acquire("r", ttl=LONG, slots=2))

    def test_modes_a_semaphore_of_one(self, connect: Connect) -> None:
        """`mode="slots"` with one slot is a semaphore like any other."""
        locks = connect()
        assert take(locks, "r", mode="slots", slots=1).lease.mode == "slots"
        expect(Held, locks.acquire("r", ttl=LONG, mode="slots", slots=1))
        refused(locks.acquire("r", ttl=LONG, slots=2), "slots_mismatch", "slots")

    def test_modes_shared_has_no_slots(self, connect: Connect) -> None:
        """Both at once make no sense, and are refused."""
        locks = connect()
        wrong("slots", lambda: locks.acquire("r", ttl=LONG, mode="shared", slots=2))
        assert leases_of(locks) == ()

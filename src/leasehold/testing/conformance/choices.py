"""Choices: `any_of` takes the first that is free and says which (spec 3.2)."""

from __future__ import annotations

from leasehold.domain.outcomes import Granted, Held
from leasehold.testing.conformance.asking import (
    LONG,
    Connect,
    at_once,
    expect,
    leases_of,
    queue_of,
    release,
    take,
    wait_for,
)

POOL = ["staging-1", "staging-2", "staging-3"]


class Choices:
    """A pool of devices, staging slots, browser profiles."""

    def test_choices_take_the_first_that_is_free(self, connect: Connect) -> None:
        """In the order in which they were named; the lease covers that one only."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        assert take(alice, POOL, any_of=True).lease.resources == ("staging-1",)
        assert take(bob, POOL, any_of=True).lease.resources == ("staging-2",)
        assert take(bob, ["staging-1", "staging-3"], any_of=True).lease.resources == ("staging-3",)

    def test_choices_that_are_all_taken(self, connect: Connect) -> None:
        """The refusal tells who has each of them."""
        locks = connect()
        for name in POOL:
            take(locks, name, holder=f"user of {name}")
        held = expect(Held, locks.acquire(POOL, ttl=LONG, any_of=True))
        assert held.resources == tuple(POOL)
        assert {(each.resource, each.holder) for each in held.blockers} == {(name, f"user of {name}") for name in POOL}

    def test_choices_wait_for_whichever_is_free_first(self, connect: Connect) -> None:
        """One of them is taken, and every other queue is left."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        leases = {name: take(alice, name) for name in POOL}
        asking = wait_for(bob, POOL, any_of=True)
        assert [queue_of(alice, name) for name in POOL] == [["bob"]] * 3
        release(alice, leases["staging-2"])
        assert expect(Granted, asking.answer()).lease.resources == ("staging-2",)
        assert [queue_of(alice, name) for name in POOL] == [[]] * 3
        release(alice, leases["staging-1"])
        assert [lease.holder for lease in leases_of(alice, resource="staging-1")] == []

    def test_choices_by_many(self, connect: Connect) -> None:
        """However many ask at the same moment, each of the pool is given once."""
        callers = [connect(holder=f"h{place}") for place in range(5)]
        answers = at_once(lambda locks: locks.acquire(POOL, ttl=LONG, any_of=True), callers)
        taken = [answer.lease.resources for answer in answers if isinstance(answer, Granted)]
        assert sorted(taken) == [(name,) for name in POOL]

    def test_choices_that_overlap_wait_like_any_other(self, connect: Connect) -> None:
        """An alternative may be a directory."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        first, other = take(alice, "path:a/x"), take(alice, "path:b/x")
        asking = wait_for(bob, ["path:a", "path:b"], any_of=True)
        release(alice, other)
        granted = expect(Granted, asking.answer())
        assert granted.lease.resources == ("path:b",)
        release(bob, granted)
        release(alice, first)
        take(alice, "path:.")

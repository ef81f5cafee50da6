"""Several at once: all or nothing, in one atomic step (spec 3.2)."""

from __future__ import annotations

from leasehold.domain.outcomes import Granted, Held
from leasehold.testing.conformance.asking import (
    LONG,
    SHORT,
    Connect,
    at_once,
    expect,
    holders_of,
    inspection,
    leases_of,
    queue_of,
    release,
    take,
    until_free,
    wait_for,
    wrong,
)


class Several:
    """One lease on many resources."""

    def test_several_are_one_lease(self, connect: Connect) -> None:
        """One id, one fence, one token; each of the resources is held, and released with it."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        granted = take(alice, ["a", "b", "path:src/x"])
        assert granted.lease.resources == ("a", "b", "path:src/x")
        for resource in granted.lease.resources:
            assert inspection(bob, resource).leases == (granted.lease,)
            expect(Held, bob.acquire(resource, ttl=LONG))
        assert leases_of(bob) == leases_of(bob, resource="b") == (granted.lease,)
        release(alice, granted)
        take(bob, ["path:src/x", "b", "a"])

    def test_several_or_nothing(self, connect: Connect) -> None:
        """One that is not free is enough for nothing to be taken."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "b")
        held = expect(Held, bob.acquire(["a", "b", "c"], ttl=LONG))
        assert held.resources == ("a", "b", "c")
        assert [blocker.resource for blocker in held.blockers] == ["b"]
        assert leases_of(bob, holder="bob") == ()
        take(alice, ["a", "c"])

    def test_several_are_named_once(self, connect: Connect) -> None:
        """The same resource twice, or in two spellings, is one resource."""
        locks = connect()
        assert take(locks, ["a", "path:./x", "a", "path:x"]).lease.resources == ("a", "path:x")

    def test_several_may_overlap_each_other(self, connect: Connect) -> None:
        """A caller that takes a directory and a file in it is not in its own way."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        granted = take(alice, ["path:src/a.py", "path:src", "repo:all"])
        expect(Held, bob.acquire("path:src/b.py", ttl=LONG))
        release(alice, granted)
        take(bob, ["path:src", "path:src/a.py"])

    def test_several_held_by_nobody_while_one_waits(self, connect: Connect) -> None:
        """A waiting request holds nothing, and is served when the last of its resources is free."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        first, second = take(alice, "b"), take(alice, "c")
        asking = wait_for(bob, ["a", "b", "c"])
        assert inspection(alice, "a").leases == ()
        assert leases_of(alice, holder="bob") == ()
        assert queue_of(alice, "c") == ["bob"]
        release(alice, first)
        assert leases_of(alice, holder="bob") == ()
        release(alice, second)
        assert expect(Granted, asking.answer()).lease.resources == ("a", "b", "c")
        assert [queue_of(alice, each) for each in "abc"] == [[], [], []]

    def test_several_in_any_order_do_not_deadlock(self, connect: Connect) -> None:
        """Two that want the same two in opposite orders are simply served one after the other."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        both = take(alice, ["a", "b"])
        one = wait_for(bob, ["a", "b"])
        two = wait_for(carol, ["b", "a"])
        release(alice, both)
        release(bob, expect(Granted, one.answer()))
        expect(Granted, two.answer())

    def test_several_at_once_by_many(self, connect: Connect) -> None:
        """However many try pairs at the same moment, no resource is given twice."""
        pairs = [["a", "b"], ["b", "c"], ["c", "a"], ["b", "a"], ["d", "c"]]
        callers = [(connect(holder=f"h{place}"), pair) for place, pair in enumerate(pairs)]
        answers = at_once(lambda caller: caller[0].acquire(caller[1], ttl=LONG), callers)
        taken = [name for answer in answers if isinstance(answer, Granted) for name in answer.lease.resources]
        assert taken
        assert len(taken) == len(set(taken)), taken

    def test_several_expire_together(self, connect: Connect) -> None:
        """One TTL for all of them."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, ["a", "path:src/x"], ttl=SHORT)
        until_free(bob, "path:src/x")
        assert holders_of(bob, "a") == []
        take(bob, ["path:src", "a"])

    def test_several_are_renewed_together(self, connect: Connect) -> None:
        """A renewal reaches every resource of the lease."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        granted = take(alice, ["a", "path:src/x"], ttl=LONG)
        alice.renew(granted.lease.id, granted.token, ttl=2 * LONG)
        for resource in ("a", "path:src/x", "path:src"):
            held = expect(Held, bob.acquire(resource, ttl=LONG))
            assert held.blockers[0].until_us > granted.lease.expires_us

    def test_several_up_to_64(self, connect: Connect) -> None:
        """64 resources in one lease; one more is refused, with nothing taken."""
        locks = connect()
        names = [f"r{place}" for place in range(65)]
        wrong("resources", lambda: locks.acquire(names, ttl=LONG))
        assert leases_of(locks) == ()
        release(locks, take(locks, names[:64]))
        assert leases_of(locks) == ()

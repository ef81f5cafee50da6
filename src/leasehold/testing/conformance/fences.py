"""Fences: an integer that only ever grows; a later grant of a resource always has a larger one (spec 1, 6)."""

from __future__ import annotations

from leasehold.domain.outcomes import Granted, Refused
from leasehold.domain.timestamps import FOREVER
from leasehold.testing.conformance.asking import (
    LONG,
    SHORT,
    Connect,
    at_once,
    expect,
    leases_of,
    release,
    take,
    until_free,
    until_time_has_passed,
    wait_for,
)


class Fences:
    """Numbers by which a shared resource detects stale writers."""

    def test_fences_grow_with_each_grant(self, connect: Connect) -> None:
        """However the lease before it ended."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        fences = []
        for _ in range(3):
            granted = take(alice, "r")
            fences.append(granted.lease.fence)
            release(alice, granted)
        fences.append(take(alice, "r", ttl=SHORT).lease.fence)
        until_free(bob, "r")
        fences.append(take(bob, "r").lease.fence)
        bob.force_release("r", by="ops", reason="test")
        fences.append(take(alice, "r").lease.fence)
        fences.append(expect(Granted, bob.steal("r", ttl=LONG, by="ops", reason="test")).lease.fence)
        assert fences == sorted(set(fences))
        assert fences[0] > 0
        assert fences[-1] < FOREVER

    def test_fences_grow_for_who_waited(self, connect: Connect) -> None:
        """The waiter that is served has a larger one than the holder before it."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        held = take(alice, "r")
        asking = wait_for(bob, "r")
        release(alice, held)
        assert expect(Granted, asking.answer()).lease.fence > held.lease.fence

    def test_fences_grow_across_overlap(self, connect: Connect) -> None:
        """A file's lease after its directory's, and a directory's after a file's."""
        locks = connect()
        fences = []
        for name in ("path:src", "path:src/a", "path:.", "path:src/a/b", "repo:all", "path:src"):
            granted = take(locks, name)
            fences.append(granted.lease.fence)
            release(locks, granted)
        assert fences == sorted(set(fences))

    def test_fences_outlive_connections(self, connect: Connect) -> None:
        """Everything is released, everybody has left, nothing is stored: the next fence is larger all the same."""
        fences = []
        for _ in range(3):
            locks = connect(holder="alice")
            granted = take(locks, "r")
            fences.append(granted.lease.fence)
            release(locks, granted)
            assert leases_of(locks) == ()
            locks.close()
        assert fences == sorted(set(fences))

    def test_fences_outlive_collection(self, connect: Connect) -> None:
        """Sweeping away what has expired takes no fence with it."""
        locks = connect(holder="alice")
        fences = [take(locks, f"r{place}", ttl=SHORT).lease.fence for place in range(5)]
        until_time_has_passed(lambda: leases_of(locks) == (), "all of them have expired")
        for _ in range(2):
            assert not isinstance(locks.gc(), Refused)
        locks.close()
        fences.append(take(connect(holder="bob"), "r0").lease.fence)
        assert fences == sorted(set(fences))

    def test_fences_are_unique_among_many(self, connect: Connect) -> None:
        """Many connections, many resources, at the same moment."""
        callers = [connect(holder=f"h{place}") for place in range(4)]

        def work(place: int) -> list[int]:
            mine = []
            for turn in range(10):
                granted = take(callers[place], f"r{place}-{turn}")
                mine.append(granted.lease.fence)
                release(callers[place], granted)
            return mine

        each = at_once(work, range(4))
        assert all(mine == sorted(mine) for mine in each)
        assert len({fence for mine in each for fence in mine}) == 40

    def test_fences_stay_with_the_lease(self, connect: Connect) -> None:
        """A renewal, an update, a retry and a re-entrant acquire do not change it; readers each have their own."""
        locks = connect()
        granted = take(locks, "r", request_id="q")
        locks.renew(granted.lease.id, granted.token)
        locks.update(granted.lease.id, granted.token, context={})
        take(locks, "r", request_id="q")
        take(locks, "r", reentrant=True, token=granted.token)
        assert [lease.fence for lease in leases_of(locks)] == [granted.lease.fence]
        readers = [take(locks, "s", mode="shared").lease.fence for _ in range(3)]
        assert readers == sorted(set(readers))

"""Waiting: every wait ends in a lease, a timeout or a refusal; who is gone never ends up holding (spec 3.4)."""

from __future__ import annotations

import pytest

from leasehold.domain.outcomes import Granted, Held, TimedOut
from leasehold.errors import Closed
from leasehold.testing.conformance.asking import (
    LONG,
    PATIENCE,
    SHORT,
    Asking,
    Connect,
    at_once,
    expect,
    holders_of,
    leases_of,
    queue_of,
    release,
    take,
    until,
    wait_for,
)


class Waiting:
    """How a wait begins and how it ends."""

    def test_waiting_is_asked_for(self, connect: Connect) -> None:
        """`wait=0` answers at once, and leaves nothing in the queue."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "r")
        expect(Held, bob.acquire("r", ttl=LONG))
        expect(Held, bob.acquire("r", ttl=LONG, wait="0s"))
        assert queue_of(alice, "r") == []

    def test_waiting_for_what_is_free_is_no_wait(self, connect: Connect) -> None:
        """Granted at once."""
        take(connect(), "r", wait=PATIENCE)

    def test_waiting_ends_with_the_release(self, connect: Connect) -> None:
        """The next in the queue gets it, with a token that works."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        held = take(alice, "r")
        asking = wait_for(bob, "r", ttl="5m", name="deploy", reason="because", context={"a": 1})
        release(alice, held)
        granted = expect(Granted, asking.answer())
        assert (granted.lease.holder, granted.lease.name, granted.lease.reason) == ("bob", "deploy", "because")
        assert granted.lease.ttl_us == 300_000_000
        assert granted.lease.context == '{"a":1}'
        assert holders_of(alice, "r") == ["bob"]
        release(bob, granted)

    def test_waiting_times_out(self, connect: Connect) -> None:
        """A request that times out learns what is in the way, and leaves the queue."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        lease = take(alice, "r").lease
        timed_out = expect(TimedOut, bob.acquire("r", ttl=LONG, wait=SHORT))
        assert timed_out.resources == ("r",)
        assert [(each.holder, each.lease) for each in timed_out.blockers] == [("alice", lease.id)]
        assert queue_of(alice, "r") == []

    def test_waiting_that_timed_out_is_never_granted(self, connect: Connect) -> None:
        """A resource released afterwards is simply free."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        held = take(alice, "r")
        expect(TimedOut, bob.acquire("r", ttl=LONG, wait=SHORT))
        release(alice, held)
        assert leases_of(alice) == ()
        take(alice, "r")

    def test_waiting_in_several_queues_times_out_of_all(self, connect: Connect) -> None:
        """All or nothing, also of places."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "b")
        expect(TimedOut, bob.acquire(["a", "b", "path:src/x"], ttl=LONG, wait=SHORT))
        assert [queue_of(alice, each) for each in ("a", "b", "path:src/x", "path:src")] == [[], [], [], []]
        take(alice, ["a", "path:src"])

    def test_waiting_that_timed_out_lets_those_behind_go_on(self, connect: Connect) -> None:
        """A writer that gives up no longer keeps readers waiting behind it."""
        alice, writer, reader = connect(holder="alice"), connect(holder="writer"), connect(holder="reader")
        take(alice, "r", mode="shared")
        gives_up = wait_for(writer, "r", wait=2)
        asking: Asking[object] = Asking(lambda: reader.acquire("r", ttl=LONG, wait=PATIENCE, mode="shared"))
        expect(TimedOut, gives_up.answer())
        expect(Granted, asking.answer())

    def test_waiting_on_a_connection_that_is_closed(self, connect: Connect) -> None:
        """Its caller learns of it, leaves the queue, and never ends up holding."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        held = take(alice, "r")
        asking = wait_for(bob, "r")
        bob.close()
        with pytest.raises(Closed):
            asking.answer()
        until(lambda: queue_of(alice, "r") == [], "bob has left the queue")  # a server has yet to hear of it
        release(alice, held)
        assert leases_of(alice) == ()
        take(carol, "r")

    def test_waiting_by_many_on_one_connection(self, connect: Connect) -> None:
        """Each caller of a connection has its own place."""
        alice, shared = connect(holder="alice"), connect(holder="shared")
        held = take(alice, "r")
        asked = [wait_for(shared, "r", holder=f"h{place}") for place in range(4)]
        release(alice, held)
        for asking in asked:
            release(shared, expect(Granted, asking.answer()))
        assert leases_of(alice) == ()

    def test_waiting_by_a_holder_for_what_it_holds_itself(self, connect: Connect) -> None:
        """Without `reentrant`, the same holder waits like anybody else; its own release serves it."""
        locks = connect(holder="alice")
        first = take(locks, "r")
        expect(TimedOut, locks.acquire("r", ttl=LONG, wait=SHORT))
        asking = wait_for(locks, "r")
        release(locks, first)
        assert expect(Granted, asking.answer()).lease.fence > first.lease.fence

    def test_waiting_of_all_for_each_other_ends(self, connect: Connect) -> None:
        """Many callers, one resource: each gets it once, nobody is forgotten."""
        callers = [connect(holder=f"h{place}") for place in range(4)]
        fences: list[int] = []

        def work(place: int) -> None:
            locks = callers[place]
            for _ in range(5):
                granted = expect(Granted, locks.acquire("r", ttl=LONG, wait=PATIENCE))
                fences.append(granted.lease.fence)
                release(locks, granted)

        at_once(work, range(4))
        assert len(fences) == 20
        assert fences == sorted(fences), "a later grant has a larger fence"
        until(lambda: leases_of(callers[0]) == () and queue_of(callers[0], "r") == [], "nothing is left over")

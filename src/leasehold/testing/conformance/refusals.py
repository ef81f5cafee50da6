"""Refusals say what to do next: who is in the way, why, since and until when, and how long the queue is (spec 3.5)."""

from __future__ import annotations

from leasehold.domain.leases import Queue
from leasehold.domain.outcomes import Held, TimedOut
from leasehold.domain.sessions import SessionStarted
from leasehold.domain.timestamps import SECOND
from leasehold.testing.conformance.asking import LONG, SHORT, Connect, expect, inspection, take, wait_for
from leasehold.wire.sentences import sentence


class Refusals:
    """The answers to requests that were refused."""

    def test_refusals_tell_who_holds_it(self, connect: Connect) -> None:
        """The holder, its name and reason, since when and until when, and its fence."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        lease = take(alice, "deploy://api", name="release 1.2", reason="hotfix for #7", ttl=60).lease
        held = expect(Held, bob.acquire("deploy://api", ttl=LONG))
        assert held.resources == ("deploy://api",)
        (blocker,) = held.blockers
        assert (blocker.holder, blocker.name, blocker.reason) == ("alice", "release 1.2", "hotfix for #7")
        assert (blocker.since_us, blocker.until_us) == (lease.acquired_us, lease.expires_us)
        assert (blocker.resource, blocker.state, blocker.mode) == ("deploy://api", "held", "exclusive")
        assert (blocker.lease, blocker.fence) == (lease.id, lease.fence)

    def test_refusals_tell_the_queue(self, connect: Connect) -> None:
        """How many wait, and which place the asker would have."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        take(alice, "r")
        assert expect(Held, bob.acquire("r", ttl=LONG)).queue == Queue(length=1, position=1)
        wait_for(bob, "r")
        assert expect(Held, carol.acquire("r", ttl=LONG)).queue == Queue(length=2, position=2)
        assert expect(Held, carol.acquire("r", ttl=LONG, priority=1)).queue == Queue(length=2, position=1)

    def test_refusals_tell_who_waits_ahead(self, connect: Connect) -> None:
        """After the holders come those in the queue, with what they want it for."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        take(alice, "r")
        wait_for(bob, "r", name="migration", reason="big")
        held = expect(Held, carol.acquire("r", ttl=LONG))
        told = [(each.holder, each.state, each.name, each.reason) for each in held.blockers]
        assert told == [("alice", "held", None, None), ("bob", "waiting", "migration", "big")]

    def test_refusals_tell_when_to_try_again(self, connect: Connect) -> None:
        """When the first of those in the way ends, but never later than half a minute."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "soon", ttl=20)
        take(alice, "late", ttl="10h")
        assert 0 < expect(Held, bob.acquire("soon", ttl=LONG)).retry_us <= 20 * SECOND
        assert expect(Held, bob.acquire("late", ttl=LONG)).retry_us == 30 * SECOND

    def test_refusals_tell_no_end_of_a_lease_that_a_session_renews(self, connect: Connect) -> None:
        """Each heartbeat moves the time at which it expires, so that is neither told in words nor when to try again."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        session = expect(SessionStarted, alice.start_session(ttl=20))
        take(alice, "r", session=session.secret)
        held = expect(Held, bob.acquire("r", ttl=LONG))
        (blocker,) = held.blockers
        assert blocker.session == session.session.session
        assert held.retry_us == 30 * SECOND
        assert "held by alice, renewed while its session lives; " in sentence(held)
        assert "at most" not in sentence(held)
        timed_out = expect(TimedOut, bob.acquire("r", ttl=LONG, wait=SHORT))
        assert timed_out.retry_us == 30 * SECOND
        assert "renewed while its session lives" in sentence(timed_out)

    def test_refusals_after_a_wait_tell_the_same(self, connect: Connect) -> None:
        """A timeout is as helpful as a refusal at once."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        lease = take(alice, "r", name="n", reason="why").lease
        timed_out = expect(TimedOut, bob.acquire("r", ttl=LONG, wait=SHORT))
        (blocker,) = timed_out.blockers
        assert (blocker.holder, blocker.name, blocker.reason, blocker.lease) == ("alice", "n", "why", lease.id)
        assert timed_out.queue.position == 1
        assert timed_out.retry_us > 0

    def test_refusals_name_what_is_really_in_the_way(self, connect: Connect) -> None:
        """Of several that were asked for, those that are not free; of a tree, the lease that overlaps."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "path:src/a")
        take(alice, "x")
        take(bob, "y")
        held = expect(Held, bob.acquire(["free", "path:src", "x"], ttl=LONG))
        assert sorted(each.resource for each in held.blockers) == ["path:src/a", "x"]
        take(alice, ["path:one", "path:two"])
        (blocker,) = expect(Held, bob.acquire("path:two/b", ttl=LONG)).blockers
        assert blocker.resource == "path:two"

    def test_refusals_name_a_few_of_many(self, connect: Connect) -> None:
        """Of a hundred readers not every one is listed."""
        locks = connect()
        for place in range(20):
            take(locks, "r", mode="shared", holder=f"reader {place}")
        held = expect(Held, locks.acquire("r", ttl=LONG))
        assert 1 <= len(held.blockers) < 20

    def test_refusals_never_tell_a_secret(self, connect: Connect) -> None:
        """Neither a refusal nor an inspection nor a list gives away a token."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        granted = take(alice, "r")
        told = repr((bob.acquire("r", ttl=LONG), inspection(bob, "r"), bob.list(), bob.history()))
        assert granted.lease.id in told
        assert granted.token
        assert granted.token not in told

    def test_refusals_change_nothing(self, connect: Connect) -> None:
        """However often a request is refused, the lease and the queue are what they were."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "r")
        before = inspection(alice, "r")._replace(now_us=0)
        for _ in range(5):
            expect(Held, bob.acquire("r", ttl=LONG))
        assert inspection(alice, "r")._replace(now_us=0) == before

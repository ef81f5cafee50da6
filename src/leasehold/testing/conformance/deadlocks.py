"""Deadlocks: a wait that would never end is refused at once, with the cycle, to exactly one victim (spec 5)."""

from __future__ import annotations

from leasehold.domain.outcomes import Deadlock, Granted, TimedOut
from leasehold.domain.sessions import SessionStarted
from leasehold.testing.conformance.asking import (
    LONG,
    PATIENCE,
    SHORT,
    Connect,
    at_once,
    expect,
    queue_of,
    release,
    take,
    take_once_free,
    wait_for,
)


class Deadlocks:
    """Cycles of requests that wait for each other."""

    def test_deadlocks_of_two(self, connect: Connect) -> None:
        """The second to wait receives the cycle; the first is served once that one gives up."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "a")
        b = take(bob, "b")
        first = wait_for(alice, "b")
        deadlock = expect(Deadlock, bob.acquire("a", ttl=LONG, wait=PATIENCE))
        assert deadlock.resources == ("a",)
        assert deadlock.cycle == ("bob", "a", "alice", "b")
        assert not first.is_over
        assert queue_of(bob, "a") == []
        release(bob, b)
        expect(Granted, first.answer())

    def test_deadlocks_of_three(self, connect: Connect) -> None:
        """A longer cycle is found as well, and tells every step."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        take(alice, "a")
        b = take(bob, "b")
        c = take(carol, "c")
        one, two = wait_for(alice, "b"), wait_for(bob, "c")
        deadlock = expect(Deadlock, carol.acquire("a", ttl=LONG, wait=PATIENCE))
        assert deadlock.cycle == ("carol", "a", "alice", "b", "bob", "c")
        release(carol, c)
        expect(Granted, two.answer())
        release(bob, b)
        expect(Granted, one.answer())

    def test_deadlocks_have_one_victim(self, connect: Connect) -> None:
        """Both want the other's at the same moment: one is refused, the other is served."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        mine = {"alice": take(alice, "a"), "bob": take(bob, "b")}

        def want(locks_holder: str) -> object:
            locks, wanted = (alice, "b") if locks_holder == "alice" else (bob, "a")
            outcome = locks.acquire(wanted, ttl=LONG, wait=PATIENCE)
            if isinstance(outcome, Deadlock):
                release(locks, mine[locks_holder])
            return outcome

        kinds = sorted(type(answer).__name__ for answer in at_once(want, mine))
        assert kinds == ["Deadlock", "Granted"]

    def test_deadlocks_do_not_name_bystanders_as_victims(self, connect: Connect) -> None:
        """A waiter that merely stands behind others is not part of any cycle."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        take(alice, "a")
        take(carol, "mine")
        wait_for(bob, "a")
        assert not wait_for(carol, "a").is_over

    def test_deadlocks_by_overlap(self, connect: Connect) -> None:
        """A directory and a file in it are in each other's way."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "path:src/a")
        take(bob, "path:docs/b")
        wait_for(alice, "path:docs")
        deadlock = expect(Deadlock, bob.acquire("path:src", ttl=LONG, wait=PATIENCE))
        assert deadlock.cycle[0] == "bob"
        assert deadlock.cycle[2] == "alice"

    def test_deadlocks_of_two_readers_that_want_to_write(self, connect: Connect) -> None:
        """Each keeps the other from writing."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "r", mode="shared")
        mine = take(bob, "r", mode="shared")
        first = wait_for(alice, "r")
        expect(Deadlock, bob.acquire("r", ttl=LONG, wait=PATIENCE))
        release(bob, mine)
        assert not first.is_over  # alice's own reading lease is in the way: without `reentrant` she waits for herself

    def test_deadlocks_through_the_queue(self, connect: Connect) -> None:
        """A waiter further ahead is in the way, too."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        take(alice, "a", mode="shared")
        take(carol, "c")
        wait_for(bob, "a")
        wait_for(alice, "c")
        deadlock = expect(Deadlock, carol.acquire("a", ttl=LONG, wait=PATIENCE, mode="shared"))
        assert deadlock.cycle == ("carol", "a", "bob", "a", "alice", "c")

    def test_deadlocks_are_not_seen_where_one_waits_for_oneself(self, connect: Connect) -> None:
        """A holder that waits for its own lease may release it from elsewhere: it waits, and times out."""
        alice = connect(holder="alice")
        take(alice, "r")
        expect(TimedOut, alice.acquire("r", ttl=LONG, wait=SHORT))

    def test_deadlocks_of_a_choice_need_every_way_out_blocked(self, connect: Connect) -> None:
        """One alternative that may become free is enough to wait for."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        take(alice, "a")
        take(bob, "b")
        other = take(carol, "c")
        wait_for(alice, "b")
        asking = wait_for(bob, ["a", "c"], any_of=True)
        release(carol, other)
        assert expect(Granted, asking.answer()).lease.resources == ("c",)

    def test_deadlocks_of_a_choice_without_a_way_out(self, connect: Connect) -> None:
        """All alternatives lead back: there is nothing to wait for."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        take(alice, "a")
        take(bob, "b")
        take(carol, "c")
        wait_for(alice, "b")
        wait_for(carol, "b")
        deadlock = expect(Deadlock, bob.acquire(["a", "c"], ttl=LONG, wait=PATIENCE, any_of=True))
        assert deadlock.resources == ("a", "c")

    def test_deadlocks_of_slots_need_every_slot_blocked(self, connect: Connect) -> None:
        """One holder of a slot that is not stuck is enough to wait for."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        take(alice, "pool", slots=2)
        free = take(carol, "pool", slots=2)
        take(bob, "b")
        wait_for(alice, "b")
        asking = wait_for(bob, "pool", slots=2)
        release(carol, free)
        expect(Granted, asking.answer())

    def test_deadlocks_of_slots_that_are_all_stuck(self, connect: Connect) -> None:
        """Every holder of a slot waits for the one that asks."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        take(alice, "pool", slots=2)
        take(carol, "pool", slots=2)
        take(bob, "b")
        wait_for(alice, "b")
        wait_for(carol, "b")
        expect(Deadlock, bob.acquire("pool", ttl=LONG, wait=PATIENCE, slots=2))

    def test_deadlocks_of_several_at_once(self, connect: Connect) -> None:
        """One of many that is out of reach is enough."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "a")
        take(bob, "b")
        wait_for(alice, ["x", "b"])
        deadlock = expect(Deadlock, bob.acquire(["y", "a"], ttl=LONG, wait=PATIENCE))
        assert deadlock.cycle == ("bob", "a", "alice", "b")

    def test_deadlocks_end_with_the_wait(self, connect: Connect) -> None:
        """A wait that was given up is no edge any more."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "a")
        take(bob, "b")
        expect(TimedOut, alice.acquire("b", ttl=LONG, wait=SHORT))
        expect(TimedOut, bob.acquire("a", ttl=LONG, wait=SHORT))

    def test_deadlocks_end_with_the_hold(self, connect: Connect) -> None:
        """An expired lease is no edge: a waiter gets what the other has lost."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        a = take(alice, "a")
        take(bob, "b")
        first = wait_for(alice, "b")
        alice.renew(a.lease.id, a.token, ttl=SHORT)
        take_once_free(bob, "a")
        assert not first.is_over

    def test_deadlocks_belong_to_sessions(self, connect: Connect) -> None:
        """Two sessions of one holder are two agents."""
        alice = connect(holder="alice")
        started = [alice.start_session(ttl=LONG, session=name) for name in ("one.x", "two.y")]
        secrets = [expect(SessionStarted, each).secret for each in started]
        take(alice, "a", session=secrets[0])
        take(alice, "b", session=secrets[1])
        wait_for(alice, "b", session=secrets[0])
        expect(Deadlock, alice.acquire("a", ttl=LONG, wait=PATIENCE, session=secrets[1]))

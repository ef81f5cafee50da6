"""Intents: agents that only poll are seen in a deadlock, and one that moved on is no phantom (spec 5)."""

from __future__ import annotations

from leasehold.domain.outcomes import Deadlock, Held
from leasehold.domain.sessions import SessionStarted
from leasehold.testing.conformance.asking import (
    LONG,
    PATIENCE,
    SHORT,
    Connect,
    expect,
    release,
    take,
    until_free,
    wait_for,
)


class Intents:
    """A refused try that counts as waiting for a while."""

    def test_intents_of_two_that_poll(self, connect: Connect) -> None:
        """The example of the agents' tools: each holds one issue and tries for the other's."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "github://acme/app/issues/1")
        take(bob, "github://acme/app/issues/2")
        expect(Held, alice.acquire("github://acme/app/issues/2", ttl=LONG, intent=True))
        deadlock = expect(Deadlock, bob.acquire("github://acme/app/issues/1", ttl=LONG, intent=True))
        assert deadlock.cycle == ("bob", "github://acme/app/issues/1", "alice", "github://acme/app/issues/2")

    def test_intents_meet_waits(self, connect: Connect) -> None:
        """A waiting request closes a cycle with a polling one, and the other way round."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "a")
        b = take(bob, "b")
        expect(Held, alice.acquire("b", ttl=LONG, intent=True))
        expect(Deadlock, bob.acquire("a", ttl=LONG, wait=PATIENCE))
        asking = wait_for(alice, "b")
        expect(Deadlock, bob.acquire("a", ttl=LONG, intent=True))
        release(bob, b)
        asking.answer()

    def test_intents_must_be_asked_for(self, connect: Connect) -> None:
        """A plain try leaves no trace."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "a")
        take(bob, "b")
        expect(Held, alice.acquire("b", ttl=LONG))
        expect(Held, bob.acquire("a", ttl=LONG, intent=True))
        expect(Held, alice.acquire("b", ttl=LONG))

    def test_intents_end_when_the_agent_gets_something_else(self, connect: Connect) -> None:
        """It moved on: no request is in a deadlock with it."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "a")
        take(bob, "b")
        expect(Held, alice.acquire("b", ttl=LONG, intent=True))
        take(alice, "c", intent=True)
        expect(Held, bob.acquire("a", ttl=LONG, intent=True))

    def test_intents_end_when_the_agent_tries_something_else(self, connect: Connect) -> None:
        """Only the last refused try counts."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        take(alice, "a")
        take(bob, "b")
        take(carol, "c")
        expect(Held, alice.acquire("b", ttl=LONG, intent=True))
        expect(Held, alice.acquire("c", ttl=LONG, intent=True))
        expect(Held, bob.acquire("a", ttl=LONG, intent=True))

    def test_intents_end_when_the_agent_gives_up_what_it_held(self, connect: Connect) -> None:
        """Then it is in nobody's way."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        a = take(alice, "a")
        take(bob, "b")
        expect(Held, alice.acquire("b", ttl=LONG, intent=True))
        release(alice, a)
        take(carol, "a")
        expect(Held, bob.acquire("a", ttl=LONG, intent=True))

    def test_intents_end_with_the_session(self, connect: Connect) -> None:
        """An agent that ended wants nothing any more, and holds nothing."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        secret = expect(SessionStarted, alice.start_session(ttl=LONG)).secret
        take(alice, "a", session=secret)
        take(bob, "b")
        expect(Held, alice.acquire("b", ttl=LONG, intent=True, session=secret))
        alice.end_session(secret)
        take(bob, "a", intent=True)

    def test_intents_of_who_lost_its_lease(self, connect: Connect) -> None:
        """Expired edges never count: what alice has lost is bob's for the asking."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "a", ttl=SHORT)
        take(bob, "b")
        expect(Held, alice.acquire("b", ttl=LONG, intent=True))
        until_free(bob, "a")
        take(bob, "a", intent=True)

    def test_intents_for_what_has_expired_meanwhile(self, connect: Connect) -> None:
        """Nor does a wish for something that its holder has lost since, though nobody has taken it."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        a = take(alice, "a")
        take(alice, "kept")
        take(bob, "b")
        expect(Held, bob.acquire(["a", "kept"], ttl=LONG, any_of=True, intent=True))
        alice.renew(a.lease.id, a.token, ttl=SHORT)
        until_free(bob, "a")
        expect(Held, alice.acquire("b", ttl=LONG, intent=True))

    def test_intents_end_with_the_deadlock(self, connect: Connect) -> None:
        """The victim was refused; as long as it does not try again, the other may go on trying."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "a")
        take(bob, "b")
        expect(Held, alice.acquire("b", ttl=LONG, intent=True))
        expect(Deadlock, bob.acquire("a", ttl=LONG, intent=True))
        expect(Held, alice.acquire("b", ttl=LONG, intent=True))
        expect(Deadlock, bob.acquire("a", ttl=LONG, intent=True))

    def test_intents_take_no_place_in_the_queue(self, connect: Connect) -> None:
        """A polling caller keeps no other out: the next caller gets a free resource."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        held = take(alice, "r")
        expect(Held, bob.acquire("r", ttl=LONG, intent=True))
        release(alice, held)
        take(carol, "r")

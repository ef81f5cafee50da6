"""Cancelling: a request that was withdrawn can never be granted, not even a delayed copy of it (spec 3.6)."""

from __future__ import annotations

from leasehold.domain.keys import secret_hash
from leasehold.domain.outcomes import Cancelled, Granted, Lost
from leasehold.domain.sessions import SessionStarted
from leasehold.testing.conformance.asking import (
    LONG,
    Connect,
    expect,
    leases_of,
    queue_of,
    refused,
    release,
    take,
    wait_for,
)


class Cancelling:
    """Withdrawing a request by its id."""

    def test_cancelling_before_it_arrives(self, connect: Connect) -> None:
        """The cancel may overtake the request: the request is then refused, for good."""
        alice, other = connect(holder="alice"), connect(holder="alice")
        assert expect(Cancelled, alice.cancel("q1")).was == "unknown"
        for locks in (alice, other):
            refused(locks.acquire("r", ttl=LONG, request_id="q1"), "cancelled", "request_id")
        assert leases_of(alice) == ()

    def test_cancelling_a_wait(self, connect: Connect) -> None:
        """It leaves the queue, its caller learns of it, and the next is served in its place."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        held = take(alice, "r")
        first = wait_for(bob, "r", request_id="q1")
        second = wait_for(carol, "r")
        assert expect(Cancelled, bob.cancel("q1")).was == "waiting"
        refused(first.answer(), "cancelled", "request_id")
        assert queue_of(alice, "r") == ["carol"]
        release(alice, held)
        expect(Granted, second.answer())

    def test_cancelling_a_wait_from_elsewhere(self, connect: Connect) -> None:
        """Another connection of the same holder can do it; the waiting caller learns of it all the same."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        held = take(alice, "r")
        asking = wait_for(bob, "r", request_id="q1")
        assert expect(Cancelled, connect(holder="bob").cancel("q1")).was == "waiting"
        refused(asking.answer(), "cancelled", "request_id")
        release(alice, held)
        assert leases_of(alice) == ()

    def test_cancelling_what_was_granted(self, connect: Connect) -> None:
        """The lease is released, and its token is worth nothing any more."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        granted = take(alice, "r", request_id="q1")
        asking = wait_for(bob, "r")
        assert expect(Cancelled, alice.cancel("q1", granted.token)).was == "granted"
        expect(Granted, asking.answer())
        expect(Lost, alice.renew(granted.lease.id, granted.token))
        refused(alice.acquire("other", ttl=LONG, request_id="q1"), "cancelled", "request_id")

    def test_cancelling_what_was_granted_takes_its_token(self, connect: Connect) -> None:
        """A holder and a request_id can be guessed. A refusal changes nothing, and says how to get the token."""
        alice, guesser, other = connect(holder="alice"), connect(holder="alice"), connect(holder="bob")
        granted = take(alice, "r", request_id="q1")
        foreign = take(other, "other", request_id="q1")
        for token in (None, "0" * 32, foreign.token):
            refusal = refused(guesser.cancel("q1", token), "not_allowed", "token")
            assert "same request_id" in refusal.message
        assert set(leases_of(alice)) == {granted.lease, foreign.lease}
        again = take(alice, "r", request_id="q1")
        assert again.lease.id == granted.lease.id
        assert alice.release(again.lease.id, again.token, status="cancelled")
        assert expect(Cancelled, alice.cancel("q1")).was == "unknown"
        refused(alice.acquire("r", ttl=LONG, request_id="q1"), "cancelled", "request_id")

    def test_cancelling_takes_the_secret_of_a_drawn_request_id(self, connect: Connect) -> None:
        """A client that could not read the answer to its acquire knows from which secret it drew the request_id."""
        alice, guesser = connect(holder="alice"), connect(holder="alice")
        secret = "abcdef" * 4
        drawn = secret_hash(secret)
        take(alice, "r", request_id=drawn)
        for guess in (None, drawn, secret_hash(drawn), "0" * 32):
            refused(guesser.cancel(drawn, guess), "not_allowed", "token")
        assert expect(Cancelled, alice.cancel(drawn, secret)).was == "granted"
        assert leases_of(alice) == ()
        refused(alice.acquire("r", ttl=LONG, request_id=drawn), "cancelled", "request_id")

    def test_cancelling_again_changes_nothing(self, connect: Connect) -> None:
        """Idempotent; and nobody who took the resource meanwhile is touched."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        token = take(alice, "r", request_id="q1").token
        alice.cancel("q1", token)
        lease = take(bob, "r").lease
        for shown in (token, None):
            assert expect(Cancelled, alice.cancel("q1", shown)).was == "unknown"
        assert leases_of(alice) == (lease,)

    def test_cancelling_touches_only_ones_own(self, connect: Connect) -> None:
        """Another holder's request of the same id, and in another space, goes on."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        lease = take(alice, "r", request_id="q1").lease
        assert expect(Cancelled, bob.cancel("q1")).was == "unknown"
        assert expect(Cancelled, alice.cancel("q1", space="elsewhere")).was == "unknown"
        assert leases_of(bob) == (lease,)

    def test_cancelling_for_a_session_takes_its_secret(self, connect: Connect) -> None:
        """Its id, which everybody can see, is not enough."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        session = expect(SessionStarted, alice.start_session(ttl=LONG))
        lease = take(alice, "r", session=session.secret, request_id="q1").lease
        forged = f"{session.session.session}.{'0' * 32}"
        refused(bob.cancel("q1", session=forged), "not_allowed", "session")
        refused(bob.cancel("q2", session=forged), "not_allowed", "session")
        assert leases_of(bob) == (lease,)
        assert expect(Cancelled, alice.cancel("q1", session=session.secret)).was == "granted"
        take(alice, "r", session=session.secret, request_id="q2")

    def test_cancelling_one_of_several_waits(self, connect: Connect) -> None:
        """The others of the same holder stay where they are."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        held = take(alice, ["a", "b"])
        gone = wait_for(bob, ["a", "b"], request_id="q1")
        stays = wait_for(bob, "b", request_id="q2")
        bob.cancel("q1")
        refused(gone.answer(), "cancelled", "request_id")
        assert (queue_of(alice, "a"), queue_of(alice, "b")) == ([], ["bob"])
        release(alice, held)
        assert expect(Granted, stays.answer()).lease.resources == ("b",)

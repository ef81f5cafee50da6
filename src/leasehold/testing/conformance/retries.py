"""Retries are safe: the same request_id from the same holder is the same request (spec 3.6)."""

from __future__ import annotations

from leasehold.domain.outcomes import Granted, Held, TimedOut
from leasehold.testing.conformance.asking import (
    LONG,
    PATIENCE,
    SHORT,
    Asking,
    Connect,
    at_once,
    expect,
    leases_of,
    queue_of,
    refused,
    release,
    take,
    until_time_has_passed,
    wait_for,
)


class Retries:
    """A request that is made again, because its answer was lost."""

    def test_retries_get_the_same_lease(self, connect: Connect) -> None:
        """The same id and fence; both answers' tokens work; no answer says that it is new."""
        first = take(connect(holder="alice"), "r", request_id="q1")
        again = connect(holder="alice")
        second = take(again, "r", request_id="q1")
        assert (second.lease.id, second.lease.fence) == (first.lease.id, first.lease.fence)
        assert second.lease.acquired_us == first.lease.acquired_us
        assert (first.fresh, second.fresh) == (True, False)
        assert second.token != first.token
        again.renew(first.lease.id, first.token)
        release(again, second)
        assert leases_of(again) == ()

    def test_retries_of_many_at_once_are_one_request(self, connect: Connect) -> None:
        """However many copies arrive at the same moment, there is one lease."""
        callers = [connect(holder="alice") for _ in range(5)]
        answers = at_once(lambda locks: locks.acquire("r", ttl=LONG, request_id="q1"), callers)
        leases = {expect(Granted, answer).lease.id for answer in answers}
        assert len(leases) == len(leases_of(callers[0])) == 1

    def test_retries_belong_to_a_holder(self, connect: Connect) -> None:
        """A request of another holder with the same id is another request."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "r", request_id="q1")
        expect(Held, bob.acquire("r", ttl=LONG, request_id="q1"))
        take(bob, "other", request_id="q1")

    def test_retries_after_a_refusal_try_again(self, connect: Connect) -> None:
        """A refusal leaves nothing behind: the same id can get it later."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        held = take(alice, "r")
        expect(Held, bob.acquire("r", ttl=LONG, request_id="q1"))
        release(alice, held)
        take(bob, "r", request_id="q1")

    def test_retries_while_waiting_keep_the_place(self, connect: Connect) -> None:
        """Asked again by another connection, it is still one place in the queue and becomes one lease."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        held = take(alice, "r")
        first = wait_for(bob, "r", request_id="q1")
        other = wait_for(connect(holder="carol"), "r")
        second = Asking(lambda: connect(holder="bob").acquire("r", ttl=LONG, wait=PATIENCE, request_id="q1"))
        assert queue_of(alice, "r") == ["bob", "carol"]
        release(alice, held)
        answers = [expect(Granted, first.answer()), expect(Granted, second.answer())]
        assert len({answer.lease.id for answer in answers}) == 1
        assert not other.is_over
        release(alice, answers[1])
        expect(Granted, other.answer())

    def test_retries_of_what_is_over_are_refused(self, connect: Connect) -> None:
        """A late copy of a request whose lease is gone gets no second lease."""
        alice = connect(holder="alice")
        release(alice, take(alice, "r", request_id="q1"))
        assert "released" in refused(alice.acquire("r", ttl=LONG, request_id="q1"), "spent", "request_id").message
        take(alice, "r", ttl=SHORT, request_id="q2")
        until_time_has_passed(lambda: leases_of(alice) == (), "the lease has expired")
        assert "expired" in refused(alice.acquire("r", ttl=SHORT, request_id="q2"), "spent", "request_id").message
        assert leases_of(alice) == ()

    def test_retries_of_what_timed_out_are_refused(self, connect: Connect) -> None:
        """A late copy of a request that waited in vain is not served."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        held = take(alice, "r")
        expect(TimedOut, bob.acquire("r", ttl=LONG, wait=SHORT, request_id="q1"))
        release(alice, held)
        refused(bob.acquire("r", ttl=LONG, request_id="q1"), "spent", "request_id")
        assert leases_of(bob) == ()

    def test_retries_must_ask_for_the_same(self, connect: Connect) -> None:
        """An id that was used for something else is refused, and both leases are what they were."""
        alice = connect(holder="alice")
        granted = take(alice, "r", request_id="q1")
        refused(alice.acquire("other", ttl=LONG, request_id="q1"), "conflict", "request_id")
        assert leases_of(alice) == (granted.lease,)

    def test_retries_that_ask_for_other_slots(self, connect: Connect) -> None:
        """No answer says one of three places for one of two; nor does the request wait for one."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        granted = take(alice, "r", slots=2, request_id="q1")
        refused(alice.acquire("r", ttl=LONG, slots=3, request_id="q1"), "conflict", "request_id")
        assert leases_of(alice) == (granted.lease,)
        take(alice, "r", slots=2)
        asking = wait_for(bob, "r", slots=2, request_id="q1")
        refused(bob.acquire("r", ttl=LONG, slots=3, wait=PATIENCE, request_id="q1"), "conflict", "request_id")
        release(alice, granted)
        expect(Granted, asking.answer())

    def test_retries_of_a_choice_get_what_was_chosen(self, connect: Connect) -> None:
        """Also when another one would be free by now."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        first = take(bob, "a")
        chosen = take(alice, ["a", "b"], any_of=True, request_id="q1").lease
        release(bob, first)
        assert take(alice, ["a", "b"], any_of=True, request_id="q1").lease == chosen
        assert chosen.resources == ("b",)

    def test_retries_do_not_extend(self, connect: Connect) -> None:
        """A copy of a request is not a renewal."""
        alice = connect(holder="alice")
        first = take(alice, "r", request_id="q1", ttl=60).lease
        assert take(alice, "r", request_id="q1", ttl=60).lease.expires_us == first.expires_us

"""The same holder again: with `reentrant` and proof it gets its own lease back, extended (spec 3.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasehold.domain.outcomes import Deadlock, Granted, Held, Released, Renewed
from leasehold.domain.sessions import SessionStarted
from leasehold.testing.conformance.asking import (
    LONG,
    PATIENCE,
    SHORT,
    Connect,
    expect,
    leases_of,
    queue_of,
    release,
    take,
    until_time_has_passed,
    wait_for,
    wrong,
)

if TYPE_CHECKING:
    from typing import Any

MADE_UP = "made up"


class Reentrant:
    """A holder that asks for what it has, and one that only has its name."""

    def test_reentrant_must_be_asked_for(self, connect: Connect) -> None:
        """By default a second acquire is refused; a token makes the refusal say that the lease is the caller's own."""
        alice = connect(holder="alice")
        first = take(alice, "r")
        held = expect(Held, alice.acquire("r", ttl=LONG))
        assert [(blocker.holder, blocker.yours) for blocker in held.blockers] == [("alice", False)]
        held = expect(Held, alice.acquire("r", ttl=LONG, token=first.token))
        assert [(blocker.holder, blocker.yours) for blocker in held.blockers] == [("alice", True)]
        expect(Held, alice.acquire("r", ttl=LONG, token=MADE_UP))

    def test_reentrant_is_never_for_a_name(self, connect: Connect) -> None:
        """Two processes may go by one name: only a token or a session's secret tells that they are one."""
        take(connect(holder="alice"), "r", reentrant=True)
        expect(Held, connect(holder="alice").acquire("r", ttl=LONG, reentrant=True))
        expect(Held, connect(holder="alice").acquire("r", ttl=LONG, reentrant=True, token=MADE_UP))

    def test_reentrant_gives_the_same_lease_extended(self, connect: Connect) -> None:
        """The same id, fence and `acquired_at`; a full new TTL; both tokens work."""
        first = take(connect(holder="alice"), "r", ttl=60)
        again = connect(holder="alice")
        second = take(again, "r", ttl=120, reentrant=True, token=first.token)
        assert (first.fresh, second.fresh) == (True, False)
        assert (second.lease.id, second.lease.fence) == (first.lease.id, first.lease.fence)
        assert second.lease.acquired_us == first.lease.acquired_us
        assert second.lease.expires_us > first.lease.expires_us
        assert second.lease.ttl_us == 2 * first.lease.ttl_us
        again.renew(first.lease.id, first.token)
        release(again, second)
        assert leases_of(again) == ()

    def test_reentrant_many_times_leaves_every_token_valid(self, connect: Connect) -> None:
        """However deep the nesting, each taker on the way can still renew it."""
        alice = connect(holder="alice")
        taken = [take(alice, "r")]
        taken += [take(alice, "r", reentrant=True, token=taken[0].token) for _ in range(20)]
        for each in taken:
            expect(Renewed, alice.renew(each.lease.id, each.token))

    def test_reentrant_never_takes_time_away(self, connect: Connect) -> None:
        """A taker that asks again for a shorter time, or for none in particular, keeps its TTL."""
        alice = connect(holder="alice")
        first = take(alice, "r", ttl=7200)
        second = take(alice, "r", ttl=1800, reentrant=True, token=first.token)
        assert (second.lease.id, second.lease.ttl_us) == (first.lease.id, first.lease.ttl_us)
        assert second.lease.expires_us > first.lease.expires_us

    def test_reentrant_applies_what_is_said_anew(self, connect: Connect) -> None:
        """The name, the reason and the context; what is left out stays as it was."""
        alice = connect(holder="alice")
        first = take(alice, "r", name="build", reason="ci", context={"step": 1})
        second = take(alice, "r", name="test", context={"step": 2}, reentrant=True, token=first.token)
        assert (second.lease.name, second.lease.reason, second.lease.context) == ("test", "ci", '{"step":2}')
        assert second.unapplied == ()
        assert [lease.name for lease in leases_of(alice)] == ["test"]

    def test_reentrant_tells_what_it_does_not_apply(self, connect: Connect) -> None:
        """Only a new lease could have them."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        first = take(alice, "r", grace=1)
        assert take(alice, "r", reentrant=True, token=first.token).unapplied == ()
        asked = {"grace": 5, "mode": "shared", "on_expiry": "quarantine"}
        second = take(bob, "r", **asked, reentrant=True, token=first.token)
        assert second.unapplied == ("mode", "holder", "grace", "on_expiry")
        assert (second.lease.id, second.lease.mode, second.lease.holder) == (first.lease.id, "exclusive", "alice")

    def test_reentrant_is_for_the_holder_only(self, connect: Connect) -> None:
        """Nobody else gets in that way: a token of another lease opens that one, and no other."""
        take(connect(holder="alice"), "r")
        bob = connect(holder="bob")
        other = take(bob, "s")
        expect(Held, bob.acquire("r", ttl=LONG, reentrant=True, token=[other.token, MADE_UP]))

    def test_reentrant_with_a_token_that_was_handed_on(self, connect: Connect) -> None:
        """A token is proof by itself: the next step of a job goes on under the lease of the first step."""
        first = take(connect(holder="step-1"), "r")
        second = take(connect(holder="step-2"), "r", reentrant=True, token=[MADE_UP, first.token])
        assert (second.lease.id, second.lease.holder, second.unapplied) == (first.lease.id, "step-1", ("holder",))

    def test_reentrant_does_not_queue(self, connect: Connect) -> None:
        """Its holder need not wait behind the waiters."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        first = take(alice, "r")
        asking = wait_for(bob, "r")
        assert take(alice, "r", reentrant=True, wait=PATIENCE, token=first.token).lease.id == first.lease.id
        assert queue_of(alice, "r") == ["bob"]
        release(alice, first)
        expect(Granted, asking.answer())

    def test_reentrant_for_a_part_of_what_is_held(self, connect: Connect) -> None:
        """The whole lease comes back; what it does not cover is not covered by asking again."""
        alice = connect(holder="alice")
        first = take(alice, ["a", "b", "c"])
        proof = {"reentrant": True, "token": first.token}
        assert take(alice, "b", **proof).lease.id == first.lease.id
        assert take(alice, ["c", "a"], **proof).lease.resources == ("a", "b", "c")
        expect(Held, alice.acquire(["c", "d"], ttl=LONG, reentrant=True, token=first.token))
        assert len(leases_of(alice)) == 1

    @pytest.mark.parametrize(
        ("has", "wants"),
        [
            ("path:src", "path:src/a.py"),
            ("path:.", ["path:src/a.py", "path:b"]),
            ("repo:x", ["path:src/a.py", "issue:1"]),
            (["path:lib", "path:src"], ["path:src/a.py", "path:lib"]),
        ],
    )
    def test_reentrant_for_what_lies_in_it(
        self, connect: Connect, has: str | list[str], wants: str | list[str]
    ) -> None:
        """A directory covers its files, and a repository all of it."""
        alice = connect(holder="alice")
        first = take(alice, has)
        again = take(alice, wants, reentrant=True, token=first.token)
        assert (again.lease.id, again.lease.resources) == (first.lease.id, first.lease.resources)

    @pytest.mark.parametrize(
        ("has", "wants"),
        [
            ("path:src/a.py", "path:src"),
            ("path:src", ["path:src/a.py", "path:lib"]),
            ("path:src", "repo:x"),
            ("s3://bucket/a", "s3://bucket/a/b"),
        ],
    )
    def test_reentrant_not_for_what_is_larger(self, connect: Connect, has: str, wants: str | list[str]) -> None:
        """Nor for what only begins alike: a scheme is a tree if it is declared to be one."""
        alice = connect(holder="alice")
        first = take(alice, has)
        outcome = alice.acquire(wants, ttl=LONG, reentrant=True, token=first.token)
        assert not isinstance(outcome, Granted) or outcome.fresh

    def test_reentrant_for_a_choice(self, connect: Connect) -> None:
        """A holder of one of the choices gets that one again, not another."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        other = take(bob, "a")
        first = take(alice, ["a", "b"], any_of=True)
        release(bob, other)
        again = take(alice, ["a", "b"], any_of=True, reentrant=True, token=first.token)
        assert again.lease.id == first.lease.id

    @pytest.mark.parametrize("options", [{"mode": "shared"}, {"slots": 2}])
    def test_reentrant_never_makes_more_of_a_lease(self, connect: Connect, options: dict[str, Any]) -> None:
        """A reader does not become a writer in passing."""
        alice = connect(holder="alice")
        first = take(alice, "r", **options)
        held = expect(Held, alice.acquire("r", ttl=LONG, reentrant=True, token=first.token))
        assert [blocker.yours for blocker in held.blockers] == [True]

    def test_reentrant_of_a_slot_is_for_the_slot(self, connect: Connect) -> None:
        """Others may have a slot of the directory, so it covers no file of it."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        first = take(alice, "path:src", slots=2)
        take(bob, "path:src", slots=2)
        outcome = alice.acquire("path:src/a.py", ttl=LONG, slots=2, reentrant=True, token=first.token)
        assert not isinstance(outcome, Granted)

    def test_reentrant_after_expiry_is_a_new_lease(self, connect: Connect) -> None:
        """A lease that has ended is not revived."""
        alice = connect(holder="alice")
        gone = take(alice, "r", ttl=SHORT)
        until_time_has_passed(lambda: leases_of(alice) == (), "the lease has expired")
        second = take(alice, "r", reentrant=True, token=gone.token)
        assert second.fresh
        assert second.lease.fence > gone.lease.fence
        assert second.lease.acquired_us >= gone.lease.expires_us

    def test_reentrant_of_readers_and_slots(self, connect: Connect) -> None:
        """Each holder gets its own lease back, not another slot."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        mine, theirs = take(alice, "pool", slots=2), take(bob, "pool", slots=2)
        again = take(bob, "pool", slots=2, reentrant=True, token=theirs.token)
        assert again.lease.id == theirs.lease.id
        reader = take(alice, "r", mode="shared")
        again = take(alice, "r", mode="shared", reentrant=True, token=reader.token)
        assert again.lease.id == reader.lease.id
        assert {lease.id for lease in leases_of(bob, holder="alice")} == {mine.lease.id, reader.lease.id}

    def test_reentrant_waits_on_oneself_are_answered_at_once(self, connect: Connect) -> None:
        """Nobody else stands in the way of such a wait, so it would never end."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        mine = take(alice, "path:src")
        held = expect(Held, alice.acquire("path:src/a.py", ttl=LONG, wait=PATIENCE, token=mine.token))
        assert [(each.resource, each.yours) for each in held.blockers] == [("path:src", True)]
        asking = wait_for(bob, "path:src")
        held = expect(Held, alice.acquire("path:src/a.py", ttl=LONG, wait=PATIENCE, token=mine.token))
        assert held.blockers[0].yours
        release(alice, mine)
        expect(Granted, asking.answer())

    def test_reentrant_waits_of_a_session_on_itself_are_answered_at_once(self, connect: Connect) -> None:
        """Its secret proves what it has; another session of the same holder waits like anybody else."""
        alice = connect(holder="alice")
        one = expect(SessionStarted, alice.start_session(ttl=LONG)).secret
        two = expect(SessionStarted, alice.start_session(ttl=LONG)).secret
        mine = take(alice, "r", session=one)
        held = expect(Held, alice.acquire("r", ttl=LONG, wait=PATIENCE, session=one))
        assert [each.yours for each in held.blockers] == [True]
        asking = wait_for(alice, "r", session=two)
        release(alice, mine)
        expect(Granted, asking.answer())

    def test_reentrant_wait_on_others_as_well_ends_once_they_are_gone(self, connect: Connect) -> None:
        """Two readers want to write: one is refused for the deadlock, the other, once alone, for waiting on itself."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        mine, theirs = take(alice, "r", mode="shared"), take(bob, "r", mode="shared")
        asking = wait_for(alice, "r", token=mine.token)
        expect(Deadlock, bob.acquire("r", ttl=LONG, wait=PATIENCE, token=theirs.token))
        assert not asking.is_over
        release(bob, theirs)
        held = expect(Held, asking.answer())
        assert [(each.lease, each.yours) for each in held.blockers] == [(mine.lease.id, True)]
        assert expect(Released, alice.release(mine.lease.id, mine.token)).released
        take(alice, "r")

    def test_reentrant_tokens_have_bounds(self, connect: Connect) -> None:
        """At most 64 of them, each a text."""
        alice = connect(holder="alice")
        take(alice, "r", token=[MADE_UP] * 64)
        wrong("token", lambda: alice.acquire("s", ttl=LONG, token=[MADE_UP] * 65))
        wrong("token", lambda: alice.acquire("s", ttl=LONG, token=[""]))

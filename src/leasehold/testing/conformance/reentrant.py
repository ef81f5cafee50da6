"""The same holder again: with `reentrant` it gets its own lease back, extended (spec 3.7)."""

from __future__ import annotations

import pytest

from leasehold.model import Granted, Held, Renewed
from leasehold.testing.conformance.asking import (
    LONG,
    PATIENCE,
    SHORT,
    Connect,
    expect,
    give_back,
    leases_of,
    queue_of,
    take,
    until_time_has_passed,
    wait_for,
)


class Reentrant:
    """A holder that asks for what it has."""

    def test_reentrant_must_be_asked_for(self, connect: Connect) -> None:
        """By default a second acquire is refused like anybody else's."""
        alice = connect(holder="alice")
        take(alice, "r")
        held = expect(Held, alice.acquire("r", ttl=LONG))
        assert [blocker.holder for blocker in held.blockers] == ["alice"]

    def test_reentrant_gives_the_same_lease_extended(self, connect: Connect) -> None:
        """The same id, fence and `acquired_at`; a full new TTL; both tokens work."""
        first = take(connect(holder="alice"), "r", ttl=60, reentrant=True)
        again = connect(holder="alice")
        second = take(again, "r", ttl=120, reentrant=True)
        assert (first.fresh, second.fresh) == (True, False)
        assert (second.lease.id, second.lease.fence) == (first.lease.id, first.lease.fence)
        assert second.lease.acquired_at == first.lease.acquired_at
        assert second.lease.expires_at > first.lease.expires_at
        assert second.lease.ttl == 2 * first.lease.ttl
        again.renew(first.lease.id, first.token)
        give_back(again, second)
        assert leases_of(again) == ()

    def test_reentrant_many_times_leaves_every_token_valid(self, connect: Connect) -> None:
        """As deep as anybody nests, whoever took it on the way can still renew it."""
        alice = connect(holder="alice")
        taken = [take(alice, "r", reentrant=True) for _ in range(20)]
        for each in taken:
            expect(Renewed, alice.renew(each.lease.id, each.token))

    def test_reentrant_never_takes_time_away(self, connect: Connect) -> None:
        """Who asks again for a shorter time, or for none in particular, keeps what it has."""
        alice = connect(holder="alice")
        first = take(alice, "r", ttl=7200)
        second = take(alice, "r", ttl=1800, reentrant=True)
        assert (second.lease.id, second.lease.ttl) == (first.lease.id, first.lease.ttl)
        assert second.lease.expires_at > first.lease.expires_at

    def test_reentrant_is_for_the_holder_only(self, connect: Connect) -> None:
        """Nobody else gets in that way."""
        take(connect(holder="alice"), "r", reentrant=True)
        expect(Held, connect(holder="bob").acquire("r", ttl=LONG, reentrant=True))
        expect(Held, connect(holder="bob").acquire("r", ttl=LONG, reentrant=True, holder="Alice"))

    def test_reentrant_does_not_queue(self, connect: Connect) -> None:
        """Whoever has it need not wait behind those who want it."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        first = take(alice, "r")
        asking = wait_for(bob, "r")
        assert take(alice, "r", reentrant=True, wait=PATIENCE).lease.id == first.lease.id
        assert queue_of(alice, "r") == ["bob"]
        give_back(alice, first)
        expect(Granted, asking.answer())

    def test_reentrant_for_a_part_of_what_is_held(self, connect: Connect) -> None:
        """The whole lease comes back; what it does not cover is not covered by asking again."""
        alice = connect(holder="alice")
        first = take(alice, ["a", "b", "c"])
        assert take(alice, "b", reentrant=True).lease.id == first.lease.id
        assert take(alice, ["c", "a"], reentrant=True).lease.resources == ("a", "b", "c")
        expect(Held, alice.acquire(["c", "d"], ttl=LONG, reentrant=True))
        assert len(leases_of(alice)) == 1

    def test_reentrant_for_a_choice(self, connect: Connect) -> None:
        """Whoever has one of the choices gets that one again, not another."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        other = take(bob, "a")
        first = take(alice, ["a", "b"], any_of=True, reentrant=True)
        give_back(bob, other)
        assert take(alice, ["a", "b"], any_of=True, reentrant=True).lease.id == first.lease.id

    @pytest.mark.parametrize("options", [{"mode": "shared"}, {"slots": 2}])
    def test_reentrant_in_another_mode_is_another_lease(self, connect: Connect, options: dict[str, object]) -> None:
        """A lease does not change its mode in passing."""
        alice = connect(holder="alice")
        take(alice, "r")
        expect(Held, alice.acquire("r", ttl=LONG, reentrant=True, **options))  # type: ignore[arg-type]

    def test_reentrant_after_expiry_is_a_new_lease(self, connect: Connect) -> None:
        """What is gone is not revived."""
        alice = connect(holder="alice")
        first = take(alice, "r", ttl=SHORT, reentrant=True).lease
        until_time_has_passed(lambda: leases_of(alice) == (), "the lease has expired")
        second = take(alice, "r", reentrant=True)
        assert second.fresh
        assert second.lease.fence > first.fence
        assert second.lease.acquired_at >= first.expires_at

    def test_reentrant_of_readers_and_slots(self, connect: Connect) -> None:
        """Each holder gets its own lease back, not another slot."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        mine, theirs = take(alice, "pool", slots=2), take(bob, "pool", slots=2)
        assert take(bob, "pool", slots=2, reentrant=True).lease.id == theirs.lease.id
        reader = take(alice, "r", mode="shared")
        assert take(alice, "r", mode="shared", reentrant=True).lease.id == reader.lease.id
        assert {lease.id for lease in leases_of(bob, holder="alice")} == {mine.lease.id, reader.lease.id}

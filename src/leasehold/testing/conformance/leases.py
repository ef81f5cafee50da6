"""Renew, release, update: what the holder of a lease can do with it, and when it is lost (spec 4)."""

from __future__ import annotations

import json

from leasehold.domain.outcomes import Granted, Held, Lost, Refused, Released, Renewed, Updated
from leasehold.testing.conformance.asking import (
    LONG,
    PATIENCE,
    SHORT,
    Connect,
    expect,
    inspection,
    leases_of,
    needs_history,
    refused,
    release,
    take,
    timeless,
    until,
    until_time_has_passed,
    wrong,
)


class Leases:
    """The life of a lease that was granted."""

    def test_leases_renewed_have_a_full_ttl_again(self, connect: Connect) -> None:
        """The clock is set back; nothing else about the lease changes."""
        alice = connect(holder="alice")
        granted = take(alice, "r", ttl=60, name="n", context=[1])
        renewed = timeless(expect(Renewed, connect().renew(granted.lease.id, granted.token)).lease)
        assert renewed.expires_us > granted.lease.expires_us
        assert renewed._replace(expires_us=0) == granted.lease._replace(expires_us=0)
        assert leases_of(alice) == (renewed,)

    def test_leases_renewed_with_another_ttl(self, connect: Connect) -> None:
        """Longer or shorter; it is the lease's TTL from then on."""
        alice = connect(holder="alice")
        granted = take(alice, "r", ttl=60)
        longer = expect(Renewed, alice.renew(granted.lease.id, granted.token, ttl="1h")).lease
        assert longer.ttl_us == 3_600_000_000
        assert longer.expires_us >= granted.lease.acquired_us + longer.ttl_us
        shorter = expect(Renewed, alice.renew(granted.lease.id, granted.token, ttl=30)).lease
        assert shorter.expires_us < longer.expires_us
        assert expect(Renewed, alice.renew(granted.lease.id, granted.token)).lease.ttl_us == 30_000_000

    def test_leases_renewed_in_time_never_end(self, connect: Connect) -> None:
        """Far beyond its first expiry the lease is still held, and nobody got in between."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        granted = take(alice, "r", ttl=2)

        def beyond() -> bool:
            renewed = expect(Renewed, alice.renew(granted.lease.id, granted.token)).lease
            expect(Held, bob.acquire("r", ttl=LONG))
            return renewed.expires_us > granted.lease.expires_us + 2_500_000

        until(beyond, "the lease has outlived its first TTL")

    def test_leases_that_expired_are_never_revived(self, connect: Connect) -> None:
        """Renew says `lost`, however often it is asked, and the resource stays free."""
        alice = connect(holder="alice")
        granted = take(alice, "r", ttl=SHORT)
        until_time_has_passed(lambda: leases_of(alice) == (), "the lease has expired")
        for _ in range(2):
            assert expect(Lost, alice.renew(granted.lease.id, granted.token)).reason == "expired"
        assert inspection(alice, "r").leases == ()
        take(connect(holder="bob"), "r")
        assert expect(Lost, alice.renew(granted.lease.id, granted.token)).reason == "expired"

    def test_leases_that_were_released_are_lost(self, connect: Connect) -> None:
        """The reason says so."""
        alice = connect(holder="alice")
        granted = take(alice, "r")
        release(alice, granted)
        lost = expect(Lost, alice.renew(granted.lease.id, granted.token))
        assert (lost.lease, lost.reason) == (granted.lease.id, "released")
        expect(Lost, alice.update(granted.lease.id, granted.token, context={}))

    def test_leases_are_released_once(self, connect: Connect) -> None:
        """`released` is true once, then false; neither is an error."""
        alice = connect(holder="alice")
        granted = take(alice, ["a", "b"])
        first = expect(Released, alice.release(granted.lease.id, granted.token))
        assert (first.released, first.resources) == (True, ("a", "b"))
        for locks in (alice, connect()):
            again = expect(Released, locks.release(granted.lease.id, granted.token))
            assert (again.released, again.reason) == (False, "released")

    def test_leases_released_late_leave_the_successor_alone(self, connect: Connect) -> None:
        """Only exactly that lease is removed, never the one that came after it."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        old = take(alice, "r", ttl=SHORT)
        new = expect(Granted, bob.acquire("r", ttl=LONG, wait=PATIENCE))
        assert not expect(Released, alice.release(old.lease.id, old.token)).released
        assert leases_of(alice) == (timeless(new.lease),)

    def test_leases_of_one_holder_are_told_apart(self, connect: Connect) -> None:
        """Releasing one lease of a holder leaves the others, also on the same resource."""
        alice = connect(holder="alice")
        one, two = take(alice, "r", mode="shared"), take(alice, "r", mode="shared")
        release(alice, one)
        assert leases_of(alice) == (two.lease,)

    def test_leases_that_never_were(self, connect: Connect) -> None:
        """A well-spelled id of nothing is not found, in every verb."""
        alice = connect(holder="alice")
        granted = take(alice, "r")
        digits, _, home = granted.lease.id[1:].partition("-")
        never = f"l{int(digits) + 1_000_000}-{home}"
        refused(alice.renew(never, granted.token), "not_found", "lease")
        refused(alice.release(never, granted.token), "not_found", "lease")
        refused(alice.update(never, granted.token, context={}), "not_found", "lease")

    def test_leases_have_a_context(self, connect: Connect) -> None:
        """Replaced as a whole while held, and seen by everybody."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        granted = take(alice, "r", context={"step": 1, "log": ["a"]})
        assert json.loads(granted.lease.context or "") == {"step": 1, "log": ["a"]}
        updated = timeless(expect(Updated, alice.update(granted.lease.id, granted.token, context={"step": 2})).lease)
        assert json.loads(updated.context or "") == {"step": 2}
        assert updated._replace(context=None) == granted.lease._replace(context=None)
        assert inspection(bob, "r").leases == leases_of(bob) == (updated,)

    def test_leases_merge_a_context(self, connect: Connect) -> None:
        """Key by key; what is not an object cannot be merged."""
        alice = connect(holder="alice")
        granted = take(alice, "r", context={"a": 1, "b": 1})
        updated = expect(Updated, alice.update(granted.lease.id, granted.token, context={"b": 2, "c": 3}, merge=True))
        assert json.loads(updated.lease.context or "") == {"a": 1, "b": 2, "c": 3}
        refused(alice.update(granted.lease.id, granted.token, context=[1], merge=True), "invalid", "context")
        assert leases_of(alice) == (timeless(updated.lease),)
        empty = take(alice, "other")
        merged = expect(Updated, alice.update(empty.lease.id, empty.token, context={"x": None}, merge=True))
        assert json.loads(merged.lease.context or "") == {"x": None}

    def test_leases_have_a_context_of_16_kib(self, connect: Connect) -> None:
        """One byte more is refused, also when it comes about by merging."""
        alice = connect(holder="alice")
        most = "x" * (16 * 1024 - 2)
        granted = take(alice, "r", context=most)
        wrong("context", lambda: alice.update(granted.lease.id, granted.token, context=most + "x"))
        half = {"a": "x" * 9000}
        expect(Updated, alice.update(granted.lease.id, granted.token, context=half))
        other = {"b": "x" * 9000}
        refused(alice.update(granted.lease.id, granted.token, context=other, merge=True), "invalid", "context")
        assert json.loads(leases_of(alice)[0].context or "") == half

    def test_leases_end_with_a_status(self, connect: Connect) -> None:
        """A run was completed, failed with an error, or cancelled: its history tells."""
        needs_history(connect)
        alice = connect(holder="alice")
        for status, error in (("completed", None), ("failed", "exit 1\nsee the log"), ("cancelled", None)):
            granted = take(alice, "r", name="build", context={"n": 1})
            alice.release(granted.lease.id, granted.token, status=status, error=error)
            events = alice.history(lease=granted.lease.id, kinds=["released"])
            assert not isinstance(events, Refused)
            detail = events[0].detail
            assert (detail["status"], detail["error"], detail["name"]) == (status, error, "build")

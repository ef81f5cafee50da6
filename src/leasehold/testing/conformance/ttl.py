"""TTL: every lease ends by itself, by the store's clock (spec 3.3)."""

from __future__ import annotations

import math
from functools import partial

from leasehold.domain.outcomes import Granted, Held, Lost, Released
from leasehold.domain.timestamps import SECOND
from leasehold.requests.checks import Settings
from leasehold.testing.conformance.asking import (
    LONG,
    PATIENCE,
    SHORT,
    Asking,
    Connect,
    expect,
    inspection,
    leases_of,
    refused,
    take,
    take_once_free,
    until_free,
    until_time_has_passed,
    wrong,
)

BAD_TTLS = (0, -1, math.nan, math.inf, "abc", "", "-5m", 1e12, 0.009, "9ms", None, True, [30], "nan")


class Ttl:
    """How long a lease lives."""

    def test_ttl_is_told(self, connect: Connect) -> None:
        """A lease says when it began and when it ends; the difference is its TTL."""
        locks = connect()
        lease = take(locks, "r", ttl="2h30m").lease
        assert lease.ttl_us == 9000 * SECOND
        assert lease.expires_us == lease.acquired_us + lease.ttl_us
        assert lease.acquired_us <= inspection(locks, "r").now_us < lease.expires_us

    def test_ttl_runs_out(self, connect: Connect) -> None:
        """A holder that does not come back blocks nobody for ever."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "r", ttl=SHORT)
        assert take_once_free(bob, "r").lease.holder == "bob"

    def test_ttl_that_ran_out_is_gone_although_nobody_took_it(self, connect: Connect) -> None:
        """It is not listed, cannot be renewed, and releasing it does nothing."""
        locks = connect()
        granted = take(locks, "r", ttl=SHORT)
        until_time_has_passed(lambda: leases_of(locks) == (), "the lease has expired")
        assert expect(Lost, locks.renew(granted.lease.id, granted.token)).reason == "expired"
        assert expect(Lost, locks.update(granted.lease.id, granted.token, context={})).reason == "expired"
        released = expect(Released, locks.release(granted.lease.id, granted.token))
        assert (released.released, released.reason) == (False, "expired")

    def test_ttl_is_not_cut_short(self, connect: Connect) -> None:
        """An expired resource is granted again only after the moment that the old lease named."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        old = take(alice, "r", ttl=0.2).lease
        new = expect(Granted, bob.acquire("r", ttl=LONG, wait=PATIENCE)).lease
        assert new.acquired_us >= old.expires_us

    def test_ttl_that_runs_out_serves_who_waits(self, connect: Connect) -> None:
        """Nobody has to do anything for it."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "r", ttl=0.3)
        assert expect(Granted, bob.acquire("r", ttl=LONG, wait=PATIENCE)).lease.holder == "bob"

    def test_ttl_of_a_waiter_begins_when_it_is_served(self, connect: Connect) -> None:
        """The time in the queue does not count."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        old = take(alice, "r", ttl=0.3).lease
        asking: Asking[object] = Asking(lambda: bob.acquire("r", ttl=LONG, wait=PATIENCE))
        lease = expect(Granted, asking.answer()).lease
        assert lease.expires_us >= old.expires_us + lease.ttl_us

    def test_ttl_that_is_refused(self, connect: Connect) -> None:
        """Each raises a clear error, and nothing has changed."""
        locks = connect()
        for ttl in BAD_TTLS:
            wrong("ttl", partial(locks.acquire, "r", ttl=ttl))  # type: ignore[arg-type]
        assert leases_of(locks) == ()

    def test_ttl_that_these_settings_refuse(self, connect: Connect) -> None:
        """Other settings might allow it, so it is an answer and no error."""
        locks = connect()
        for ttl in ("9999h", 86_401):
            refused(locks.acquire("r", ttl=ttl), "invalid", "ttl")
        assert leases_of(locks) == ()

    def test_ttl_that_is_accepted(self, connect: Connect) -> None:
        """From 10 ms to 24 h, as a number of seconds or as text."""
        locks = connect()
        for ttl, seconds in ((0.01, 0.01), ("10ms", 0.01), ("24h", 86400), ("1.5h", 5400), (90, 90)):
            assert take(locks, f"r {ttl}", ttl=ttl).lease.ttl_us == seconds * SECOND

    def test_ttl_has_an_upper_bound_that_the_settings_choose(self, connect: Connect) -> None:
        """An installation may allow more, or less."""
        strict, generous = Settings(ttl_most=60 * SECOND), Settings(ttl_most=48 * 3600 * SECOND)
        refused(connect(settings=strict).acquire("r", ttl=61), "invalid", "ttl")
        take(connect(settings=generous), "r", ttl="48h")

    def test_ttl_of_readers_counts_for_each(self, connect: Connect) -> None:
        """A writer waits for the last of them, not for the first."""
        alice, bob, writer = connect(holder="alice"), connect(holder="bob"), connect(holder="writer")
        take(alice, "r", ttl=SHORT, mode="shared")
        take(bob, "r", mode="shared")
        until_time_has_passed(lambda: len(leases_of(bob)) == 1, "alice's lease has expired")
        held = expect(Held, writer.acquire("r", ttl=LONG))
        assert [blocker.holder for blocker in held.blockers] == ["bob"]

    def test_ttl_of_a_slot_makes_room(self, connect: Connect) -> None:
        """A slot that expired is free again."""
        locks = connect()
        take(locks, "pool", slots=2)
        take(locks, "pool", slots=2, ttl=SHORT)
        granted = expect(Granted, locks.acquire("pool", ttl=LONG, slots=2, wait=PATIENCE, holder="late"))
        assert granted.lease.holder == "late"

    def test_ttl_of_what_is_deep_in_a_tree(self, connect: Connect) -> None:
        """An expired file does not keep its directory."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "path:a/b/c", ttl=SHORT)
        until_free(bob, "path:a/b/c")
        take(bob, "path:a")

"""After an unclean end: a grace before the next grant, or a quarantine until an admin clears it (spec 4)."""

from __future__ import annotations

from functools import partial

import pytest

from leasehold.domain.outcomes import Cleared, Granted, Held, Lost, TimedOut
from leasehold.domain.timestamps import FOREVER
from leasehold.testing.conformance.asking import (
    LONG,
    PATIENCE,
    SHORT,
    Connect,
    expect,
    inspection,
    leases_of,
    queue_of,
    release,
    take,
    timeless,
    until_time_has_passed,
    wait_for,
    wrong,
)


class Unclean:
    """A half-finished deploy must not be picked up silently."""

    def test_unclean_grace_after_expiry(self, connect: Connect) -> None:
        """Nobody gets it for so long; the refusal says why, and until when."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        lease = take(alice, "r", ttl=SHORT, grace=60).lease
        until_time_has_passed(lambda: inspection(bob, "r").closed, "the lease has expired")
        held = expect(Held, bob.acquire("r", ttl=LONG))
        (blocker,) = held.blockers
        assert (blocker.state, blocker.holder, blocker.lease) == ("grace", "alice", lease.id)
        assert blocker.until_us == lease.expires_us + 60_000_000
        assert leases_of(bob) == ()
        expect(Held, alice.acquire("r", ttl=LONG))

    def test_unclean_grace_ends_by_itself(self, connect: Connect) -> None:
        """A waiter is served then, and not before."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        lease = take(alice, "r", ttl=SHORT, grace=0.3).lease
        granted = expect(Granted, bob.acquire("r", ttl=LONG, wait=PATIENCE))
        assert granted.lease.acquired_us >= lease.expires_us + 300_000

    def test_unclean_grace_after_force(self, connect: Connect) -> None:
        """The work was interrupted all the same."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        take(alice, "r", grace=60)
        ops.force_release("r", by="ops", reason="hangs")
        held = expect(Held, ops.acquire("r", ttl=LONG))
        assert [blocker.state for blocker in held.blockers] == ["grace"]

    @pytest.mark.parametrize("options", [{"grace": 60}, {"on_expiry": "quarantine"}])
    def test_unclean_is_not_a_release(self, connect: Connect, options: dict[str, object]) -> None:
        """A clean end has neither grace nor quarantine."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        release(alice, take(alice, ["r", "path:src/x"], **options))
        take(bob, ["r", "path:src"])

    def test_unclean_quarantine_after_expiry(self, connect: Connect) -> None:
        """Nobody gets it, ever, and everybody can see why; the old holder's lease is lost."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        granted = take(alice, "deploy://api", ttl=SHORT, on_expiry="quarantine", name="v2", reason="release")
        until_time_has_passed(lambda: inspection(bob, "deploy://api").closed, "the lease has expired")
        (closed,) = inspection(bob, "deploy://api").closed
        assert (closed.state, closed.holder, closed.name, closed.until_us) == ("quarantined", "alice", "v2", FOREVER)
        (blocker,) = expect(Held, bob.acquire("deploy://api", ttl=LONG)).blockers
        assert timeless(blocker) == closed
        (blocker,) = expect(TimedOut, bob.acquire("deploy://api", ttl=LONG, wait=SHORT)).blockers
        assert timeless(blocker) == closed
        assert leases_of(bob) == ()
        expect(Lost, alice.renew(granted.lease.id, granted.token))
        expect(Held, alice.acquire("deploy://api", ttl=LONG, reentrant=True, token=granted.token))

    def test_unclean_quarantine_after_force(self, connect: Connect) -> None:
        """Forced ends are unclean as well."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        lease = take(alice, "r", on_expiry="quarantine").lease
        ops.force_release(lease.id, by="ops", reason="hangs")
        held = expect(Held, ops.acquire("r", ttl=LONG))
        assert [blocker.state for blocker in held.blockers] == ["quarantined"]

    def test_unclean_quarantine_is_cleared(self, connect: Connect) -> None:
        """With a name and a reason; then it is free."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        take(alice, "r", on_expiry="quarantine")
        ops.force_release("r", by="ops", reason="hangs")
        wrong("reason", lambda: ops.clear("r", by="ops", reason=""))
        wrong("by", lambda: ops.clear("r", by="", reason="looked at it"))
        expect(Held, ops.acquire("r", ttl=LONG))
        assert expect(Cleared, ops.clear("r", by="ops", reason="looked at it")).cleared
        assert not expect(Cleared, ops.clear("r", by="ops", reason="looked at it")).cleared
        assert inspection(ops, "r").closed == ()
        take(alice, "r")

    def test_unclean_quarantine_of_another_name_stays(self, connect: Connect) -> None:
        """All of `repo:` exclude each other, and yet only what is named is opened."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        take(alice, "repo:one", on_expiry="quarantine")
        ops.force_release("repo:one", by="ops", reason="hangs")
        assert not expect(Cleared, ops.clear("repo:two", by="ops", reason="looked at it")).cleared
        expect(Held, ops.acquire("repo:one", ttl=LONG))
        assert expect(Cleared, ops.clear("repo:one", by="ops", reason="looked at it")).cleared

    def test_unclean_quarantine_of_several_is_cleared_with_all_of_them_told(self, connect: Connect) -> None:
        """Resources that one lease closed are opened together, and the answer says so."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        take(alice, ["r", "s"], on_expiry="quarantine")
        ops.force_release("r", by="ops", reason="hangs")
        expect(Held, ops.acquire("s", ttl=LONG))
        assert set(expect(Cleared, ops.clear("s", by="ops", reason="looked at both")).resources) == {"r", "s"}
        take(alice, ["r", "s"])

    def test_unclean_quarantine_cleared_serves_who_waits(self, connect: Connect) -> None:
        """The queue continues from there."""
        alice, bob, ops = connect(holder="alice"), connect(holder="bob"), connect(holder="ops")
        take(alice, "r", on_expiry="quarantine")
        asking = wait_for(bob, "r")
        ops.force_release("r", by="ops", reason="hangs")
        assert queue_of(ops, "r") == ["bob"]
        assert not asking.is_over
        ops.clear("r", by="ops", reason="looked at it")
        expect(Granted, asking.answer())

    def test_unclean_quarantine_of_a_directory(self, connect: Connect) -> None:
        """Resources within it, and those that it is within, stay closed too, until it is cleared."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "path:src/app", on_expiry="quarantine")
        bob.force_release("path:src/app", by="ops", reason="hangs")
        for name in ("path:src/app/main.py", "path:src", "repo:all"):
            expect(Held, bob.acquire(name, ttl=LONG))
        take(bob, "path:src/lib")
        bob.clear("path:src/app", by="ops", reason="looked at it")
        take(bob, "path:src/app/main.py")

    def test_unclean_quarantine_of_a_reader_keeps_readers_out(self, connect: Connect) -> None:
        """Whatever it was held for: closed is closed."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "r", mode="shared", on_expiry="quarantine")
        bob.force_release("r", by="ops", reason="hangs")
        expect(Held, bob.acquire("r", ttl=LONG, mode="shared"))

    def test_unclean_quarantine_is_not_stolen(self, connect: Connect) -> None:
        """It has to be cleared first: only a held resource can be stolen."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        take(alice, "r", on_expiry="quarantine")
        ops.force_release("r", by="ops", reason="hangs")
        held = expect(Held, ops.steal("r", ttl=LONG, by="ops", reason="now"))
        assert [blocker.state for blocker in held.blockers] == ["quarantined"]

    def test_unclean_steal_needs_no_grace(self, connect: Connect) -> None:
        """An admin who steals knows the situation."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        take(alice, "a", grace=60)
        take(alice, "b", on_expiry="quarantine")
        stolen = expect(Granted, ops.steal(["a", "b"], ttl=LONG, by="ops", reason="rescue"))
        release(ops, stolen)
        take(alice, ["a", "b"])

    def test_unclean_grace_can_be_cleared(self, connect: Connect) -> None:
        """Nobody has to sit it out."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        take(alice, "r", grace=60)
        ops.force_release("r", by="ops", reason="hangs")
        assert expect(Cleared, ops.clear("r", by="ops", reason="looked at it")).cleared
        take(ops, "r")

    def test_unclean_grace_has_bounds(self, connect: Connect) -> None:
        """0 to 60 s."""
        locks = connect()
        for grace in (-1, 61, "2m", "soon", None):
            wrong("grace", partial(locks.acquire, "r", ttl=LONG, grace=grace))  # type: ignore[arg-type]
        take(locks, "r", grace="60s")

"""Force-release and steal: what an admin can do, with a name and a reason (spec 4)."""

from __future__ import annotations

from leasehold.domain.outcomes import Granted, Held, Lost, Released
from leasehold.testing.conformance.asking import (
    LONG,
    Connect,
    expect,
    leases_of,
    queue_of,
    release,
    take,
    timeless,
    wait_for,
    wrong,
)


class Admin:
    """Ending what others hold."""

    def test_admin_force_release_by_the_resource(self, connect: Connect) -> None:
        """The old holder learns at its next call who did it and why."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        granted = take(alice, "deploy://api")
        forced = expect(Released, ops.force_release("deploy://api", by="ops", reason="it hangs"))
        assert forced.released
        assert leases_of(ops) == ()
        reason = "forced by ops: it hangs"
        assert expect(Lost, alice.renew(granted.lease.id, granted.token)).reason == reason
        assert expect(Lost, alice.update(granted.lease.id, granted.token, context={})).reason == reason
        released = expect(Released, alice.release(granted.lease.id, granted.token))
        assert (released.released, released.reason) == (False, reason)
        take(ops, "deploy://api")

    def test_admin_force_release_by_the_lease(self, connect: Connect) -> None:
        """Exactly that lease ends; other readers stay."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        one, two = take(alice, "r", mode="shared"), take(alice, "r", mode="shared")
        assert expect(Released, ops.force_release(one.lease.id, by="ops", reason="wrong")).released
        assert leases_of(ops) == (two.lease,)

    def test_admin_force_release_ends_every_lease_of_the_resource(self, connect: Connect) -> None:
        """All readers, and the other resources of a lease that covers several."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        take(alice, "r", mode="shared")
        take(alice, ["r", "s"], mode="shared")
        assert expect(Released, ops.force_release("r", by="ops", reason="clean up")).released
        assert leases_of(ops) == ()
        take(ops, ["r", "s"])

    def test_admin_force_release_serves_who_waits(self, connect: Connect) -> None:
        """The next in the queue gets it."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, ["a", "path:src/x"])
        asking = wait_for(bob, "path:src")
        connect(holder="ops").force_release("a", by="ops", reason="hangs")
        expect(Granted, asking.answer())

    def test_admin_force_release_spares_other_names_of_one_place(self, connect: Connect) -> None:
        """All of `repo:` exclude each other, and yet only the lease that is named ends."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        one, two = take(alice, "repo:one", mode="shared"), take(alice, "repo:two", mode="shared")
        assert not expect(Released, ops.force_release("repo:three", by="ops", reason="wrong")).released
        assert expect(Released, ops.force_release("repo:one", by="ops", reason="it hangs")).released
        assert leases_of(ops) == (two.lease,)
        expect(Lost, alice.renew(one.lease.id, one.token))

    def test_admin_force_release_of_nothing(self, connect: Connect) -> None:
        """There is nothing to end, which is no error; a successor is not touched by an old id."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        assert not expect(Released, ops.force_release("free", by="ops", reason="just in case")).released
        old = take(alice, "r")
        release(alice, old)
        new = take(alice, "r").lease
        assert not expect(Released, ops.force_release(old.lease.id, by="ops", reason="late")).released
        assert leases_of(ops) == (new,)

    def test_admin_needs_a_name_and_a_reason(self, connect: Connect) -> None:
        """Without either nothing happens."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        lease = take(alice, "r").lease
        wrong("by", lambda: ops.force_release("r", by="", reason="why"))
        wrong("reason", lambda: ops.force_release("r", by="ops", reason=""))
        wrong("by", lambda: ops.steal("r", ttl=LONG, by="", reason="why"))
        wrong("reason", lambda: ops.steal("r", ttl=LONG, by="ops", reason=" "))
        assert leases_of(ops) == (lease,)

    def test_admin_steal_takes_over(self, connect: Connect) -> None:
        """In one step, with a larger fence; the old holder learns of it."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        old = take(alice, ["a", "b"])
        stolen = expect(Granted, ops.steal("a", ttl=LONG, by="ops", reason="incident 7", name="rescue"))
        assert stolen.lease.fence > old.lease.fence
        assert (stolen.lease.holder, stolen.lease.name, stolen.lease.reason) == ("ops", "rescue", "incident 7")
        assert leases_of(alice) == (timeless(stolen.lease),)
        assert expect(Lost, alice.renew(old.lease.id, old.token)).reason == "forced by ops: incident 7"
        release(ops, stolen)

    def test_admin_steal_goes_before_who_waits(self, connect: Connect) -> None:
        """Those in the queue stay there, and are served afterwards."""
        alice, bob, ops = connect(holder="alice"), connect(holder="bob"), connect(holder="ops")
        take(alice, "r")
        asking = wait_for(bob, "r")
        stolen = expect(Granted, ops.steal("r", ttl=LONG, by="ops", reason="incident"))
        assert queue_of(alice, "r") == ["bob"]
        assert not asking.is_over
        release(ops, stolen)
        expect(Granted, asking.answer())

    def test_admin_steal_a_whole_tree(self, connect: Connect) -> None:
        """Everything that overlaps has to give way."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        leases = [take(alice, name) for name in ("path:src/a", "path:src/b")]
        kept = take(alice, "path:docs").lease
        stolen = expect(Granted, ops.steal("path:src", ttl=LONG, by="ops", reason="reorganise"))
        assert leases_of(alice) == (kept, timeless(stolen.lease))
        for granted in leases:
            expect(Lost, alice.renew(granted.lease.id, granted.token))
        expect(Held, alice.acquire("path:src/a", ttl=LONG))

    def test_admin_steal_what_is_free(self, connect: Connect) -> None:
        """Then it is an acquire like any other."""
        ops = connect(holder="ops")
        stolen = expect(Granted, ops.steal(["a", "b"], ttl=LONG, by="ops", reason="to be sure", holder="robot"))
        assert stolen.lease.holder == "robot"
        release(ops, stolen)

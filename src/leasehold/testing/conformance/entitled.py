"""Only the token, its session's secret or an admin can touch a lease; secrets are shown once (spec 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.outcomes import Released, Renewed, Updated
from leasehold.domain.sessions import SessionStarted
from leasehold.testing.conformance.asking import LONG, Connect, expect, leases_of, refused, take

if TYPE_CHECKING:
    from typing import Any

    from leasehold.locks.sync import Locks

WRONG: tuple[dict[str, Any], ...] = (
    {},
    {"token": "not-the-token"},
    {"token": "0" * 32},
    {"session": "s1.not-the-secret"},
    {"token": "x", "session": "s1.y"},
)


def _session(locks: Locks) -> str:
    return expect(SessionStarted, locks.start_session(ttl=LONG)).secret


class Entitled:
    """Callers that may renew, release and update."""

    def test_entitled_is_nobody_with_a_wrong_proof(self, connect: Connect) -> None:
        """Not even the holder itself, without its token; and nothing has changed."""
        alice = connect(holder="alice")
        lease = take(alice, "r").lease
        for proof in WRONG:
            refused(alice.renew(lease.id, **proof), "not_allowed", "token")
            refused(alice.release(lease.id, **proof), "not_allowed", "token")
            refused(alice.update(lease.id, context={"mine": True}, **proof), "not_allowed", "token")
        assert leases_of(alice) == (lease,)

    def test_entitled_is_not_the_token_of_another_lease(self, connect: Connect) -> None:
        """Each lease has its own."""
        alice = connect(holder="alice")
        one, two = take(alice, "a"), take(alice, "b")
        assert one.token != two.token
        refused(alice.renew(one.lease.id, two.token), "not_allowed", "token")
        refused(alice.release(one.lease.id, two.token), "not_allowed", "token")

    def test_entitled_is_the_bearer_of_the_token(self, connect: Connect) -> None:
        """A token is valid on any connection of any holder."""
        granted = take(connect(holder="alice"), "r")
        bob = connect(holder="bob")
        expect(Renewed, bob.renew(granted.lease.id, granted.token))
        expect(Updated, bob.update(granted.lease.id, granted.token, context={}))
        assert expect(Released, bob.release(granted.lease.id, granted.token)).released

    def test_entitled_is_the_session(self, connect: Connect) -> None:
        """Its secret is enough for all of its leases, and for no others."""
        alice = connect(holder="alice")
        mine, other = _session(alice), _session(alice)
        lease = take(alice, "r", session=mine).lease
        free = take(alice, "free").lease
        for proof in (other, mine.partition(".")[0] + ".guess"):
            refused(alice.renew(lease.id, session=proof), "not_allowed", "token")
            refused(alice.release(lease.id, session=proof), "not_allowed", "token")
        refused(alice.release(free.id, session=mine), "not_allowed", "token")
        expect(Renewed, alice.renew(lease.id, session=mine))
        expect(Updated, alice.update(lease.id, context={}, session=mine))
        assert expect(Released, alice.release(lease.id, session=mine)).released

    def test_entitled_is_an_admin(self, connect: Connect) -> None:
        """A caller that the surface has identified as an admin."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        lease = take(alice, "r").lease
        expect(Renewed, ops.renew(lease.id, admin="ops"))
        expect(Updated, ops.update(lease.id, context={"by": "ops"}, admin="ops"))
        assert expect(Released, ops.release(lease.id, admin="ops")).released

    def test_entitled_is_told_once(self, connect: Connect) -> None:
        """Tokens and secrets are in the answer to their own request and nowhere else."""
        alice = connect(holder="alice")
        secret = _session(alice)
        granted = take(alice, "r", session=secret)
        seen = (alice.inspect("r"), alice.list(), alice.history(), alice.renew(granted.lease.id, granted.token))
        told = repr((*seen, alice.renew_session(secret)))
        assert granted.token not in told
        assert secret.rpartition(".")[2] not in told

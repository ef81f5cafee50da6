"""Pools: one free member of many, which the lease names (spec 3.9)."""

from __future__ import annotations

from functools import partial

from leasehold.domain.outcomes import Deadlock, Granted, Held, PoolDeclared, Refused
from leasehold.testing.conformance.asking import (
    LONG,
    SHORT,
    Connect,
    at_once,
    expect,
    holders_of,
    inspection,
    needs_fifo,
    queue_of,
    release,
    take,
    take_once_free,
    until_free,
    wait_for,
    wrong,
)

PORTS = "pool://ports/3000-3002"


class Pools:
    """Leases on a free member of a pool."""

    def test_pools_give_each_member_to_one_holder(self, connect: Connect) -> None:
        """Each lease names its member, and a request finds none when all are held."""
        locks = connect()
        got = [take(locks, PORTS, holder=f"h{n}") for n in range(3)]
        assert [each.lease.value for each in got] == ["3000", "3001", "3002"]
        assert [each.lease.resources for each in got] == [(f"pool://ports/{n}",) for n in range(3000, 3003)]
        fences = [each.lease.fence for each in got]
        assert fences == sorted(set(fences))
        refused = expect(Held, locks.acquire(PORTS, ttl=LONG, holder="late"))
        assert {each.resource for each in refused.blockers} == {f"pool://ports/{n}" for n in range(3000, 3003)}
        release(locks, got[1])
        assert take(locks, PORTS, holder="late").lease.value == "3001"

    def test_pools_give_no_member_twice_among_many(self, connect: Connect) -> None:
        """Callers that ask at the same moment get different members, and only as many as there are."""
        name = "pool://many/1-5"
        callers = [connect(holder=f"h{number}") for number in range(8)]
        answers = at_once(lambda locks: locks.acquire(name, ttl=LONG), callers)
        values = [each.lease.value for each in answers if isinstance(each, Granted)]
        assert sorted(str(value) for value in values) == ["1", "2", "3", "4", "5"]

    def test_pools_of_the_same_name_share_their_members(self, connect: Connect) -> None:
        """One member by its name, a part of the pool and lists are all requests to the same pool."""
        locks = connect()
        take(locks, "pool://ports/3001")
        assert isinstance(locks.acquire("pool://PORTS/3001", ttl=LONG, holder="b"), Held)
        assert take(locks, "pool://ports/3001-3002", holder="b").lease.value == "3002"
        assert take(locks, "pool://ports/3002,3001,spare", holder="c").lease.value == "spare"
        assert isinstance(locks.acquire("pool://ports/3001,3002,spare", ttl=LONG, holder="d"), Held)
        assert take(locks, "pool://other/3001", holder="d").lease.value == "3001"

    def test_pools_serve_their_waiters_in_order(self, connect: Connect) -> None:
        """The first in the queue gets the member that becomes free; a try does not overtake it."""
        needs_fifo(connect)
        locks = connect()
        held = [take(locks, PORTS, holder=f"h{n}") for n in range(3)]
        first = wait_for(connect(holder="first"), PORTS)
        second = wait_for(connect(holder="second"), PORTS)
        assert isinstance(locks.acquire(PORTS, ttl=LONG, holder="barger"), Held)
        release(locks, held[2])
        assert expect(Granted, first.answer()).lease.value == "3002"
        assert holders_of(locks, "pool://ports/3002") == ["first"]
        assert queue_of(locks, PORTS) == ["second"]
        release(locks, held[0])
        assert expect(Granted, second.answer()).lease.value == "3000"

    def test_pools_leave_alone_waiters_for_other_members(self, connect: Connect) -> None:
        """A waiter for one member keeps nobody from the others."""
        locks = connect()
        held = take(locks, "pool://ports/3000")
        patient = wait_for(connect(holder="patient"), "pool://ports/3000")
        assert take(locks, "pool://ports/3001-3002", holder="b").lease.value == "3001"
        assert queue_of(locks, "pool://ports/3002") == []
        assert take(locks, "pool://ports/3000-3002", holder="c").lease.value == "3002"
        release(locks, held)
        assert expect(Granted, patient.answer()).lease.value == "3000"

    def test_pools_get_their_members_back_at_the_end(self, connect: Connect) -> None:
        """An expired lease frees its member; a quarantined one stays closed until it is cleared by its own name."""
        locks = connect(holder="ops")
        take(locks, "pool://ports/1-2", ttl=SHORT, on_expiry="quarantine")
        take(locks, "pool://ports/2", ttl=SHORT)
        until_free(locks, "pool://ports/2")
        assert take_once_free(locks, "pool://ports/1-2", holder="b").lease.value == "2"
        refusal = expect(Held, locks.acquire("pool://ports/1-2", ttl=LONG, holder="c"))
        assert {each.state for each in refusal.blockers} == {"quarantined", "held"}
        assert locks.clear("pool://ports/1", by="ops", reason="looked at it")
        assert take(locks, "pool://ports/1-2", holder="c").lease.value == "1"

    def test_pools_are_forced_one_member_at_a_time(self, connect: Connect) -> None:
        """A force-release by a member's name ends that lease only, and a steal names one member."""
        locks = connect(holder="ops")
        first, second = take(locks, "pool://ports/1-2", holder="a"), take(locks, "pool://ports/1-2", holder="b")
        assert locks.force_release("pool://ports/2", by="ops", reason="stuck")
        assert locks.renew(first)
        assert not locks.renew(second)
        assert expect(Refused, locks.steal("pool://ports/1-2", ttl=LONG, by="ops", reason="mine")).field == "resources"
        assert expect(Granted, locks.steal("pool://ports/1", ttl=LONG, by="ops", reason="mine"))
        assert not locks.renew(first)

    def test_pools_take_part_in_deadlocks(self, connect: Connect) -> None:
        """A wait that closes a cycle is refused; one that has another way out is not."""
        a, b, c = connect(holder="a"), connect(holder="b"), connect(holder="c")
        take(a, "pool://two/1")
        other = take(c, "pool://two/2")
        issue = take(b, "issue:1")
        stuck = wait_for(b, "pool://two/1-2")
        free = wait_for(a, "issue:1")  # c can still give its member to b
        release(c, other)
        expect(Granted, stuck.answer())
        release(b, issue)
        expect(Granted, free.answer())

        take(a, "pool://one/1")
        take(b, "issue:2")
        wait_for(b, "pool://one/1")
        cycle = expect(Deadlock, a.acquire("issue:2", ttl=LONG, wait=LONG)).cycle
        assert cycle == ("a", "issue:2", "b", "pool://one/1")

    def test_pools_are_no_deadlock_while_one_member_is_a_way_out(self, connect: Connect) -> None:
        """A stuck waiter for one member keeps nobody from waiting for another, nor does one that is closed for now."""
        needs_fifo(connect)
        a, b, c, d = (connect(holder=holder) for holder in "abcd")
        take(a, "pool://part/1")
        free = take(b, "pool://part/2")
        issue = take(d, "issue:1")
        of_a = wait_for(a, "issue:1")
        of_c = wait_for(c, "pool://part/1")
        whole = wait_for(d, "pool://part/1-2")
        release(b, free)
        assert expect(Granted, whole.answer()).lease.value == "2"
        release(d, issue)
        expect(Granted, of_a.answer())
        assert a.force_release("pool://part/1", by="ops", reason="stuck")
        expect(Granted, of_c.answer())

        take(a, "pool://closed/1")
        take(b, "pool://closed/2", on_expiry="quarantine")
        assert b.force_release("pool://closed/2", by="ops", reason="stuck")
        take(d, "issue:2")
        wait_for(a, "issue:2")
        patient = wait_for(d, "pool://closed/1-2")
        assert d.clear("pool://closed/2", by="ops", reason="looked at it")
        assert expect(Granted, patient.answer()).lease.value == "2"

    def test_pools_give_the_same_member_again(self, connect: Connect) -> None:
        """A retry and a re-entrant request get the lease that is there."""
        locks = connect()
        first = take(locks, PORTS, request_id="r1")
        assert take(locks, PORTS, request_id="r1").lease.value == first.lease.value == "3000"
        again = take(locks, PORTS, reentrant=True, token=first.token)
        assert (again.lease.id, again.lease.value) == (first.lease.id, "3000")
        assert len(inspection(locks, PORTS).leases) == 1

    def test_pools_are_declared_in_the_store(self, connect: Connect) -> None:
        """An admin declares members with labels, for all who share the store; what is left out goes on being held."""
        locks, other = connect(holder="ops"), connect(holder="b")
        declared = ("g0 a100", "g1 h100 fast")
        assert expect(PoolDeclared, locks.declare_pool("pool://gpu", declared, by="ops")).members == declared
        assert expect(PoolDeclared, other.declare_pool("pool://GPU", None, by="b")).members == declared
        first = take(other, "pool://gpu?label=h100", request_id="r1")
        assert first.lease.value == "g1"
        assert take(other, "pool://gpu?label=h100", request_id="r1").lease.id == first.lease.id
        assert take(locks, "pool://gpu").lease.value == "g0"
        assert isinstance(locks.acquire("pool://gpu?label=fast", ttl=LONG, holder="c"), Held)
        assert expect(Refused, locks.acquire("pool://gpu?label=tpu", ttl=LONG)).field == "resources"
        waiting = wait_for(connect(holder="w"), "pool://gpu?label=fast")
        expect(PoolDeclared, locks.declare_pool("pool://gpu", ["g2"], by="ops"))
        assert take(locks, "pool://gpu", holder="d").lease.value == "g2"
        release(locks, first)
        assert expect(Granted, waiting.answer()).lease.value == "g1", "as it was declared when the request came"
        expect(PoolDeclared, locks.declare_pool("pool://gpu", [], by="ops"))
        assert expect(Refused, locks.acquire("pool://gpu", ttl=LONG)).field == "resources"

    def test_pools_that_are_refused(self, connect: Connect) -> None:
        """A pool stands alone in its lease, is exclusive, and names its members clearly."""
        locks = connect()
        wrong("mode", lambda: locks.acquire(PORTS, ttl=LONG, mode="shared"))
        wrong("mode", lambda: locks.acquire(PORTS, ttl=LONG, slots=2))
        wrong("resources", lambda: locks.acquire([PORTS, "issue:1"], ttl=LONG))
        for name in ("pool://p/3-1", "pool://p/a b", "pool://p/", "pool://p/a,,b", "pool:///a", "pool://p/0-10000"):
            wrong("resource", partial(locks.acquire, name, ttl=LONG))
        assert expect(Refused, locks.acquire("pool://undeclared", ttl=LONG)).field == "resources"
        assert locks.list() == ()

"""Plans: soft claims, which show what overlaps, grant nothing and block nobody (spec 3.8)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from leasehold.domain.outcomes import Deadlock, Granted, Held, Planned, Refused, Released, TimedOut
from leasehold.domain.sessions import SessionEnded, SessionRenewed, SessionStarted
from leasehold.testing.conformance.asking import (
    LONG,
    SHORT,
    Asking,
    Connect,
    expect,
    inspection,
    leases_of,
    needs_history,
    queue_of,
    refused,
    release,
    take,
    until,
    wait_for,
    wrong,
)

if TYPE_CHECKING:
    from typing import Any

    from leasehold.domain.plans import Overlap, Plan
    from leasehold.locks.sync import Locks


def _plan(locks: Locks, *resources: str, **options: Any) -> Planned:
    return expect(Planned, locks.plan(list(resources), **{"ttl": LONG, **options}))


def _plans(locks: Locks, **query: Any) -> tuple[Plan, ...]:
    plans = locks.plans(**query)
    assert isinstance(plans, tuple), plans
    return plans


def _cells(overlaps: tuple[Overlap, ...]) -> set[tuple[str, str, str, str]]:
    """Return the cells of a matrix without their times."""
    return {(each.resource, each.state, each.holder, each.other) for each in overlaps}


class Plans:
    """Announcements of what an agent is about to touch."""

    def test_plans_grant_nothing_and_block_nobody(self, connect: Connect) -> None:
        """Two agents plan the same, and a third acquires it."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        _plan(alice, "path:src", "issue:1")
        _plan(bob, "path:src", "repo:x")
        assert leases_of(carol) == ()
        take(carol, ["path:src/a.py", "issue:1"])
        assert queue_of(carol, "path:src") == []
        assert len(_plans(carol)) == 2

    def test_plans_show_what_overlaps_and_since_when(self, connect: Connect) -> None:
        """Plans and leases of others, on the same name, above it, below it and by a pattern; not siblings."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        first = _plan(alice, "path:src/*.py", "path:docs", "issue:1", name="parser", reason="release 2").plan
        assert (first.overlaps, first.resources) == ((), ("path:src/*.py", "path:docs", "issue:1"))
        take(carol, "path:src", name="format")
        mine = _plan(bob, "path:src/a.py", "path:docs/x.md", "path:other", "issue:2").plan
        assert _cells(mine.overlaps) == {
            ("path:src/a.py", "planned", "alice", "path:src/*.py"),
            ("path:docs/x.md", "planned", "alice", "path:docs"),
            ("path:src/a.py", "held", "carol", "path:src"),
        }
        told = next(each for each in mine.overlaps if each.other == "path:docs")
        assert (told.name, told.reason, told.id, told.since_us) == ("parser", "release 2", first.id, first.since_us)
        assert [each.since_us for each in mine.overlaps] == sorted(each.since_us for each in mine.overlaps)

    def test_plans_are_seen_by_everybody_later(self, connect: Connect) -> None:
        """The first to plan sees who came after, in the list of plans and at the resource."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        first = _plan(alice, "path:src", "issue:1").plan
        second = _plan(bob, "path:src/a.py").plan
        listed = _plans(connect(holder="carol"))
        assert [each.id for each in listed] == [first.id, second.id]
        assert _cells(listed[0].overlaps) == {("path:src", "planned", "bob", "path:src/a.py")}
        assert _cells(listed[1].overlaps) == {("path:src/a.py", "planned", "alice", "path:src")}
        assert [each.id for each in _plans(alice, holder="bob")] == [second.id]
        assert [each.id for each in _plans(alice, resource="path:src/b.py")] == [first.id]
        assert _plans(alice, space="elsewhere") == ()
        assert [each.id for each in inspection(alice, "path:src/b.py").plans] == [first.id]
        assert inspection(alice, "issue:2").plans == ()

    def test_plans_show_who_waits(self, connect: Connect) -> None:
        """A request in the queue is a stronger claim than a plan, so the matrix has it, too."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        held = take(alice, "issue:1")
        waiting = wait_for(bob, "issue:1")
        cells = _cells(_plan(carol, "issue:1").plan.overlaps)
        assert cells == {("issue:1", "held", "alice", "issue:1"), ("issue:1", "waiting", "bob", "issue:1")}
        release(alice, held)
        expect(Granted, waiting.answer())

    def test_plans_turn_into_leases(self, connect: Connect) -> None:
        """A name that is acquired with the plan's token leaves it; the plan ends with its last name."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        mine = _plan(alice, "path:src/a.py", "path:src/b.py", "issue:1")
        theirs = _plan(bob, "path:src/a.py")
        take(alice, "path:src/a.py", token=mine.token)
        now = {each.id: each for each in _plans(alice)}
        assert now[mine.plan.id].resources == ("path:src/b.py", "issue:1")
        assert _cells(now[theirs.plan.id].overlaps) == {("path:src/a.py", "held", "alice", "path:src/a.py")}
        assert inspection(alice, "path:src/a.py").plans[0].holder == "bob"
        take(alice, ["path:src/b.py", "issue:1"], token=mine.token)
        assert [each.holder for each in _plans(alice)] == ["bob"]

    def test_plans_show_no_lease_and_no_wait_of_their_own(self, connect: Connect) -> None:
        """Leases that the agent proved to be its own are no conflict, in the answer and in every later list."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        before = take(alice, "path:src/a.py")
        mine = _plan(alice, "path:src", "path:lib", token=before.token)
        take(alice, ["path:src/b.py", "path:lib"], token=mine.token)
        assert (mine.plan.overlaps, [each.overlaps for each in _plans(bob)]) == ((), [()])
        other = take(bob, "path:src/c.py")
        again = _plan(alice, "path:src", token=mine.token)
        waiting = wait_for(alice, "path:src/c.py", token=again.token)
        assert _cells(again.plan.overlaps) == {("path:src", "held", "bob", "path:src/c.py")}
        assert _cells(_plans(bob)[0].overlaps) == _cells(again.plan.overlaps)
        release(bob, other)
        expect(Granted, waiting.answer())
        take(alice, "path:src/d.py")  # without proof, a namesake's
        assert _cells(_plans(bob)[0].overlaps) == {("path:src", "held", "alice", "path:src/d.py")}

    def test_plans_of_a_directory_outlive_a_lease_on_a_part_of_it(self, connect: Connect) -> None:
        """A lease on a file takes nothing out of a planned directory; one on a directory or pattern takes its files."""
        alice = connect(holder="alice")
        mine = _plan(alice, "path:src", "path:lib/a.py", "path:lib/b.py", "path:lib/c.txt")
        take(alice, "path:src/a.py", token=mine.token)
        take(alice, "path:lib/*.py", token=mine.token)
        assert _plans(alice)[0].resources == ("path:src", "path:lib/c.txt")

    def test_plans_turn_into_leases_by_proof_alone(self, connect: Connect) -> None:
        """Never for a name: without the token or the session, the plan stays as it is."""
        alice, namesake = connect(holder="alice"), connect(holder="alice")
        mine, theirs = _plan(alice, "issue:1", "issue:2"), _plan(namesake, "issue:9").token
        take(namesake, "issue:1")
        take(namesake, "issue:2", token=theirs)
        assert _plans(alice)[0].resources == ("issue:1", "issue:2")
        again = _plan(namesake, "issue:1").plan
        assert {each.id for each in _plans(alice)} >= {mine.plan.id, again.id}
        assert ("issue:1", "planned", "alice", "issue:1") in _cells(again.overlaps)

    def test_plans_turn_into_leases_from_the_queue(self, connect: Connect) -> None:
        """A request that waited takes its names out of the plan when it is served."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        held = take(bob, "issue:1")
        mine = _plan(alice, "issue:1", "issue:2")
        waiting = wait_for(alice, "issue:1", token=mine.token)
        assert _plans(bob)[0].resources == ("issue:1", "issue:2")
        release(bob, held)
        expect(Granted, waiting.answer())
        assert _plans(bob)[0].resources == ("issue:2",)

    def test_plans_are_replaced_by_their_agent(self, connect: Connect) -> None:
        """A plan announced with the token of the one before takes its place, and is as old if it adds nothing."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        first = _plan(alice, "issue:1", "issue:2")
        fewer = _plan(alice, "issue:2", token=first.token)
        assert fewer.plan.since_us == first.plan.since_us
        more = _plan(alice, "issue:2", "issue:3", token=fewer.token)
        assert more.plan.since_us > first.plan.since_us
        assert [each.id for each in _plans(bob)] == [more.plan.id]
        other = _plan(bob, "issue:3", token=more.token)  # another holder's: it stays
        assert [each.id for each in _plans(bob)] == [more.plan.id, other.plan.id]

    def test_plans_are_ended_by_their_token(self, connect: Connect) -> None:
        """Once; and nobody else ends them, but an admin."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        mine = _plan(alice, "issue:1", "issue:2")
        refused(bob.release(mine.plan.id, "made up"), "not_allowed", "token")
        ended = expect(Released, alice.release(mine))
        assert (ended.released, ended.lease, ended.resources) == (True, mine.plan.id, ("issue:1", "issue:2"))
        assert not alice.release(mine.plan.id, mine.token)
        assert _plans(bob) == ()
        theirs = _plan(bob, "issue:1")
        assert alice.release(theirs.plan.id, admin="ops")
        digits, _, home = mine.plan.id[1:].partition("-")
        refused(alice.release(f"p{int(digits) + 1_000_000}-{home}", mine.token), "not_found", "lease")

    def test_plans_expire(self, connect: Connect) -> None:
        """As leases do, and nothing is left of them."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        mine = _plan(alice, "path:src", ttl=SHORT)
        until(lambda: _plans(bob) == (), "the plan has expired")
        assert inspection(bob, "path:src/a.py").plans == ()
        assert _plan(bob, "path:src").plan.overlaps == ()
        assert not alice.release(mine)

    def test_plans_end_with_their_session(self, connect: Connect) -> None:
        """The session's secret is the proof: it replaces, turns into leases, renews with the heartbeat, and ends."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        secret = expect(SessionStarted, alice.start_session(ttl=LONG)).secret
        first = _plan(alice, "issue:1", session=secret).plan
        take(alice, "issue:3", session=secret)
        second = _plan(alice, "issue:1", "issue:2", "issue:3", session=secret).plan
        assert (second.overlaps, second.session) == ((), secret.partition(".")[0])
        assert [each.id for each in _plans(bob)] == [second.id] != [first.id]
        take(alice, "issue:1", session=secret)
        assert _plans(bob)[0].resources == ("issue:2", "issue:3")
        expect(SessionRenewed, alice.renew_session(secret))
        assert _plans(bob)[0].expires_us > second.expires_us
        expect(SessionEnded, alice.end_session(secret))
        assert _plans(bob) == ()
        refused(alice.plan("issue:1", ttl=LONG, session=secret), "session_over", "session")

    def test_plans_that_are_firm_queue_all_at_once(self, connect: Connect) -> None:
        """A firm plan is an acquire of all of it: one place in every queue, in order, granted whole."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        held = take(alice, "issue:1")
        firm: Asking[object] = Asking(lambda: bob.plan(["issue:1", "issue:2"], ttl=LONG, firm=True, wait=LONG))
        until(lambda: queue_of(carol, "issue:2") == ["bob"], "bob is in the queue")
        assert isinstance(carol.acquire("issue:2", ttl=LONG), Held)
        release(alice, held)
        got = expect(Granted, firm.answer())
        assert got.lease.resources == ("issue:1", "issue:2")
        assert isinstance(carol.plan("issue:2", ttl=LONG, firm=True, wait=SHORT), TimedOut)
        assert _plans(carol) == ()

    def test_plans_that_are_firm_are_seen_and_end_with_their_session(self, connect: Connect) -> None:
        """The matrix of others has it as waiting; names that it is granted leave the plan of its session."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        held = take(alice, "issue:1")
        for ends in (False, True):
            secret = expect(SessionStarted, bob.start_session(ttl=LONG)).secret
            _plan(bob, "issue:1", "issue:2", "issue:3", session=secret)
            terms = {"ttl": LONG, "firm": True, "wait": LONG, "session": secret}
            firm: Asking[object] = Asking(partial(bob.plan, ["issue:1", "issue:2"], **terms))
            until(lambda: queue_of(carol, "issue:2") == ["bob"], "bob is in the queue")
            seen = _plan(carol, "issue:2")
            assert ("issue:2", "waiting", "bob", "issue:2") in _cells(seen.plan.overlaps)
            own = _plans(carol, holder="bob")[0].overlaps
            assert {(each.state, each.holder) for each in own} == {("held", "alice"), ("planned", "carol")}
            carol.release(seen)
            if ends:
                expect(SessionEnded, bob.end_session(secret))
                assert expect(Refused, firm.answer()).code == "session_over"
                assert queue_of(carol, "issue:2") == []
            else:
                release(alice, held)
                got = expect(Granted, firm.answer())
                assert _plans(carol, holder="bob")[0].resources == ("issue:3",)
                expect(SessionEnded, bob.end_session(secret))
                assert not bob.renew(got.lease.id, got.token)
                held = take(alice, "issue:1")

    def test_plans_that_are_firm_are_checked_for_deadlocks(self, connect: Connect) -> None:
        """A firm plan that would close a cycle is refused with it."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "issue:1")
        held = take(bob, "issue:2")
        waiting = wait_for(alice, "issue:2")
        cycle = expect(Deadlock, bob.plan(["issue:1", "issue:3"], ttl=LONG, firm=True, wait=LONG)).cycle
        assert cycle == ("bob", "issue:1", "alice", "issue:2")
        release(bob, held)
        expect(Granted, waiting.answer())

    def test_plans_are_in_the_history(self, connect: Connect) -> None:
        """When each began, and why it ended."""
        needs_history(connect)
        alice = connect(holder="alice")
        mine = _plan(alice, "issue:1", name="parser")
        take(alice, "issue:1", token=mine.token)
        told = alice.history(kinds=["planned", "plan_ended"])
        assert isinstance(told, tuple)
        assert [(each.kind, each.lease, each.resources) for each in told] == [
            ("plan_ended", mine.plan.id, ("issue:1",)),
            ("planned", mine.plan.id, ("issue:1",)),
        ]
        assert (told[0].detail["reason"], told[1].detail["name"]) == ("leased", "parser")

    def test_plans_have_bounds(self, connect: Connect) -> None:
        """Sixteen plans a holder, sixty-four names a plan, and no pools."""
        alice = connect(holder="alice")
        for number in range(16):
            _plan(alice, f"issue:{number}")
        refused(alice.plan("issue:99", ttl=LONG), "too_many", "holder")
        wrong("resources", lambda: alice.plan([f"issue:{number}" for number in range(65)], ttl=LONG))
        wrong("resources", lambda: alice.plan("pool://ports/1-9", ttl=LONG))
        assert len(_plans(alice)) == 16

"""Patterns: a lease on every path that matches, existing or not, atomically at acquire (spec 2)."""

from __future__ import annotations

from leasehold.domain.leases import Queue
from leasehold.domain.outcomes import Deadlock, Granted, Held, Refused
from leasehold.testing.conformance.asking import (
    LONG,
    PATIENCE,
    SHORT,
    Connect,
    at_once,
    expect,
    holders_of,
    inspection,
    queue_of,
    refuse_each_other,
    release,
    take,
    until_time_has_passed,
    wait_for,
    wrong,
)

PYTHON = "path:src/**/*.py"
MEETING = (
    (PYTHON, "path:src/a.py"),
    (PYTHON, "path:src/a/b/c.py"),
    (PYTHON, "path:src"),
    (PYTHON, "path:src/lib"),
    (PYTHON, "path:."),
    (PYTHON, "repo:deploy"),
    (PYTHON, "path:**/a.py"),
    (PYTHON, "path:src/lib/*"),
    ("path:*", "path:docs"),
    ("path:**", "path:docs/a/b"),
    ("path:docs/[a-c]?.md", "path:docs/b1.md"),
    (r"path:app/\[slug]/*", r"path:app/\[slug]/page.tsx"),
)
APART = (
    (PYTHON, "path:src/a.rs"),
    (PYTHON, "path:srcs/a.py"),
    (PYTHON, "path:**/*.rs"),
    (PYTHON, "path:docs/**"),
    (PYTHON, "issue:42"),
    (PYTHON, "src/a.py"),
    ("path:*.md", "path:docs/a.md"),
    ("path:docs/[a-c]?.md", "path:docs/d1.md"),
    (r"path:app/\[slug]/*", "path:app/s/page.tsx"),
)


class Patterns:
    """Leases on names with wildcards."""

    def test_patterns_conflict_in_both_directions(self, connect: Connect) -> None:
        """The second caller is refused, and learns what is in the way."""
        refuse_each_other(connect, MEETING)

    def test_patterns_leave_alone_what_they_do_not_match(self, connect: Connect) -> None:
        """Not all that lies in the same directory."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        for first, second in [*APART, *((other, pattern) for pattern, other in APART)]:
            both = take(alice, first), take(bob, second)
            assert holders_of(alice, second) == ["bob"]
            release(alice, both[0])
            release(bob, both[1])

    def test_patterns_of_readers(self, connect: Connect) -> None:
        """Readers go together; a writer goes with no reader of what it would write."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, PYTHON, mode="shared")
        for name in (PYTHON, "path:src/a.py", "path:**/b.py", "path:src/lib"):
            release(bob, take(bob, name, mode="shared"))
            expect(Held, bob.acquire(name, ttl=LONG))
        take(bob, "path:src/a.rs")

    def test_patterns_have_slots_of_their_own(self, connect: Connect) -> None:
        """Slots count the takers of one pattern; what else it meets excludes them all."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        take(alice, PYTHON, slots=2)
        take(bob, PYTHON, slots=2)
        expect(Held, carol.acquire(PYTHON, ttl=LONG, slots=2))
        expect(Held, carol.acquire("path:src/*.py", ttl=LONG, slots=2))
        assert expect(Refused, carol.acquire(PYTHON, ttl=LONG, slots=3)).code == "slots_mismatch"

    def test_patterns_among_several_names(self, connect: Connect) -> None:
        """All or nothing, with patterns and paths in one directory."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        granted = take(alice, ["path:src/a.rs", "path:src/*.py", "path:src/b.*", "deploy://api"])
        for name in ("path:src/a.rs", "path:src/x.py", "path:src/b.txt"):
            expect(Held, bob.acquire([name, "plain"], ttl=LONG))
        release(bob, take(bob, ["path:src/c.txt", "plain"]))
        release(alice, granted)
        take(bob, ["path:src", "plain"])

    def test_patterns_are_decided_at_once_among_many(self, connect: Connect) -> None:
        """However many ask at the same moment for patterns, paths and directories, no two that meet are granted."""
        names = ["path:src/*.py", "path:**/a.py", "path:src/a.py", "path:src", "path:src/b.py", "path:**"]
        callers = [(connect(holder=f"h{place}"), name) for place, name in enumerate(names)]
        answers = at_once(lambda caller: caller[0].acquire(caller[1], ttl=LONG), callers)
        won = {name for name, answer in zip(names, answers, strict=True) if isinstance(answer, Granted)}
        assert (
            won in ({name} for name in names)
            or won <= {"path:**/a.py", "path:src/b.py"}
            or won
            <= {
                "path:src/a.py",
                "path:src/b.py",
            }
        ), won

    def test_patterns_wait_for_every_match(self, connect: Connect) -> None:
        """The waiter is served when the last lease that it meets has ended, and holds nothing before."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        first, second, other = (
            take(alice, "path:src/a.py"),
            take(alice, "path:src/x/b.py"),
            take(alice, "path:src/c.rs"),
        )
        asking = wait_for(bob, PYTHON)
        release(alice, first)
        assert queue_of(alice, PYTHON) == queue_of(alice, "path:src/x/b.py") == ["bob"]
        assert queue_of(alice, "path:src/c.rs") == []
        release(alice, second)
        expect(Granted, asking.answer())
        assert holders_of(alice, "path:src/c.rs") == ["alice"]
        release(alice, other)

    def test_patterns_serve_a_waiter_for_a_match(self, connect: Connect) -> None:
        """The end of a pattern's lease serves waiters for paths, directories and other patterns."""
        alice = connect(holder="alice")
        granted = take(alice, PYTHON)
        names = ("path:src/a.py", "path:src/b.py", "path:**/c.py")
        asking = [wait_for(connect(holder=name), name) for name in names]
        release(alice, granted)
        for each in asking:
            expect(Granted, each.answer())

    def test_patterns_are_not_overtaken(self, connect: Connect) -> None:
        """Newcomers queue behind a pattern that waits, if they meet it; all others pass."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        first = take(alice, "path:src/a.py")
        asking = wait_for(bob, PYTHON)
        held = expect(Held, alice.acquire("path:src/b.py", ttl=LONG))
        assert [(each.holder, each.state) for each in held.blockers] == [("bob", "waiting")]
        assert held.queue == Queue(length=2, position=2)
        release(alice, take(alice, "path:src/b.rs"))
        release(alice, first)
        expect(Granted, asking.answer())

    def test_patterns_in_a_deadlock(self, connect: Connect) -> None:
        """A pattern and a path that it matches are in each other's way, and the cycle says so."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "path:src/a.py")
        take(bob, "path:docs/*.md")
        wait_for(alice, "path:docs/x.md")
        deadlock = expect(Deadlock, bob.acquire(PYTHON, ttl=LONG, wait=PATIENCE))
        assert deadlock.cycle == ("bob", PYTHON, "alice", "path:docs/x.md")

    def test_patterns_cover_what_they_match(self, connect: Connect) -> None:
        """With proof, the holder of a pattern gets its lease back for a path in it, and a new one for all else."""
        first = take(connect(holder="alice"), PYTHON)
        alice = connect(holder="alice")
        again = take(alice, "path:src/x/a.py", reentrant=True, token=first.token)
        assert (again.lease.id, again.fresh) == (first.lease.id, False)
        other = take(alice, "path:src/a.rs", reentrant=True, token=first.token)
        assert other.fresh
        held = expect(Held, alice.acquire("path:src/x", ttl=LONG, reentrant=True, token=first.token))
        assert [blocker.yours for blocker in held.blockers] == [True]

    def test_patterns_are_covered_by_their_directory(self, connect: Connect) -> None:
        """The lease on a directory is the lease on every pattern in it."""
        first = take(connect(holder="alice"), "path:src")
        again = take(connect(holder="alice"), PYTHON, reentrant=True, token=first.token)
        assert again.lease.id == first.lease.id

    def test_patterns_in_quarantine_close_every_match(self, connect: Connect) -> None:
        """A quarantine of a pattern lasts until an admin clears it."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, PYTHON, ttl=SHORT, on_expiry="quarantine")
        until_time_has_passed(lambda: inspection(bob, PYTHON).closed, "the quarantine")
        held = expect(Held, bob.acquire("path:src/a.py", ttl=LONG))
        assert [(each.resource, each.state) for each in held.blockers] == [(PYTHON, "quarantined")]
        release(bob, take(bob, "path:src/a.rs"))
        bob.clear(PYTHON, reason="looked at it", by="ops")
        take(bob, "path:src/a.py")

    def test_patterns_are_taken_over_as_a_whole(self, connect: Connect) -> None:
        """An admin who steals a path ends the lease on the pattern that matches it, and no other."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, PYTHON)
        take(alice, "path:src/a.rs")
        expect(Granted, bob.steal("path:src/a.py", ttl=LONG, by="ops", reason="urgent"))
        assert holders_of(bob, PYTHON) == ["bob"]
        assert holders_of(bob, "path:src/a.rs") == ["alice"]

    def test_patterns_must_be_whole(self, connect: Connect) -> None:
        """A set that is never closed is refused, with the way to mean the character itself."""
        refusal = wrong("resource", lambda: connect().acquire("path:src/[a", ttl=LONG))
        assert r"write '\['" in str(refusal)

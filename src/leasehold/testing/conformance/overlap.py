"""Overlap: a directory and what is in it, a repository and everything in it, atomically at acquire (spec 2)."""

from __future__ import annotations

from leasehold.domain.leases import Queue
from leasehold.domain.outcomes import Granted, Held
from leasehold.requests.checks import Settings
from leasehold.testing.conformance.asking import (
    LONG,
    Connect,
    at_once,
    expect,
    inspection,
    queue_of,
    refuse_each_other,
    release,
    take,
    wait_for,
)

OVERLAPPING = (
    ("path:src", "path:src/auth.rs"),
    ("path:src", "path:src/a/b/c/d"),
    ("path:.", "path:src/a.py"),
    ("path:.", "path:src"),
    ("repo:deploy", "repo:other"),
    ("repo:deploy", "path:src/a.py"),
    ("repo:deploy", "path:."),
    ("repo:deploy", "issue:42"),
)
APART = (
    ("path:src", "path:srcs"),
    ("path:src/a.py", "path:src/b.py"),
    ("path:src/a", "path:src/a.py"),
    ("issue:42", "issue:42/1"),
    ("issue:42", "path:42"),
    ("s3://bucket/a", "s3://bucket"),
    ("plain/a", "plain"),
    ("repo:deploy", "deploy://api"),
    ("repo:deploy", "plain"),
)


class Overlap:
    """Names that conflict although they are not the same."""

    def test_overlap_conflicts_in_both_directions(self, connect: Connect) -> None:
        """The second caller is refused, and learns what is in the way."""
        refuse_each_other(connect, OVERLAPPING)

    def test_overlap_ends_where_names_only_look_alike(self, connect: Connect) -> None:
        """A common beginning is no overlap."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        for one, other in APART:
            both = take(alice, one), take(bob, other)
            for granted in both:
                release(alice, granted)

    def test_overlap_stays_within_its_space(self, connect: Connect) -> None:
        """Another space has another repository."""
        take(connect(space="one"), "repo:deploy")
        take(connect(space="two"), "path:src")

    def test_overlap_of_readers(self, connect: Connect) -> None:
        """Readers of a directory and of a file in it go together; a writer goes with neither."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "path:src", mode="shared")
        take(bob, "path:src/a.py", mode="shared")
        expect(Held, bob.acquire("path:src/b.py", ttl=LONG))
        expect(Held, bob.acquire("path:.", ttl=LONG))
        expect(Held, alice.acquire("repo:all", ttl=LONG))
        take(bob, "path:src/b.py", mode="shared")

    def test_overlap_is_decided_at_once_among_many(self, connect: Connect) -> None:
        """However many ask for parts and the whole at the same moment, the whole excludes every part."""
        names = ["path:src", "path:src/a", "path:src", "path:src/b", "repo:all", "path:src/a/x"]
        callers = [(connect(holder=f"h{place}"), name) for place, name in enumerate(names)]
        answers = at_once(lambda caller: caller[0].acquire(caller[1], ttl=LONG), callers)
        won = [name for name, answer in zip(names, answers, strict=True) if isinstance(answer, Granted)]
        assert won
        whole = [name for name in won if name in ("path:src", "repo:all")]
        assert not whole or len(won) == 1, won
        assert not {"path:src/a", "path:src/a/x"} <= set(won), won

    def test_overlap_of_a_scheme_that_the_settings_make_hierarchical(self, connect: Connect) -> None:
        """An installation decides which other schemes are trees."""
        settings = Settings(hierarchical=frozenset({"s3"}))
        alice, bob = connect(holder="alice", settings=settings), connect(holder="bob", settings=settings)
        take(alice, "s3://bucket/data")
        expect(Held, bob.acquire("s3://bucket/data/2024", ttl=LONG))
        expect(Held, bob.acquire("s3://bucket", ttl=LONG))
        take(bob, "s3://bucket/database")
        take(bob, "gs://bucket/data")

    def test_overlap_makes_the_whole_wait_for_every_part(self, connect: Connect) -> None:
        """A waiter for a directory is served when the last lease in it has ended."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        first, second = take(alice, "path:src/a"), take(alice, "path:src/b")
        asking = wait_for(bob, "path:src")
        release(alice, first)
        assert queue_of(alice, "path:src") == ["bob"]
        release(alice, second)
        expect(Granted, asking.answer())
        assert [lease.holder for lease in inspection(alice, "path:src/a").leases] == ["bob"]

    def test_overlap_keeps_newcomers_behind_who_waits_for_the_whole(self, connect: Connect) -> None:
        """A directory's waiter is not starved by files that come and go."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        first = take(alice, "path:src/a")
        asking = wait_for(bob, "path:src")
        held = expect(Held, alice.acquire("path:src/b", ttl=LONG))
        assert [(each.holder, each.state) for each in held.blockers] == [("bob", "waiting")]
        release(alice, first)
        expect(Granted, asking.answer())

    def test_overlap_shows_everybody_who_waits(self, connect: Connect) -> None:
        """For the thing itself, and for what is above or below it; not for its siblings."""
        alice, bob, carl, dora = (connect(holder=name) for name in ("alice", "bob", "carl", "dora"))
        held = take(alice, "path:src/a.py")
        other = take(alice, "path:src/b.py")
        asking = [wait_for(bob, "path:src"), wait_for(carl, "path:."), wait_for(dora, "path:src/b.py")]
        assert [queue_of(alice, name) for name in ("path:src/a.py", "path:src", "path:.")] == [
            ["bob", "carl"],
            ["bob", "carl", "dora"],
            ["bob", "carl", "dora"],
        ]
        refusal = expect(Held, alice.acquire("path:src/a.py", ttl=LONG))
        assert refusal.queue == Queue(length=3, position=3)
        release(alice, held)
        release(alice, other)
        for waiting in asking:
            granted = expect(Granted, waiting.answer())
            release(alice, granted)

    def test_overlap_of_a_repository_shows_everybody_who_waits(self, connect: Connect) -> None:
        """Whatever they wait for in it."""
        alice = connect(holder="alice")
        held = take(alice, "repo:dep")
        names = [f"issue:{number}" for number in range(4)]
        asking = [wait_for(connect(holder=name), name) for name in names]
        assert queue_of(alice, "repo:dep") == queue_of(alice, "repo:other") == names
        assert queue_of(alice, "issue:2") == ["issue:2"]
        assert expect(Held, alice.acquire("repo:dep", ttl=LONG)).queue == Queue(length=5, position=5)
        release(alice, held)
        for waiting in asking:
            expect(Granted, waiting.answer())

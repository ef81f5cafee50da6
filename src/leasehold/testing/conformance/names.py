"""Names: three spellings, one normal form, and a refusal that names the rule for everything else (spec 2)."""

from __future__ import annotations

from functools import partial

from leasehold.domain.outcomes import Held
from leasehold.testing.conformance.asking import LONG, Connect, expect, leases_of, release, take, wrong

SAME = (
    ("path:./src//a.py", "path:src/a.py"),
    ("path:src/", "path:src"),
    ("path:src/./b/../a.py", "path:src/a.py"),
    ("path:src\\a.py", "path:src/a.py"),
    ("PATH:src/a.py", "path:src/a.py"),
    ("Issue:8057324b", "issue:8057324b"),
    ("GitHub://ACME/app/issues/42", "github://acme/app/issues/42"),
    ("DEPLOY://API-prod", "deploy://api-prod"),
    ("nightly-report", "nightly-report"),
    ("Übersicht über alles", "Übersicht über alles"),
    ("C:/windows", "c:/windows"),
)
"""Another spelling, and the normal one."""

DIFFERENT = (
    ("github://acme/app/issues/42", "github://acme/app/Issues/42"),
    ("issue:ab", "issue:AB"),
    ("nightly", "Nightly"),
    ("issue:1", "path:1"),
    ("issue:1", "issue:2"),
    ("deploy://api", "deploy://api/"),
    ("deploy:api", "deploy://api"),
    ("a b", "a  b"),
)
"""Names that look alike and are not the same."""

BAD = (
    ("", "bytes are needed"),
    (" a", "no blanks are allowed"),
    ("a\t", "no control characters"),
    ("a\u00a0", "no blanks are allowed"),
    ("a\nb", "no control characters"),
    ("a\x1b[31mb", "no control characters"),
    ("a\u2028b", "no control characters"),
    ("x" * 513, "bytes of UTF-8 are allowed"),
    ("é" * 257, "bytes of UTF-8 are allowed"),
    ("\ud800", "only text that UTF-8 can tell"),
    ("issue:", "something must follow"),
    ("deploy://", "something must follow"),
    ("path://src", "without the slashes"),
    ("my_app://x", "goes a letter"),
    ("path:../x", "must stay inside the root"),
    ("path:a/../../b", "must stay inside the root"),
    ("path:/etc/passwd", "is relative to the root"),
    ("path:C:\\x", "is relative to the root"),
)
"""Strings that cannot be a name, and the words that say why."""


class Names:
    """The names of resources, and when two names are the same."""

    def test_names_that_are_the_same_resource(self, connect: Connect) -> None:
        """Another spelling leads to the same lease, under its normal name."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        for spelled, normal in SAME:
            granted = take(alice, spelled)
            assert granted.lease.resources == (normal,)
            held = expect(Held, bob.acquire(normal, ttl=LONG))
            assert [blocker.lease for blocker in held.blockers] == [granted.lease.id]
            assert leases_of(bob, resource=spelled) == (granted.lease,)
            release(alice, granted)

    def test_names_that_are_different_resources(self, connect: Connect) -> None:
        """Only what the rules make equal is equal."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        for one, other in DIFFERENT:
            both = take(alice, one), take(bob, other)
            assert [granted.lease.resources for granted in both] == [(one,), (other,)]
            for granted in both:
                release(alice, granted)

    def test_names_live_in_a_space(self, connect: Connect) -> None:
        """The same name in another space is another resource, and listed by its space."""
        ours, theirs = connect(space="org/ours"), connect(space="org/theirs")
        mine, other = take(ours, "issue:1").lease, take(theirs, "issue:1").lease
        assert (mine.space, other.space) == ("org/ours", "org/theirs")
        assert leases_of(ours, space="org/ours") == (mine,)
        assert set(leases_of(ours)) == {mine, other}

    def test_names_that_are_refused(self, connect: Connect) -> None:
        """The refusal names the rule, and nothing has changed."""
        locks = connect()
        for name, rule in BAD:
            for asked in (name, ["good", name]):
                refusal = wrong("resource", partial(locks.acquire, asked, ttl=LONG))
                assert rule in refusal.message, (name, refusal)
        assert leases_of(locks) == ()
        take(locks, "good")

    def test_names_up_to_512_bytes(self, connect: Connect) -> None:
        """The bound is in bytes, not in characters."""
        locks = connect()
        for name in ("x" * 512, "é" * 256):
            assert take(locks, name).lease.resources == (name,)

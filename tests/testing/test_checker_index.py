"""The checker finds exactly the overlaps that comparing all with all would find."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import hypothesis.strategies as st
from hypothesis import given, settings

from leasehold.domain.names import overlaps
from leasehold.testing.checker import check
from leasehold.testing.invariants.places import Index, lineage
from tests.testing.story import Story

if TYPE_CHECKING:
    from leasehold.domain.events import Event

HIERARCHICAL = frozenset({"s3", "db"})
NAMES = (
    *("a", "b", "my:thing", "Repo", "issue:1", "issue:2", "repo:x", "repo:y", "repo:"),
    *("path:.", "path:a", "path:a/b", "path:a/b/c", "path:ab", "path:a/c", "path:b"),
    *("path:a/*", "path:**/b", "path:a/**/*.py", "path:a/x.py", "path:a/x.rs", "path:**", "path:[ab]/c"),
    *(
        "s3://k",
        "s3://k/a",
        "s3://k/a/",
        "s3://k//a/b",
        "s3://kk",
        "s3:k",
        "s3:k/a",
        "db:x",
        "db:x/y",
        "s4://k",
        "s4://k/a",
    ),
)


class Lease(NamedTuple):
    names: list[str]
    mode: str
    life: int
    released: bool


class Thing(NamedTuple):
    order: tuple[int, int]
    name: str

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)


leases = st.builds(
    Lease,
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True),
    st.sampled_from("XXS"),
    st.integers(1, 8),
    st.booleans(),
)


@given(st.lists(leases, max_size=25))
@settings(deadline=None)
def test_overlaps_are_found_as_by_comparing_all_with_all(wanted: list[Lease]) -> None:
    story = Story()
    granted: list[Event] = []
    ends: dict[str | None, int] = {}
    for at, lease in enumerate(wanted):
        for old, terms in zip(granted[:-2], wanted, strict=False):
            if terms.released and ends[old.lease] > at:
                story.then("released", at, old)
                ends[old.lease] = at
        event = story.grant(at, f"holder {at}", *lease.names, mode=lease.mode, ttl=lease.life)
        granted.append(event)
        ends[event.lease] = at + lease.life
    expected = {
        (old.lease, new.lease)
        for old, new in combinations(granted, 2)
        if (old.detail["mode"], new.detail["mode"]) != ("S", "S")
        and any(overlaps(mine, yours, HIERARCHICAL) for mine in old.resources for yours in new.resources)
        and ends[old.lease] > new.at_us
    }
    found = check(story.events, hierarchical=HIERARCHICAL)
    assert {each.kind for each in found} <= {"overlap"}
    assert {(each.events[0].lease, each.events[1].lease) for each in found} == expected


@given(st.lists(st.sampled_from(NAMES), max_size=20), st.sampled_from(NAMES))
def test_the_index_finds_all_that_overlaps_and_nothing_else(names: list[str], name: str) -> None:
    index: Index[Thing] = Index(HIERARCHICAL)
    things = [Thing((0, number), each) for number, each in enumerate(names)]
    for thing in things:
        index.add("default", [thing.name], thing)
    found = sorted(index.near("default", [name]))
    assert found == [thing for thing in things if overlaps(thing.name, name, HIERARCHICAL)]
    assert sorted(index.near("default", [name], before=(0, 7))) == [thing for thing in found if thing.order < (0, 7)]
    assert index.near("elsewhere", [name]) == []
    for thing in things:
        index.remove("default", [thing.name], thing)
    assert index.near("default", [name]) == []


def test_a_lineage_follows_from_the_name_alone() -> None:
    assert lineage("path:a/b") == ("path:a/b", "path:a", "path:.", "repo:")
    assert lineage("path:.") == ("path:.", "repo:")
    assert lineage("issue:1") == ("issue:1", "repo:")
    assert lineage("repo:x") == ("repo:",)
    assert lineage("file:///etc/x", frozenset({"file"})) == ("file:///etc/x", "file:///etc", "file://")
    assert lineage("file:///etc/x") == ("file:///etc/x",)

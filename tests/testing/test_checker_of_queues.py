"""The checker finds everybody who was served before somebody that had been there first."""

from __future__ import annotations

import pytest

from tests.testing.story import Story, waiter


def queue_of_two(first: int = 0, second: int = 0) -> Story:
    """Ann waits, then bob, for what is free now."""
    story = Story()
    gus = story.grant(0, "gus", "a")
    story.queue(1, "ann", "a", priority=first)
    story.queue(2, "bob", "a", priority=second)
    story.then("released", 3, gus)
    return story


def test_a_try_that_barges() -> None:
    story = queue_of_two()
    story.grant(4, "cyd", "a")
    assert story.kinds() == {"fifo"}


def test_a_later_waiter_that_is_served_first() -> None:
    story = queue_of_two()
    story.grant(4, "bob", "a", waiter=waiter("bob"))
    assert story.kinds() == {"fifo"}


@pytest.mark.parametrize(("first", "second", "served"), [(0, 1, "ann"), (1, 0, "bob"), (-1, -2, "bob"), (5, 5, "bob")])
def test_a_priority_that_is_ignored(first: int, second: int, served: str) -> None:
    story = queue_of_two(first, second)
    story.grant(4, served, "a", waiter=waiter(served))
    assert story.kinds() == {"fifo"}


def test_a_try_needs_a_higher_priority_than_the_waiters() -> None:
    for priority, kinds in ((0, {"fifo"}), (3, {"fifo"}), (4, set())):
        story = queue_of_two(3, 3)
        story.grant(4, "cyd", "a", priority=priority)
        assert story.kinds() == kinds


@pytest.mark.parametrize("mode", ["S", "N"])
def test_an_exclusive_waiter_is_not_starved(mode: str) -> None:
    story = Story()
    story.grant(0, "ann", "a", mode=mode, slots=2 if mode == "N" else 1)
    story.queue(1, "bob", "a")
    story.grant(2, "cyd", "a", mode=mode, slots=2 if mode == "N" else 1)
    assert story.kinds() == {"fifo"}


@pytest.mark.parametrize(
    ("waits", "comes"),
    [
        ("path:src", "path:src/a.py"),
        ("path:src/a.py", "path:src"),
        ("repo:x", "issue:7"),
        ("issue:7", "repo:y"),
        ("path:a", "repo:y"),
    ],
)
def test_an_overtaking_by_a_name_that_covers_the_other(waits: str, comes: str) -> None:
    story = Story()
    story.queue(0, "ann", waits)
    story.grant(1, "bob", comes)
    assert story.kinds() == {"fifo"}


@pytest.mark.parametrize("any_of", [True, False])
@pytest.mark.parametrize("name", ["a", "b"])
def test_a_waiter_for_several_keeps_its_place_everywhere(any_of: bool, name: str) -> None:
    story = Story()
    story.queue(0, "ann", "a", "b", any_of=any_of)
    story.grant(1, "bob", name, "c")
    assert story.kinds() == {"fifo"}


def test_a_slot_that_a_waiter_ahead_wants() -> None:
    story = Story()
    story.grant(0, "gus", "b", mode="N", slots=2)
    story.queue(1, "ann", "a", "b", mode="N", slots=2)
    story.queue(2, "bob", "a", "b", mode="N", slots=2)
    story.grant(3, "cyd", "a", mode="N", slots=2)
    assert story.kinds() == {"fifo"}


def test_a_wait_that_has_ended_does_not_count() -> None:
    story = Story()
    ann = story.queue(0, "ann", "a")
    story.leave("cancelled", 1, ann)
    story.grant(2, "bob", "a")
    assert story.kinds() == set()
    story.events = [story.events[0], story.events[2]]
    assert story.kinds() == {"fifo"}


def test_a_new_deadline_counts() -> None:
    story = Story()
    story.queue(0, "ann", "a", wait=5)
    story.queue(4, "ann", "a", wait=5, again=True)
    story.grant(8, "bob", "a")
    assert story.kinds() == {"fifo"}


def test_a_dead_engine_excuses_only_from_then_on() -> None:
    story = Story()
    story.queue(0, "ann", "a")
    story.grant(5, "bob", "a")
    assert story.kinds(dead_engines={"engine of ann": 6}) == {"fifo"}
    assert story.kinds(dead_engines={"engine of ann": 5}) == set()


@pytest.mark.parametrize(
    ("wanted", "given", "kinds"),
    [
        ("pool://fleet/1-4", "pool://fleet/3", set[str]()),
        ("pool://fleet", "pool://fleet/3", set[str]()),
        ("pool://fleet/1-4", "pool://fleet/5", {"wait"}),
        ("pool://fleet/1-4", "pool://other/3", {"wait"}),
        ("pool://fleet/1-4", "fleet", {"wait"}),
    ],
)
def test_a_wait_for_a_pool_ends_with_one_of_its_members(wanted: str, given: str, kinds: set[str]) -> None:
    story = Story()
    story.queue(0, "ann", wanted)
    story.grant(1, "ann", given, waiter=waiter("ann"))
    assert story.kinds() == kinds

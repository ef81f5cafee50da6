"""What clients saw of each other: overlapping sections and fences out of order are found."""

from __future__ import annotations

import pytest

from leasehold.testing.observations import Observation, check_observations


def kinds(*observed: Observation) -> list[str]:
    return [violation.kind for violation in check_observations(observed)]


def test_one_after_the_other_is_fine() -> None:
    seen = [Observation(f"client {number % 8}", "a", number, number + 1, number + 1) for number in range(100)]
    assert check_observations(reversed(seen)) == []


def test_two_at_once_are_found() -> None:
    assert kinds(Observation("ann", "a", 0, 10, 1), Observation("bob", "a", 9, 20, 2)) == ["overlap"]
    assert kinds(Observation("ann", "a", 0, 10, 1), Observation("bob", "a", 10, 20, 2)) == []
    assert kinds(Observation("ann", "a", 0, 10, 1), Observation("bob", "b", 5, 20, 2)) == []


def test_two_at_once_are_found_where_names_cover_each_other() -> None:
    assert kinds(Observation("ann", "path:src", 0, 10, 1), Observation("bob", "path:src/a.py", 9, 20, 2)) == ["overlap"]
    assert kinds(Observation("ann", "path:src", 0, 10, 2), Observation("bob", "path:src/a.py", 10, 20, 1)) == ["fence"]
    assert kinds(Observation("ann", "path:src/a.py", 0, 10, 2), Observation("bob", "repo:x", 10, 20, 1)) == ["fence"]


@pytest.mark.parametrize("fence", [5, 4])
def test_a_fence_that_does_not_grow_is_found(fence: int) -> None:
    assert kinds(Observation("ann", "a", 0, 10, 5), Observation("bob", "a", 10, 20, fence)) == ["fence"]
    assert kinds(Observation("ann", "a", 0, 10, 5), Observation("bob", "b", 10, 20, fence)) == []


def test_a_fence_is_compared_with_all_before_and_not_only_the_last() -> None:
    shared = Observation("bob", "a", 10, 20, 3, "shared")
    seen = (
        Observation("ann", "a", 0, 10, 2),
        shared,
        Observation("cyd", "a", 20, 30, 4),
        shared._replace(start=30, end=40),
    )
    assert kinds(*seen) == ["fence"]


def test_readers_may_enter_in_any_order_but_each_with_a_fence_of_its_own() -> None:
    ann, bob = (Observation(name, "a", 0, 10, fence, "shared") for name, fence in (("ann", 2), ("bob", 1)))
    assert kinds(ann, bob._replace(start=5, end=7)) == []
    assert kinds(ann, bob._replace(fence=2)) == ["fence"]
    assert kinds(ann, bob._replace(mode="exclusive", start=5)) == ["overlap", "fence"]


def test_takers_of_slots_are_counted() -> None:
    takers = [Observation(f"taker {number}", "a", number, 10, 9 - number, "slots", 2) for number in range(3)]
    assert kinds(*takers[:2]) == []
    assert kinds(*takers) == ["overlap"]
    assert kinds(takers[0], takers[1]._replace(slots=3)) == ["overlap", "fence"]


def test_a_lease_on_several_resources_is_one() -> None:
    names = ("a", "path:src", "path:src/a.py", "repo:x")
    assert kinds(*(Observation("ann", name, 0, 10, 1) for name in names), Observation("bob", "a", 10, 11, 2)) == []


def test_a_section_that_ends_before_it_begins_is_found() -> None:
    assert kinds(Observation("ann", "a", 5, 4, 1)) == ["clock"]

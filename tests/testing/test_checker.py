"""The checker passes good histories and finds what is wrong with bad ones, each written by hand."""

from __future__ import annotations

import pytest

from leasehold.testing.checker import check
from tests.testing.story import Story, waiter

# --------------------------------------------------------------------------------------------- good


def test_a_lease_handed_on_and_on_is_fine() -> None:
    story = Story()
    ann = story.grant(0, "ann", "a")
    story.queue(1, "bob", "a")
    story.queue(2, "cyd", "a", wait=5)
    story.then("renewed", 50, ann, expires_at=150)
    story.tell("timeout", 60, "cyd", ("a",), waiter=waiter("cyd"))
    story.then("released", 70, ann, status="completed")
    bob = story.grant(70, "bob", "a", waiter=waiter("bob"))
    story.then("expired", 200, bob, expired_at=170)
    assert story.kinds(finished=True) == set()


def test_shared_and_slots_go_together_as_far_as_they_do() -> None:
    story = Story()
    story.grant(0, "ann", "path:src", mode="S")
    story.grant(1, "bob", "path:src/a.py", mode="S")
    story.grant(2, "cyd", "s", mode="N", slots=2)
    story.grant(3, "dan", "s", mode="N", slots=2)
    story.grant(4, "eve", "t", "issue:1")
    story.grant(102, "fay", "s", mode="N", slots=2)
    assert story.kinds() == set()


def test_a_later_request_that_does_not_conflict_may_pass() -> None:
    story = Story()
    story.grant(0, "ann", "path:src", mode="S")
    story.queue(1, "bob", "path:src/a.py")
    story.grant(2, "cyd", "path:lib")
    story.queue(3, "dan", "path:src", mode="S")
    story.grant(4, "eve", "path:docs", mode="S")
    assert story.kinds() == set()


def test_a_higher_priority_may_pass() -> None:
    story = Story()
    ann = story.grant(0, "ann", "a")
    story.queue(1, "bob", "a")
    story.queue(2, "cyd", "a", priority=3)
    story.then("released", 3, ann)
    cyd = story.grant(3, "cyd", "a", waiter=waiter("cyd"))
    story.then("released", 4, cyd)
    story.grant(4, "dan", "a", priority=1)
    assert story.kinds() == set()


def test_a_waiter_past_its_deadline_or_dead_may_be_passed() -> None:
    story = Story()
    story.queue(0, "ann", "a", wait=5)
    story.queue(0, "bob", "b", wait=500)
    story.grant(5, "cyd", "a")
    story.grant(6, "dan", "b")
    assert story.kinds() == {"fifo"}
    assert story.kinds(dead_engines={"engine of bob": 6}) == set()


def test_a_waiter_that_asks_again_keeps_its_place_with_a_new_deadline() -> None:
    story = Story()
    ann = story.grant(0, "ann", "a")
    story.queue(1, "bob", "a", wait=5)
    story.queue(5, "bob", "a", wait=50, again=True)
    story.then("released", 10, ann)
    story.grant(10, "bob", "a", waiter=waiter("bob"))
    assert story.kinds() == set()


def test_slots_left_over_may_be_taken_before_a_waiter_that_needs_something_else_too() -> None:
    story = Story()
    story.queue(1, "bob", "a", "b", mode="N", slots=3)
    story.grant(2, "cyd", "a", mode="N", slots=3)
    story.grant(3, "dan", "a", mode="N", slots=3)
    assert story.kinds() == set()
    story.grant(4, "eve", "a", mode="N", slots=3)
    assert story.kinds() == {"fifo"}


def test_a_steal_goes_before_everybody_and_leaves_no_grace() -> None:
    story = Story()
    ann = story.grant(0, "ann", "a", grace=50)
    story.queue(1, "bob", "a")
    story.then("forced", 2, ann, stolen=True)
    cyd = story.grant(2, "cyd", "a", stolen_by="root")
    story.then("released", 3, cyd)
    story.grant(3, "bob", "a", waiter=waiter("bob"))
    assert story.kinds() == set()


def test_a_closed_resource_opens_after_its_grace_or_when_it_is_cleared() -> None:
    story = Story()
    ann = story.grant(0, "ann", "a", grace=50)
    bob = story.grant(0, "bob", "b", quarantine=True)
    story.then("expired", 120, ann, expired_at=100)
    story.then("expired", 120, bob, expired_at=100)
    story.then("quarantined", 120, bob)
    story.grant(150, "cyd", "a")
    story.tell("cleared", 160, "bob", ("b",), lease=bob.lease, fence=bob.fence)
    story.grant(160, "dan", "b")
    assert story.kinds() == set()


def test_a_heartbeat_renews_all_leases_of_a_session() -> None:
    story = Story()
    ann = story.grant(0, "ann", "a", session="s")
    more = story.grant(0, "ann", "b", session="s", lease="another")
    story.tell("renewed", 90, "ann", (), session="s", leases={ann.lease: 190, "another": 180})
    story.then("released", 170, ann)
    story.then("expired", 185, more, expired_at=180)
    story.tell("session_ended", 190, "ann", (), session="s")
    assert story.kinds(finished=True) == set()


def test_a_promised_lease_that_is_not_picked_up_is_cancelled() -> None:
    story = Story()
    story.queue(0, "ann", "a")
    ann = story.grant(1, "ann", "a", ttl=2, waiter=waiter("ann"))
    story.then("cancelled", 3, ann, reason="the waiter did not pick it up")
    story.grant(3, "bob", "a")
    assert story.kinds() == set()


def test_spaces_have_nothing_to_do_with_each_other() -> None:
    story = Story()
    story.grant(0, "ann", "repo:x")
    story.grant(1, "bob", "repo:x")
    story.events[1] = story.events[1]._replace(space="other")
    assert story.kinds() == set()


def test_history_may_come_newest_first_and_without_its_beginning() -> None:
    story = Story()
    ann = story.grant(0, "ann", "a")
    story.then("released", 5, ann)
    assert check(story.events[::-1]) == []
    assert {each.kind for each in check(story.events[1:])} == {"life"}
    assert check(story.events[1:], whole=False) == []


# ---------------------------------------------------------------------------------------------- bad


def test_overlap_of_one_name() -> None:
    story = Story()
    story.grant(0, "ann", "a")
    story.grant(99, "bob", "a")
    assert story.kinds() == {"overlap"}


@pytest.mark.parametrize(
    ("mine", "yours"),
    [
        ("path:src", "path:src/a.py"),
        ("path:src/a.py", "path:src"),
        ("path:.", "path:src/a.py"),
        ("path:src/a.py", "path:."),
        ("repo:x", "path:src/a.py"),
        ("path:src/a.py", "repo:x"),
        ("repo:x", "repo:y"),
        ("issue:1", "repo:x"),
        ("repo:x", "issue:1"),
    ],
)
@pytest.mark.parametrize("modes", ["XX", "XS", "SX", "NN", "XN", "SN"])
def test_overlap_of_names_that_cover_each_other(mine: str, yours: str, modes: str) -> None:
    story = Story()
    story.grant(0, "ann", "a", mine, mode=modes[0], slots=2 if modes[0] == "N" else 1)
    story.grant(1, "bob", "b", yours, mode=modes[1], slots=2 if modes[1] == "N" else 1)
    one_place = mine.startswith("repo:") and yours.startswith("repo:")
    assert story.kinds() == (set() if one_place and modes == "NN" else {"overlap"})


def test_overlap_in_a_hierarchical_scheme() -> None:
    story = Story()
    story.grant(0, "ann", "s3://bucket/a")
    story.grant(1, "bob", "s3://bucket/a/b/")
    assert check(story.events) == []
    assert [each.kind for each in check(story.events, hierarchical=["s3"])] == ["overlap"]


@pytest.mark.parametrize("modes", ["SX", "XS", "SN", "NS", "NX"])
def test_overlap_of_modes_on_one_name(modes: str) -> None:
    story = Story()
    story.grant(0, "ann", "a", mode=modes[0])
    story.grant(1, "bob", "a", mode=modes[1])
    assert story.kinds() == {"overlap"}


def test_overlap_of_one_taker_too_many() -> None:
    story = Story()
    for number in range(3):
        story.grant(number, f"taker {number}", "a", mode="N", slots=2)
    assert [len(each.events) for each in check(story.events)] == [1]
    assert story.kinds() == {"overlap"}


def test_overlap_of_different_slots() -> None:
    story = Story()
    story.grant(0, "ann", "a", mode="N", slots=3)
    story.grant(1, "bob", "a", mode="N", slots=2)
    assert story.kinds() == {"overlap"}


def test_overlap_because_a_renewal_was_missed() -> None:
    story = Story()
    ann = story.grant(0, "ann", "a")
    story.then("renewed", 50, ann, expires_at=150)
    story.grant(100, "bob", "a")
    assert story.kinds() == {"overlap"}


def test_overlap_because_a_heartbeat_was_missed() -> None:
    story = Story()
    ann = story.grant(0, "ann", "a", session="s")
    story.tell("renewed", 50, "ann", (), session="s", leases={ann.lease: 150})
    story.grant(100, "bob", "a")
    assert story.kinds() == {"overlap"}


def test_overlap_although_all_happens_at_one_instant() -> None:
    story = Story()
    ann = story.grant(0, "ann", "a")
    story.grant(0, "bob", "a")
    story.then("released", 0, ann)
    assert story.kinds() == {"overlap"}


# ----------------------------------------------------------------------------- bad: fences, clock


@pytest.mark.parametrize("fence", [7, 6, 0, -1, 2**53])
def test_a_fence_that_is_reused_goes_back_or_is_out_of_bounds(fence: int) -> None:
    story = Story()
    story.grant(0, "ann", "a", fence=6)
    story.grant(1, "bob", "b", fence=7)
    story.grant(2, "cyd", "c", fence=fence)
    assert story.kinds() == {"fence"}


def test_the_largest_fence_is_just_below_2_to_the_53() -> None:
    story = Story()
    story.grant(0, "ann", "a", fence=2**53 - 1)
    assert story.kinds() == set()


def test_a_clock_that_runs_backwards() -> None:
    story = Story()
    story.grant(10, "ann", "a")
    story.grant(9, "bob", "b")
    assert story.kinds() == {"clock"}


def test_two_events_at_one_place_of_the_history() -> None:
    story = Story()
    story.grant(0, "ann", "a")
    story.grant(1, "bob", "b")
    story.events[1] = story.events[1]._replace(seq=1)
    assert story.kinds() == {"clock"}

"""Waits for a pool that has more ways out than one, and deadlocks where none is left: by name, and by the oracle."""

from __future__ import annotations

import pytest

from leasehold.domain.rules import pools
from tests.domain.duel import Duel
from tests.domain.oracle_nouns import Lease, Want, Who

ANN, BOB, CAT, DAN = (Who(name) for name in ("ann", "bob", "cat", "dan"))


class Line:
    """A duel in few words: both sides must agree after each of them."""

    def __init__(self) -> None:
        self.duel = Duel()

    def take(self, who: Who, name: str) -> Lease:
        lease = self.duel.acquire(who, Want(((name,),))).lease
        assert lease is not None
        return lease

    def wait(self, who: Who, name: str, priority: int = 0) -> str:
        return self.duel.acquire(who, Want(((name,),)), wait=10_000_000, priority=priority).kind


def test_a_stuck_waiter_for_one_member_leaves_the_other_as_a_way_out() -> None:
    line = Line()
    line.take(ANN, "pool://p/1")
    line.take(BOB, "pool://p/2")
    line.take(DAN, "alpha")
    assert line.wait(ANN, "alpha") == "Queued"
    assert line.wait(CAT, "pool://p/1") == "Queued"
    assert line.wait(DAN, "pool://p/1-2") == "Queued"


@pytest.mark.parametrize("priority", [0, 1])
def test_members_that_one_holds_oneself_are_no_way_out(priority: int) -> None:
    line = Line()
    line.take(ANN, "pool://p/1")
    line.take(BOB, "pool://p/2")
    assert line.wait(CAT, "pool://p/1") == "Queued"
    line.take(ANN, "alpha")
    assert line.wait(BOB, "alpha") == "Queued"
    assert line.wait(ANN, "pool://p/1-2", priority) == "Deadlock"


def test_a_later_request_of_higher_priority_is_seen_by_those_whom_it_overtakes() -> None:
    line = Line()
    line.take(BOB, "pool://p/1")
    line.take(CAT, "pool://p/2")
    line.take(ANN, "alpha")
    assert line.wait(DAN, "pool://p/1-2") == "Queued"
    assert line.wait(BOB, "alpha") == "Queued"
    assert line.wait(ANN, "pool://p/1", priority=1) == "Deadlock"


def test_all_that_is_stuck_together_is_a_deadlock() -> None:
    line = Line()
    line.take(ANN, "pool://p/1")
    line.take(BOB, "pool://p/2")
    line.take(DAN, "alpha")
    line.take(DAN, "beta")
    assert line.wait(ANN, "alpha") == "Queued"
    assert line.wait(BOB, "beta") == "Queued"
    assert line.wait(CAT, "pool://p/1") == "Queued"
    assert line.wait(DAN, "pool://p/1-2") == "Deadlock"


@pytest.mark.parametrize(
    ("others", "parts"),
    [
        ((), []),
        (("pool://p/1-3",), []),
        (("pool://p/1-9", "pool://p/7"), []),
        (("pool://p/2",), ["pool://p/1,3", "pool://p/2"]),
        (("pool://p/1-2", "pool://p/2-3"), ["pool://p/1", "pool://p/2", "pool://p/3"]),
    ],
)
def test_members_that_the_same_others_want_are_one_part(others: tuple[str, ...], parts: list[str]) -> None:
    assert pools.parts("pool://p/1-3", others) == parts


def test_a_pool_and_a_queue_that_are_both_large_are_not_divided() -> None:
    others = [f"pool://p/{number}" for number in range(100)]
    assert pools.parts("pool://p/0-9", others) == [f"pool://p/{number}" for number in range(10)]
    assert pools.parts("pool://p/0-999", others) == []

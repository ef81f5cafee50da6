"""What is bounded for all: who takes much gives up some before another is refused."""

from __future__ import annotations

import random

from leasehold.server.access.principals import Principal
from leasehold.server.access.shares import Shares, payer


class Scene:
    """Seats are numbers; those in use are known."""

    def __init__(self, each: int, most: int) -> None:
        self.dropped: list[int] = []
        self.busy: set[int] = set()
        self.shares = Shares[int](each, most, self.dropped.append, lambda seat: seat not in self.busy)
        self._number = 0

    def take(self, who: str, *, busy: bool = True) -> bool:
        self._number += 1
        if busy:
            self.busy.add(self._number)
        return self.shares.take(who, self._number)


def test_one_has_its_own_bound() -> None:
    scene = Scene(3, 10)
    assert [scene.take("a") for _ in range(4)] == [True, True, True, False]
    assert scene.take("b")
    scene.shares.leave("a", 1)
    scene.shares.leave("a", 1)  # once is enough
    assert scene.take("a")
    assert scene.dropped == []


def test_of_ones_own_the_idle_one_that_was_not_used_for_longest_goes() -> None:
    scene = Scene(3, 10)
    assert scene.take("a", busy=True)
    assert all(scene.take("a", busy=False) for _ in range(2))
    scene.shares.use("a", 2)
    assert scene.take("a", busy=True)
    assert scene.dropped == [3]


def test_when_all_are_taken_the_greediest_gives_way() -> None:
    scene = Scene(10, 12)
    assert all(scene.take("greedy") for _ in range(10))
    assert all(scene.take("b") for _ in range(2))
    assert all(scene.take("c") for _ in range(4))
    assert scene.dropped == [1, 2, 3, 4]
    assert scene.shares.taken == 12
    assert not scene.take("greedy")  # it has most


def test_when_everybody_has_the_same_nobody_gives_way() -> None:
    scene = Scene(5, 4)
    assert all(scene.take(name) for name in "abcd")
    assert not scene.take("e")
    assert not scene.take("a")
    assert scene.dropped == []


def test_the_bounds_hold_whatever_happens() -> None:
    chance = random.Random(7)
    scene, held = Scene(5, 20), dict[int, str]()
    for number in range(1, 5_001):
        who = chance.choice("abcdefgh")
        before = len(scene.dropped)
        if scene.take(who, busy=chance.random() < 0.5):
            held[number] = who
        for seat in scene.dropped[before:]:
            del held[seat]
        if held and chance.random() < 0.4:
            seat = chance.choice(list(held))
            scene.shares.leave(held.pop(seat), seat)
        assert scene.shares.taken == len(held) <= 20
        assert all(list(held.values()).count(each) <= 5 for each in "abcdefgh")


def test_the_sessions_of_a_key_take_from_its_share() -> None:
    key = Principal("ci", "agent", "default", (), "4f2a", principal="4f2a")
    rotated = Principal("ci", "agent", "default", (), "77aa", principal="4f2a")
    session = Principal("ci-7", "session", "default", (), "session sk-4f2a-99", "sk-4f2a-99.secret", principal="4f2a")
    other = Principal("x", "session", "default", (), "session s1", "s1.secret")
    assert payer(key) == payer(rotated) == payer(session) == "4f2a"
    assert payer(other) == "session s1"

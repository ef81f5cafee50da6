"""The search for cycles in long queues: it shares edges, finds what it would find without that, and stays quick."""

from __future__ import annotations

import os
import random
import sys
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from leasehold.domain import keys
from leasehold.domain.entries import EMPTY
from leasehold.domain.outcomes import Granted, Held, Queued
from leasehold.domain.rules import Draft, Missing, waitgraph
from leasehold.domain.rules.waitgraph import LAST, WaitGraph, cycle_closed_by
from leasehold.requests import checks
from leasehold.testing.asking import asking
from leasehold.testing.world import World

if TYPE_CHECKING:
    from leasehold.domain import commands as c

PROVE = bool(os.environ.get("LEASEHOLD_PROVE"))
RESOURCES = ("alpha", "alpha", "alpha", "beta", "beta", "gamma", "path:src", "path:src/a.py", "repo:x")
HOLDERS = tuple(f"agent {number}" for number in range(12))
ENGINE = keys.engine("one")
MODES = (*3 * [("exclusive", 1)], ("shared", 1), ("slots", 2), ("slots", 2), ("slots", 3))


def acquire(asked: dict[str, Any]) -> c.Acquire:
    return checks.acquire(asked, checks.Settings(), "token", ENGINE)


def anything(dice: random.Random) -> c.Acquire:
    mode, slots = dice.choice(MODES)
    asked = asking(
        sorted(set(dice.choices(RESOURCES, k=dice.choice((1, 1, 1, 2, 3))))),
        ttl=600,
        holder=dice.choice(HOLDERS),
        mode=mode,
        slots=slots,
        wait=dice.choice((0, 3600, 3600, 3600)),
        any_of=dice.choice((True, False)),
        priority=dice.choice((0, 0, 0, 0, 1)),
        intent=dice.choice((True, False)),
    )
    return acquire(asked)


def searched(world: World, command: c.Acquire, order: tuple[int, int]) -> tuple[str, ...] | None:
    """The cycle that the request would close."""
    loaded = dict(world.records)
    while True:
        draft = Draft(loaded, world.now, world.fence, ENGINE, 0, {})
        try:
            return cycle_closed_by(draft, command.actor, command.ask, order)
        except Missing as missing:
            loaded.update(dict.fromkeys(missing.keys, EMPTY))


def searched_edge_by_edge(world: World, command: c.Acquire, order: tuple[int, int]) -> tuple[str, ...] | None:
    """The graph with a separate list of blockers for each wait."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(waitgraph._Searched, "_needs", WaitGraph._needs)
        return searched(world, command, order)


@pytest.mark.parametrize("seed", range(20))
def test_shared_edges_change_nothing(seed: int) -> None:
    dice = random.Random(seed)
    world = World()
    cycles = 0
    for _ in range(60):
        world.do(anything(dice), ENGINE)
        for _ in range(3):
            wanted = anything(dice)
            order = dice.choice(2 * [(-wanted.priority, world.fence)] + [LAST])
            found = searched(world, wanted, order)
            assert found == searched_edge_by_edge(world, wanted, order), wanted.ask
            cycles += found is not None
    assert cycles


PLACES = ("alpha", "alpha", "beta", "path:src", "path:src/a.py")
requests = st.fixed_dictionaries(
    {
        "resources": st.lists(st.sampled_from(PLACES), min_size=1, max_size=3).map(lambda names: sorted(set(names))),
        "ttl": st.just(600),
        "holder": st.sampled_from(HOLDERS[:7]),
        "slots": st.sampled_from((2, 2, 2, 3, 1)),
        "wait": st.sampled_from((3600, 3600, 3600, 3600, 0)),
        "any_of": st.booleans(),
        "priority": st.sampled_from((0, 0, 0, 1)),
        "intent": st.booleans(),
    }
).map(lambda asked: asking(**asked))


@given(
    st.lists(requests, min_size=10, max_size=40),
    st.lists(requests, min_size=1, max_size=5),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=5_000 if PROVE else 200, deadline=None)
def test_slots_are_searched_as_with_every_edge(
    before: list[dict[str, Any]], wanted: list[dict[str, Any]], is_stuck: bool, is_poll: bool
) -> None:
    """`is_stuck`: as if nobody had ever been refused for a deadlock, so that there are some already."""
    world = World()
    with pytest.MonkeyPatch.context() as patched:
        if is_stuck:
            patched.setattr(waitgraph, "cycle_closed_by", lambda *_: None)
        for asked in before:
            world.do(acquire(asked), ENGINE)
    for asked in wanted:
        command = acquire(asked)
        order = LAST if is_poll else (-command.priority, world.fence)
        assert searched(world, command, order) == searched_edge_by_edge(world, command, order)


MIXED: dict[str, list[dict[str, Any]]] = {
    "exclusive": [{}],
    "slots": [{"slots": 5}],
    "slots and exclusive": [{"slots": 5}, {}],
    "readers and writers": [{"mode": "shared"}, {}],
}


def crowd(resources: str | list[str], many: int, kinds: list[dict[str, Any]]) -> tuple[World, c.Acquire]:
    """A queue in which all kinds of requests take turns, and one more of the first kind, of somebody who holds."""
    world = World()
    names, any_of = ([resources], False) if isinstance(resources, str) else (resources, True)
    for name in names:
        for number in range(kinds[0].get("slots", 1)):
            boss = asking(name, 600, f"boss {number}", slots=kinds[0].get("slots", 1))
            assert isinstance(world.do(acquire(boss), ENGINE), Granted)
    for number in range(many):
        kind = kinds[number % len(kinds)]
        asked = asking(resources, 600, f"agent {number}", wait=3600, any_of=any_of, **kind)
        assert isinstance(world.do(acquire(asked), ENGINE), Queued)
    assert isinstance(world.do(acquire(asking("mine", 600, "late")), ENGINE), Granted)
    return world, acquire(asking(resources, 600, "late", wait=3600, any_of=any_of, **kinds[0]))


def effort(world: World, command: c.Acquire) -> int:
    """How many calls a search takes: a clock says little on a busy machine."""
    calls = 0

    def count(_frame: object, event: str, _about: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        assert searched(world, command, (0, world.fence)) is None
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("kinds", MIXED.values(), ids=MIXED)
@pytest.mark.parametrize("resources", ["hot", "path:hot/file", ["a", "b", "c"]], ids=str)
def test_a_queue_that_is_twice_as_long_takes_twice_the_effort(
    resources: str | list[str], kinds: list[dict[str, Any]]
) -> None:
    """It was cubic once: 500 waiters took 38 seconds."""
    few, many = (effort(*crowd(resources, size, kinds)) for size in (150, 300))
    assert many < 2.3 * few
    assert many < 500 * 300


def test_who_only_polls_waits_for_those_in_the_queue_and_not_for_a_request_that_is_only_considered() -> None:
    """Also where somebody in the queue, who would have to wait for it, was looked at before."""
    world = World()
    for holder, name in (("boss", "r"), ("poller", "s"), ("waiter", "t")):
        assert isinstance(world.do(acquire(asking(name, 600, holder)), ENGINE), Granted)
    assert isinstance(world.do(acquire(asking("r", 600, "waiter", wait=3600)), ENGINE), Queued)
    assert isinstance(world.do(acquire(asking("r", 600, "poller", intent=True)), ENGINE), Held)
    asked = asking(["r", "s"], 600, "late", wait=3600, priority=1)
    assert searched(world, acquire(asked), (-1, world.fence)) == ("late", "s", "poller", "r", "waiter", "r")
    more = acquire(asked | {"resources": ["r", "s", "t"]})
    assert searched(world, more, (-1, world.fence)) == ("late", "t", "waiter", "r")

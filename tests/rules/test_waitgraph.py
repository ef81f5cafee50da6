"""The search for cycles in long queues: it leaves edges out, finds what it would find with them, and stays quick."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from leasehold import checks, keys
from leasehold.model import EMPTY, Granted, Queued
from leasehold.rules import waitgraph
from leasehold.rules.draft import Draft, Missing
from leasehold.rules.waitgraph import LAST, Seeker, WaitGraph, cycle_closed_by
from leasehold.testing.world import World

if TYPE_CHECKING:
    from leasehold import commands as c
    from leasehold.model import Claim, Option, Record
    from leasehold.rules.waitgraph import Rival

RESOURCES = ("alpha", "alpha", "alpha", "beta", "beta", "gamma", "path:src", "path:src/a.py", "repo:x")
HOLDERS = tuple(f"agent {number}" for number in range(12))
ENGINE = keys.engine("one")
MODES = (*3 * [("exclusive", 1)], ("shared", 1), ("slots", 2), ("slots", 2), ("slots", 3))


def acquire(asking: checks.Asking) -> c.Acquire:
    return checks.acquire(asking, checks.Settings(), "token", ENGINE)


def anything(dice: random.Random) -> c.Acquire:
    mode, slots = dice.choice(MODES)
    asked = checks.Asking(
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


class Counting(Draft):
    """Counts how often a record is looked at."""

    looks = 0

    def record(self, key: str) -> Record:
        self.looks += 1
        return super().record(key)


def searched(world: World, command: c.Acquire, order: tuple[int, int]) -> tuple[tuple[str, ...] | None, int]:
    """The cycle that the request would close, and how often a record was looked at."""
    loaded = dict(world.records)
    looks = 0
    while True:
        draft = Counting(loaded, world.now, world.fence, ENGINE, 0, {})
        try:
            found = cycle_closed_by(draft, command.actor, command.ask, order)
        except Missing as missing:
            loaded.update(dict.fromkeys(missing.keys, EMPTY))
            looks += draft.looks
        else:
            return found, looks + draft.looks


@pytest.mark.parametrize("seed", range(20))
def test_edges_that_are_left_out_change_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    world = World()
    left_out = cycles = 0
    shorter = waitgraph._Searched._in_the_way

    def counting(graph: waitgraph._Searched, seeker: Seeker, option: Option, claim: Claim) -> list[Rival]:
        nonlocal left_out
        found = shorter(graph, seeker, option, claim)
        left_out += len(WaitGraph._in_the_way(graph, seeker, option, claim)) - len(found)
        return found

    for _ in range(60):
        world.do(anything(dice), ENGINE)
        for _ in range(3):
            wanted = anything(dice)
            order = dice.choice(2 * [(-wanted.priority, world.fence)] + [LAST])
            with monkeypatch.context() as patched:
                patched.setattr(waitgraph._Searched, "_in_the_way", counting)
                quick, _ = searched(world, wanted, order)
            with monkeypatch.context() as patched:
                patched.setattr(waitgraph._Searched, "_in_the_way", WaitGraph._in_the_way)
                assert searched(world, wanted, order)[0] == quick, wanted.ask
            cycles += quick is not None
    assert left_out
    assert cycles


@pytest.mark.parametrize("resources", ["hot", "path:hot/file", ["a", "b", "c"]])
def test_a_long_queue_is_searched_in_no_time(resources: object) -> None:
    """Counted, as a clock says little on a busy machine. It was cubic once: 500 waiters took 38 seconds."""
    world = World()
    many, any_of = 300, isinstance(resources, list)
    for each in resources if isinstance(resources, list) else [resources]:
        assert isinstance(world.do(acquire(checks.Asking(each, 600, "boss")), ENGINE), Granted)
    for number in range(many):
        asked = checks.Asking(resources, 600, f"agent {number}", wait=3600, any_of=any_of)
        assert isinstance(world.do(acquire(asked), ENGINE), Queued)
    assert isinstance(world.do(acquire(checks.Asking("mine", 600, "late")), ENGINE), Granted)
    late = acquire(checks.Asking(resources, 600, "late", wait=3600, any_of=any_of))
    cycle, looks = searched(world, late, (0, world.fence))
    assert cycle is None
    assert looks < 30 * many

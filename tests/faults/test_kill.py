"""SIGKILL at any point of a commit loses no acknowledged grant and leaves the database usable."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

from tests.faults.scene import PATIENCE, Victim, autopsy, bury, verify

if TYPE_CHECKING:
    from pathlib import Path

IS_PROOF = bool(os.environ.get("LEASEHOLD_PROVE"))
KILLS = 200 if IS_PROOF else 20
TOGETHER = 3
"""So many victims work at the same time."""
COMMIT = 13
"""The first commit has not more steps of writing than this: ten pieces of the log, its sync, the mark at the gate."""
STEPS = 1_500
"""After about 600 steps the log is copied back for the first time."""
MANNERS = ("before", "amidst", "after")


def _moments(chance: random.Random) -> list[tuple[int, str]]:
    """When to die: at each step of a commit (in every manner, if there is time), then anywhere up to a checkpoint."""
    first = [(step, manner) for step in range(1, COMMIT + 1) for manner in MANNERS]
    if not IS_PROOF:
        first = [*first[:: len(MANNERS) + 1], (COMMIT - 1, "before"), (COMMIT - 2, "after")]
    return first + [(chance.randrange(COMMIT, STEPS), chance.choice(MANNERS)) for _ in range(KILLS - len(first))]


def test_killed_at_a_step_of_a_commit(tmp_path: Path) -> None:
    path = f"{tmp_path}/locks.db"
    url = f"sqlite://{path}"
    fences: list[int] = []
    for number, (at, manner) in enumerate(_moments(random.Random(2))):
        victim = Victim(url, number, at, manner)
        victim.join()
        fences += victim.fences
        verify(url, victim, fences)
        bury(url, victim)
    assert len(fences) > KILLS
    autopsy(url, path)


def test_killed_at_any_moment_among_others(tmp_path: Path) -> None:
    path = f"{tmp_path}/locks.db"
    url = f"sqlite://{path}"
    chance = random.Random(3)
    fences: list[int] = []
    victims = [Victim(url, number) for number in range(TOGETHER)]
    try:
        for number in range(TOGETHER, KILLS + TOGETHER):
            victim = victims.pop(chance.randrange(TOGETHER))
            _let_live(victim, chance)
            victim.kill()
            fences += victim.fences
            verify(url, victim, fences)
            bury(url, victim)
            victims.append(Victim(url, number))
    finally:
        for victim in victims:
            victim.kill()
    for victim in victims:
        verify(url, victim, fences + victim.fences)
    assert len(fences) > KILLS
    autopsy(url, path)


def test_all_killed_at_once(tmp_path: Path) -> None:
    path = f"{tmp_path}/locks.db"
    url = f"sqlite://{path}"
    chance = random.Random(5)
    victims = [Victim(url, number) for number in range(2 * TOGETHER)]
    try:
        for victim in victims:
            _let_live(victim, chance)
    finally:
        for victim in victims:
            victim.kill()
    fences = [fence for victim in victims for fence in victim.fences]
    assert len(set(fences)) == len(fences)
    for victim in victims:
        verify(url, victim, fences)
    autopsy(url, path)


def _let_live(victim: Victim, chance: random.Random) -> None:
    """Until it has said a few things, and then for a few milliseconds, to hit it anywhere."""
    words = chance.randrange(3, 40)
    end = time.monotonic() + PATIENCE
    while victim.said < words:
        assert time.monotonic() < end, "the victim does nothing"
        time.sleep(0.001)
    time.sleep(chance.random() * 0.005)

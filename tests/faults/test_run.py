"""No command of `leasehold run` is alive after its lease has expired, whatever becomes of the run and of its store."""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.faults.ticking import FAULTS, KINDS, Story, tell

if TYPE_CHECKING:
    from pathlib import Path

RUNS = 200 if os.environ.get("LEASEHOLD_PROVE") else 20
AT_ONCE = 5


def stories(tmp_path: Path) -> list[Story]:
    pairs = itertools.islice(itertools.cycle(itertools.product(KINDS, FAULTS)), RUNS)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        told = [
            pool.submit(tell, tmp_path / str(number), fault, kind, number) for number, (kind, fault) in enumerate(pairs)
        ]
        return [each.result() for each in told]


def test_no_command_outlives_its_lease(tmp_path: Path) -> None:
    told = stories(tmp_path)
    assert len(told) == RUNS
    assert {story.fault for story in told} == set(FAULTS)
    for story in told:
        assert story.last_tick <= story.expired_at, story
        assert story.family == (3 if story.kind == "family" else 1), story
        assert story.code == (-9 if story.fault == "killed" else 7), story

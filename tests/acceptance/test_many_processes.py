"""Many processes, one database file, one counter that only the lease protects: nothing overlaps, nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.domain.outcomes import Refused
from leasehold.stores.sqlite import SqliteStore
from leasehold.testing.checker import check
from leasehold.testing.observations import Observation, check_observations

if TYPE_CHECKING:
    from pathlib import Path

    from leasehold.domain.entries import Record
    from leasehold.domain.events import Event

PROCESSES = 8
IS_PROOF = bool(os.environ.get("LEASEHOLD_PROVE"))
PATIENCE = 1_800.0 if IS_PROOF else 600.0
pytestmark = pytest.mark.timeout(0 if IS_PROOF else 2 * PATIENCE)
POLL_MS = SqliteStore.capabilities.poll // 1000
QUICK_POLL_MS = 5
"""In CI each process looks this often whether it was served, so that 4,000 turns do not take minutes."""


class Race:
    """Processes that start together; each is ended by its id, whatever happens."""

    def __init__(self, folder: Path, kind: str, rounds: int, poll_ms: int = QUICK_POLL_MS) -> None:
        self.url = f"sqlite://{folder}/locks.db"
        self.folder = folder
        self.kind = kind
        self.rounds = rounds
        self.poll_ms = poll_ms
        for resource in "ab":
            (folder / f"counter-{resource}").write_text("0")

    def run(self) -> list[Observation]:
        children = [self._start(number) for number in range(PROCESSES)]
        try:
            for child in children:
                assert child.stdout is not None
                assert child.stdout.readline() == "ready\n", child.communicate()
            for child in children:
                assert child.stdin is not None
                child.stdin.write("go\n")
                child.stdin.flush()
            told = [child.communicate(timeout=PATIENCE) for child in children]
            complaints = {number: told[number][1] for number, child in enumerate(children) if child.returncode}
            assert not complaints, "\n".join(f"worker {number}: {said}" for number, said in complaints.items())
            return [each for number, (seen, _) in enumerate(told) for each in _seen_by(number, seen)]
        finally:
            for child in children:
                child.kill()
                child.communicate()

    def _start(self, number: int) -> subprocess.Popen[str]:
        arguments = [self.url, str(self.folder), self.kind, str(self.rounds), str(number), str(self.poll_ms)]
        arguments.append(str(PATIENCE * 0.8))
        return subprocess.Popen(
            [sys.executable, "-m", "tests.acceptance.worker", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def counted(self, resource: str) -> int:
        return int((self.folder / f"counter-{resource}").read_text())

    def history(self) -> list[Event]:
        """All of it, oldest first."""
        events: list[Event] = []
        with leasehold.connect(self.url) as locks:
            while True:
                page = locks.history(limit=10_000, before=events[-1].seq if events else None)
                assert not isinstance(page, Refused)
                if not page:
                    return events[::-1]
                events.extend(page)

    def left_over(self) -> dict[str, Record]:
        store = SqliteStore(self.url.removeprefix("sqlite://"))
        try:
            return {key: record for kind in "naqe" for key, record in store.scan(kind)}
        finally:
            store.close()


def _seen_by(number: int, told: str) -> list[Observation]:
    return [Observation(client=f"worker {number}", **each) for each in json.loads(told)]


def _check(race: Race, seen: list[Observation]) -> None:
    """What the clients saw, and what the service itself wrote down, must both be flawless."""
    assert check_observations(seen) == []
    fences = [section.fence for section in seen if section.resource == "a"]
    assert len(set(fences)) == len(fences) == PROCESSES * race.rounds
    assert check(race.history(), finished=True, residue=race.left_over()) == []


def _rounds(in_ci: int) -> int:
    return 500 if IS_PROOF else in_ci


def test_one_resource(tmp_path: Path) -> None:
    race = Race(tmp_path, "one", 500)
    seen = race.run()
    assert race.counted("a") == PROCESSES * 500 == 4000
    in_order = sorted(seen, key=lambda section: section.start)
    assert all(earlier.end <= later.start for earlier, later in pairwise(in_order))
    assert [section.fence for section in in_order] == sorted({section.fence for section in seen})
    _check(race, seen)


def test_two_resources_in_both_orders(tmp_path: Path) -> None:
    race = Race(tmp_path, "pairs", _rounds(100))
    seen = race.run()
    assert race.counted("a") == race.counted("b") == PROCESSES * race.rounds
    _check(race, seen)


def test_readers_and_writers(tmp_path: Path) -> None:
    race = Race(tmp_path, "mixed", _rounds(100))
    seen = race.run()
    written = [section for section in seen if section.mode == "exclusive"]
    assert 0 < len(written) < len(seen)
    assert race.counted("a") == len(written)
    _check(race, seen)


@pytest.mark.skipif(not IS_PROOF, reason="a second opinion at full length: only by make prove")
def test_one_resource_again(tmp_path: Path) -> None:
    race = Race(tmp_path, "one", 2000, poll_ms=POLL_MS)
    seen = race.run()
    assert race.counted("a") == PROCESSES * 2000
    _check(race, seen)

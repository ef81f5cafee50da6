"""SIGKILL at each step of a journal's life: what was acknowledged is there, and nothing is there by halves."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING

import apsw
import pytest

from leasehold.domain.entries import Put, Ref
from leasehold.stores.memory import Memory, MemoryStore
from leasehold.stores.sqlite import SqliteStore, database
from tests.kit.samples import commit
from tests.stores.sqlite.child import ROOT
from tests.stores.sqlite.journal_victim import COMMITS, STAYS, planned
from tests.stores.sqlite.journals import ALL, plain, rows

if TYPE_CHECKING:
    from pathlib import Path

    from leasehold.stores.protocol import Store

IS_PROOF = bool(os.environ.get("LEASEHOLD_PROVE"))
MANNERS = ("before", "amidst", "after")
PARTS = 8
"""The steps are dealt out to so many tests."""


def run(path: Path, at: int, manner: str) -> tuple[int, str]:
    """How many commits it acknowledged, and what it said last."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "tests.stores.sqlite.journal_victim", str(path), str(at), manner]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode in {0, -9}, done.stderr
    said = done.stdout.splitlines()
    return len([line for line in said if line.isdigit()]), said[-1]


def state(store: Store) -> tuple[int, dict[str, object], list[object]]:
    """Fence, entries and history, as a turn, a look and a scan agree on them."""
    turn = store.begin()
    try:
        loaded = turn.load(["na", "nb", "ac"])
        records: dict[str, object] = {key: plain(loaded[key]) for key in ("na", "nb", "ac")}
        fence = turn.fence
    finally:
        turn.close()
    assert {key: plain(record) for key, record in store.read(list(records))[1].items()} == records
    scanned = {key: plain(record) for kind in "na" for key, record in store.scan(kind)}
    assert scanned == {key: found for key, found in records.items() if found}
    return fence, records, list(store.history(ALL))


@cache
def expected(commits: int) -> tuple[int, dict[str, object], list[object]]:
    memory = MemoryStore(Memory())
    for number in range(commits):
        changes, events = planned(number)
        commit(memory, *changes, events=tuple(events), fences=1)
    return state(memory)


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many there are if nobody is killed."""
    path = tmp_path_factory.mktemp("alive") / "locks.db"
    acknowledged, said = run(path, 0, "never")
    assert acknowledged == COMMITS
    count = int(said.split()[0])
    assert count > 60
    return count


def moments(count: int) -> list[tuple[int, str]]:
    if IS_PROOF:
        return [(step, manner) for step in range(1, count + 1) for manner in MANNERS]
    return [(step, MANNERS[step // 2 % 3]) for step in range(1, count + 1, 2)]


def autopsy(path: Path, acknowledged: int) -> bool:
    """Whether there was a journal."""
    had_journal = rows(path) > 0
    possible = [expected(acknowledged), expected(min(acknowledged + 1, COMMITS))]
    with closing(SqliteStore(str(path))) as store:
        found = state(store)
        assert found in possible
        commit(store, Put("nb", Ref("after")), fences=1)  # a brief one: whatever was in the journal is folded
        assert rows(path) == 0
        fence, records, history = state(store)
        records["nb"] = {id_: entry for id_, entry in records["nb"].items() if id_ != "after"}  # type: ignore[attr-defined]
        assert (fence - 1, records, history) == found
    connection = apsw.Connection(str(path))
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    connection.close()
    return had_journal


@pytest.mark.parametrize("part", range(PARTS))
def test_killed_at_a_step_of_the_journal(tmp_path: Path, steps: int, part: int) -> None:
    journals = []
    for at, manner in moments(steps)[part::PARTS]:
        path = tmp_path / f"{at}-{manner}.db"
        acknowledged, _ = run(path, at, manner)
        assert acknowledged >= STAYS
        journals.append(autopsy(path, acknowledged))
    assert {True, False} == set(journals), "some died with a journal, some with a folded one"


def test_one_after_the_other_dies_on_the_same_database(tmp_path: Path, steps: int) -> None:
    """Each goes on from whatever its predecessor left behind."""
    path = tmp_path / "locks.db"
    least, turns = 0, 0
    for at in range(5, steps, steps // (40 if IS_PROOF else 6)):
        acknowledged, _ = run(path, at, "after")
        least, turns = least + acknowledged, turns + 1
        with closing(SqliteStore(str(path))) as store:
            fence, records, history = state(store)
        assert least < fence <= least + turns + 1
        assert isinstance(records["na"], dict)
        assert {f"stays{number}" for number in range(acknowledged)} <= set(records["na"])
        assert [each.seq for each in history] == list(range(len(history), 0, -1))  # type: ignore[attr-defined]


def test_these_processes_are_short_lived_enough() -> None:
    assert database.LASTING > COMMITS, "the process that reads the remains is a brief one"

"""A one-shot acquire pays for every import: the embedded store brings almost none."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import apsw

from leasehold.domain.entries import Put, Ref
from leasehold.stores.sqlite import SqliteStore
from leasehold.stores.sqlite.wal import BRIEF_CHECKPOINT
from tests.kit.samples import commit, entries
from tests.stores.sqlite.child import ROOT

if TYPE_CHECKING:
    from pathlib import Path

ONE_SHOT = """
import sys
before = set(sys.modules)
sys.path.insert(0, sys.argv[1])
from leasehold.domain.entries import Put, Ref
from leasehold.stores.sqlite import SqliteStore
store = SqliteStore(sys.argv[2], is_one_shot=True)
transaction = store.begin()
transaction.load(["na"])
transaction.commit([Put("na", Ref("x"))], [], transaction.fence + 1)
transaction.close()
store.close()
print(*set(sys.modules) - before)
"""
# fmt: off
DEAR = {
    "asyncio", "contextlib", "ctypes", "dataclasses", "datetime", "enum", "functools", "hashlib", "inspect", "json",
    "logging", "msgspec", "pathlib", "random", "re", "secrets", "socket", "sqlite3", "subprocess", "tempfile",
    "threading", "traceback", "typing", "uuid",
}
# fmt: on
RARE = ("failures", "file_modes", "journal", "long_running", "opening", "pruning", "reader", "recovery", "url_options")
ONLY_WHEN_NEEDED = {f"leasehold.stores.sqlite.{name}" for name in RARE}


def imported(path: Path) -> set[str]:
    command = [sys.executable, "-I", "-c", ONE_SHOT, str(ROOT / "src"), str(path)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_one_commit_imports_nothing_dear(tmp_path: Path) -> None:
    first, second = imported(tmp_path / "locks.db"), imported(tmp_path / "locks.db")
    assert "leasehold.stores.sqlite.opening" in first
    assert (first | second) & DEAR == set()
    assert second & ONLY_WHEN_NEEDED == set()


def one_shots(path: Path, first: int, last: int) -> int:
    """Open, write and close again and again; how large the log was at most."""
    sizes = []
    for number in range(first, last):
        store = SqliteStore(str(path), is_one_shot=True)
        commit(store, Put("na", Ref(f"x{number}")))
        store.close()
        sizes.append(path.with_name("locks.db-wal").stat().st_size)
    return max(sizes)


def test_the_log_of_one_shots_stays_short(tmp_path: Path) -> None:
    path = tmp_path / "locks.db"
    page = 4_096 + 24
    assert one_shots(path, 0, 150) < (BRIEF_CHECKPOINT + 20) * page
    store = SqliteStore(str(path))
    assert len(entries(store, "na")) == 150
    store.close()


def test_a_reader_does_not_stop_writers_and_the_log_is_emptied_later(tmp_path: Path) -> None:
    path = tmp_path / "locks.db"
    one_shots(path, 0, 1)
    reader = apsw.Connection(str(path))
    reader.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM entry").get == 1
    grown = one_shots(path, 1, 150)
    assert reader.execute("SELECT count(*) FROM entry").get == 1
    reader.close()
    assert one_shots(path, 150, 152) <= grown
    assert path.with_name("locks.db-wal").stat().st_size < grown

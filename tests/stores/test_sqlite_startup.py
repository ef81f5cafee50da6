"""A one-shot acquire pays for every import: the embedded store brings almost none."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.stores.child import ROOT

if TYPE_CHECKING:
    from pathlib import Path

ONE_SHOT = """
import sys
before = set(sys.modules)
sys.path.insert(0, sys.argv[1])
from leasehold.model import Put, Ref
from leasehold.stores.sqlite import SqliteStore
store = SqliteStore(sys.argv[2])
transaction = store.begin()
transaction.load(["na"])
transaction.commit([Put("na", Ref("x"))], [], transaction.fence + 1)
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
ONLY_WHEN_NEEDED = {
    f"leasehold.stores.sqlite.{name}" for name in ("failures", "opening", "pruning", "reading", "survivors")
}


def imported(path: Path) -> set[str]:
    command = [sys.executable, "-I", "-c", ONE_SHOT, str(ROOT / "src"), str(path)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_one_commit_imports_nothing_dear(tmp_path: Path) -> None:
    first, second = imported(tmp_path / "locks.db"), imported(tmp_path / "locks.db")
    assert "leasehold.stores.sqlite.opening" in first
    assert (first | second) & DEAR == set()
    assert second & ONLY_WHEN_NEEDED == set()

"""What `make bench` measures can be measured: each benchmark once, briefly. No figure is judged here."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.__main__ import BENCHMARKS

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that others may look into: run by root, PostgreSQL is another user."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_brief_run(name: str, folder: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--smoke", name]
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PYTHONPATH": f"{HERE}:{HERE / 'src'}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ratio ") >= 1
    assert "peer" in done.stdout


def test_each_benchmark_is_documented() -> None:
    told = (HERE / "docs" / "explanation" / "benchmarks.md").read_text(encoding="utf-8")
    assert [name for name in BENCHMARKS if f"\n| `{name}` |" not in told] == []

"""What `make bench` measures can be measured: each benchmark of the server once, briefly. No figure is judged here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import postgres, serving

HERE = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", [*serving.BENCHMARKS, *postgres.BENCHMARKS])
def test_a_brief_run(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--smoke", name]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={"PYTHONPATH": f"{HERE}:{HERE / 'src'}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ratio ") >= 1
    assert "peer" in done.stdout

"""A user's module that mypyc compiled takes the same branches as the interpreter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.compiled.building import ROOT, hindrance

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE = 300.0


def run(folder: Path, *words: str) -> str:
    env = {**os.environ, "MYPYPATH": str(ROOT / "src"), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_outcome_is_as_true_when_compiled(tmp_path: Path) -> None:
    why_not = hindrance()
    if why_not is not None:
        pytest.skip(f"NOT RUN: nothing was compiled, because {why_not}.")
    shutil.copy(ROOT / "tests" / "typed" / "truth.py", tmp_path / "truth.py")
    run(tmp_path, "-m", "mypyc", "--config-file=", "truth.py")
    told = run(tmp_path, "-c", "import truth; truth.main(); print(truth.__file__)")
    assert told.strip().endswith(".so"), "what ran was not compiled"

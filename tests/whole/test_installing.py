"""The built wheel installs with pip, uv and pipx, on every Python here; a first lease needs nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.shell import ROOT

PATIENCE = 600.0
"""Packages may have to be fetched."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

pytestmark = pytest.mark.timeout(2 * PATIENCE)


def interpreter(version: str) -> str | None:
    """Find a Python of this version."""
    own = f"{sys.version_info[0]}.{sys.version_info[1]}" == version
    pyenv = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    found = sys.executable if own else (str(pyenv[-1]) if pyenv else shutil.which(f"python{version}"))
    # The shim of a version manager may be found, and refuse to run.
    runs = found is not None and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0
    return found if runs else None


def run(folder: Path, *words: str | Path, **more: str) -> str:
    """Run a command of somebody who has nothing installed, and return what it prints."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("LEASEHOLD_", "VIRTUAL", "PYTEST"))
    }
    kept.pop("PYTHONPATH", None)
    kept |= {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), **more}
    cache = subprocess.run([sys.executable, "-m", "pip", "cache", "dir"], check=True, capture_output=True, text=True)
    done = subprocess.run(
        list(map(str, words)),
        cwd=folder,
        env={**kept, "PIP_CACHE_DIR": cache.stdout.strip()},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


def first_lease(folder: Path, command: Path) -> None:
    """Acquire a lease with the installed command, which has no extras."""
    assert run(folder, command, "acquire", "issue:42").startswith("Acquired issue:42")
    assert "Leasehold" in run(folder, command, "--help")


@pytest.mark.parametrize("version", PYTHONS)
def test_pip_installs_the_wheel(tmp_path: Path, wheel: Path, version: str) -> None:
    found = interpreter(version)
    if found is None:
        pytest.skip(f"NOT RUN: there is no Python {version} here")
    run(tmp_path, found, "-m", "venv", tmp_path / "env")
    run(tmp_path, tmp_path / "env" / "bin" / "python", "-m", "pip", "install", "--quiet", wheel)
    first_lease(tmp_path, tmp_path / "env" / "bin" / "leasehold")


def test_uv_installs_the_wheel_as_a_tool(tmp_path: Path, wheel: Path) -> None:
    tools = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    run(tmp_path, sys.executable, "-m", "uv", "tool", "install", "--python", sys.executable, wheel, **tools)
    first_lease(tmp_path, tmp_path / "bin" / "leasehold")
    once = (sys.executable, "-m", "uv", "tool", "run", "--python", sys.executable, "--from", wheel)
    assert "issue:42" in run(tmp_path, *once, "leasehold", "list", **tools)


def test_pipx_installs_the_wheel(tmp_path: Path, wheel: Path) -> None:
    places = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    run(tmp_path, sys.executable, "-m", "pipx", "install", "--python", sys.executable, wheel, **places)
    first_lease(tmp_path, tmp_path / "bin" / "leasehold")

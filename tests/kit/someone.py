"""A user of our own, in whose home nothing is configured, and real git repositories. No tests in here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.config import paths as places

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"


def settle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory of our own, as the working directory."""
    place = tmp_path / "home"
    place.mkdir()
    for name in [name for name in os.environ if name.startswith(("LEASEHOLD_", "GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "config"))
    monkeypatch.chdir(place)
    return place


def git(where: Path, *words: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always")
    command = ["git", *identity, *words]
    return subprocess.run(command, cwd=where, check=True, capture_output=True, text=True).stdout


def repository(where: Path) -> Path:
    where.mkdir(parents=True)
    git(where, "init", "--quiet")
    git(where, "commit", "--quiet", "--allow-empty", "--message", "first")
    return where


def inside(git_directory: Path) -> str:
    """The URL of the database in this git directory."""
    return f"sqlite://{git_directory.resolve()}/leasehold/leasehold.db"


def pretend_a_stranger_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file belongs to another user. (The tests may run as root, whose own files always count as trustworthy.)"""
    lstat = os.lstat

    def strange(path: str) -> os.stat_result:
        fields = list(lstat(path))
        fields[4] = 4_242
        return os.stat_result(fields)

    def is_planted(path: str) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr(os, "lstat", strange)
            return real(path)

    real = places.is_planted
    monkeypatch.setattr(places, "is_planted", is_planted)

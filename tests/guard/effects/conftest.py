"""The repository that each test of effects changes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.guard.effects.repository import commit_files, sh

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    commit_files(folder / "library")
    commit_files(folder / "app")
    sh("git -c protocol.file.allow=always submodule -q add ../library sub; git commit -qm sub", folder / "app")
    sh("git fetch -q origin feature:feature", folder / "app" / "sub")
    return folder


@pytest.fixture
def app(template: Path, tmp_path: Path) -> Path:
    shutil.copytree(template, tmp_path / "x", symlinks=True)
    root = tmp_path / "x" / "app"
    sh("git worktree add -q -b second ../second main", root)
    return root

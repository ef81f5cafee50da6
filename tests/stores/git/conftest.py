"""A remote for the tests of locks over git."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.remotes import bare

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return bare(tmp_path / "remote.git")

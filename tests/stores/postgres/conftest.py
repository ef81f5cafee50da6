"""A schema of its own for each test of a PostgreSQL store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.postgres import schema

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def url() -> Iterator[str]:
    with schema() as url:
        yield url

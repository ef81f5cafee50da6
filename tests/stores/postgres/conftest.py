"""A schema of its own for each test of a PostgreSQL store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasehold.domain.timestamps import SECOND
from leasehold.stores import postgres
from leasehold.stores.postgres import transaction
from tests.kit.postgres import schema

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def url() -> Iterator[str]:
    with schema() as url:
        yield url


@pytest.fixture
def soon_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores assume after two turns that they are alone, however long a turn takes on a busy machine."""
    monkeypatch.setattr(postgres, "PRACTICE", 2)
    monkeypatch.setattr(postgres, "ALONE", 2)
    monkeypatch.setattr(postgres, "FRESH", 1e9)
    monkeypatch.setattr(transaction, "LAG", 3600 * SECOND)

"""What tests of a SQLite database begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasehold.stores.sqlite import database
from tests.stores.journals import STAYS, shorten, staying
from tests.stores.samples import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from leasehold.stores.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locks.db"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def alone(path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    """A store whose process stays, and has been alone for long enough to begin early."""
    shorten(monkeypatch)
    monkeypatch.setattr(database, "LONG_ALONE", STAYS)
    monkeypatch.setattr(database, "OPEN_EVERY", 10_007)
    store = staying(path, clock)
    yield store
    store.close()

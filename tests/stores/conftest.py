"""What tests of a SQLite database begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasehold.stores.sqlite import SqliteStore
from tests.kit.samples import FakeClock
from tests.stores.sqlite.journals import shorten, staying

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locks.db"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(path))
    yield store
    store.close()


@pytest.fixture
def other(store: SqliteStore, path: Path) -> Iterator[SqliteStore]:
    """A store of another process on the same database."""
    other = SqliteStore(str(path))
    yield other
    other.close()


@pytest.fixture
def alone(path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    """A store whose process stays and is alone."""
    shorten(monkeypatch)
    store = staying(path, clock)
    yield store
    store.close()

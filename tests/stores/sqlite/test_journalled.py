"""The embedded store keeps every promise with a journal that everybody writes, and that is folded every few commits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.stores.sqlite import SqliteStore, database, journal
from leasehold.testing.conformance import Conformance, Connections

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class TestJournalled(Conformance):
    @pytest.fixture
    def connect(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connections]:
        monkeypatch.setattr(database, "LASTING", 1)
        monkeypatch.setattr(database, "ALONE", 0)
        monkeypatch.setattr(journal, "FULL", 20)
        opening = partial(leasehold.connect, f"sqlite://{tmp_path}/locks.db")
        with Connections(opening, SqliteStore.capabilities) as connect:
            yield connect

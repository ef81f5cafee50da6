"""The embedded store keeps every promise: with the callers in one process, and in several."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.stores.sqlite import SqliteStore
from leasehold.testing.conformance import Conformance, Connections
from tests.kit.warm import in_a_forked_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class TestInOneProcess(Conformance):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Iterator[Connections]:
        opening = partial(leasehold.connect, f"sqlite://{tmp_path}/locks.db")
        with Connections(opening, SqliteStore.capabilities) as connect:
            yield connect


class TestInSeveralProcesses(Conformance):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Iterator[Connections]:
        opening = partial(in_a_forked_process, leasehold.connect, f"sqlite://{tmp_path}/locks.db")
        with Connections(opening, SqliteStore.capabilities) as connect:
            yield connect

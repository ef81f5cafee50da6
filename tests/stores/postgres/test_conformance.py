"""The PostgreSQL store keeps every promise, each connection being an engine of its own as in a server of its own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.stores import postgres
from leasehold.stores.postgres import PostgresStore, journal
from leasehold.testing.conformance import Conformance, Connections
from tests.kit.postgres import schema

if TYPE_CHECKING:
    from collections.abc import Iterator


class TestOnPostgres(Conformance):
    @pytest.fixture
    def connect(self) -> Iterator[Connections]:
        with schema() as url, Connections(partial(leasehold.connect, url), PostgresStore.capabilities) as connect:
            yield connect


class TestOnPostgresAlone(Conformance):
    """The same of servers that assume soon, and again and again, that nobody else is there; with short journals."""

    @pytest.fixture
    def connect(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connections]:
        for patience in ("PRACTICE", "ALONE", "AGAIN"):
            monkeypatch.setattr(postgres, patience, 0)
        monkeypatch.setattr(journal, "FULL", 12)
        with schema() as url, Connections(partial(leasehold.connect, url), PostgresStore.capabilities) as connect:
            yield connect

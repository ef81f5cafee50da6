"""The router keeps every promise: the whole suite on stores that are divided into lanes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.stores.etcd import EtcdStore
from leasehold.stores.postgres import PostgresStore
from leasehold.testing.conformance import Conformance, Connections
from tests.kit import etcd
from tests.kit.postgres import schema

if TYPE_CHECKING:
    from collections.abc import Iterator

LANES = 4


class TestLanesOnPostgres(Conformance):
    @pytest.fixture
    def connect(self) -> Iterator[Connections]:
        with schema(LANES) as url, Connections(partial(leasehold.connect, url), PostgresStore.capabilities) as connect:
            yield connect


class TestLanesOnEtcd(Conformance):
    @pytest.fixture
    def connect(self) -> Iterator[Connections]:
        with Connections(partial(leasehold.connect, etcd.empty(LANES)), EtcdStore.capabilities) as connect:
            yield connect

"""The etcd store keeps every promise, each connection being an engine of its own as in a server of its own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.stores.etcd import EtcdStore
from leasehold.testing.conformance import Conformance, Connections
from tests.kit import etcd

if TYPE_CHECKING:
    from collections.abc import Iterator


class TestOnEtcd(Conformance):
    @pytest.fixture
    def connect(self) -> Iterator[Connections]:
        with Connections(partial(leasehold.connect, etcd.empty()), EtcdStore.capabilities) as connect:
            yield connect

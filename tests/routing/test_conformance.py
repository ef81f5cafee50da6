"""The router keeps every promise: the whole suite on divided stores, and some topics after a change of their lanes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.config import settings
from leasehold.locks.connect import divide
from leasehold.stores.etcd import EtcdStore
from leasehold.stores.postgres import PostgresStore
from leasehold.testing.conformance import Conformance, Connections
from leasehold.testing.conformance.asking import take
from leasehold.testing.conformance.fences import Fences
from leasehold.testing.conformance.leases import Leases
from leasehold.testing.conformance.sessions import Sessions
from leasehold.testing.conformance.waiting import Waiting
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


class TestEtcdAfterAChangeOfItsLanes(Leases, Waiting, Sessions, Fences):
    """What a change leaves in a lane is what an engine needs. The topic of history begins with an empty one."""

    @pytest.fixture
    def connect(self) -> Iterator[Connections]:
        url = etcd.empty(None)
        with leasehold.connect(f"{url}?lanes=2", holder="before") as locks:
            for space in ("one", "two", "three"):
                granted = take(locks, "r", space=space)
                assert locks.release(granted.lease.id, granted.token)
        assert divide(settings.find(url), LANES) == (2, LANES)
        with Connections(partial(leasehold.connect, url), EtcdStore.capabilities) as connect:
            yield connect

"""Every promise holds over several servers: the whole suite, each request going to another one of three."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

from leasehold.stores.postgres import PostgresStore
from leasehold.testing.conformance import Conformance, Connections
from leasehold.testing.conformance.cancelling import Cancelling
from leasehold.testing.conformance.deadlocks import Deadlocks
from leasehold.testing.conformance.fences import Fences
from leasehold.testing.conformance.retries import Retries
from tests.acceptance.servers import OWNERS, Servers, forget_everything, servers_on, wandering
from tests.acceptance.test_many_servers import STORES
from tests.kit.postgres import schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasehold.stores import Capabilities

IS_PROOF = bool(os.environ.get("LEASEHOLD_PROVE"))


class Some(Deadlocks, Retries, Cancelling, Fences):
    """Enough for CI: what several servers are most likely to get wrong."""


def _with_lanes() -> Iterator[Servers]:
    with schema(3) as url, servers_on(url, PostgresStore, 3, *OWNERS) as servers:
        yield servers


@pytest.fixture(scope="module", params=[*sorted(STORES), "postgres, 3 lanes"])
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    yield from STORES.get(request.param, _with_lanes)()


class TestOverThreeServers(Conformance if IS_PROOF else Some):  # type: ignore[misc] # one or the other
    # What an installation allows is decided where the server runs, not by its clients.
    test_ttl_has_an_upper_bound_that_the_settings_choose = None
    test_overlap_of_a_scheme_that_the_settings_make_hierarchical = None
    # Without keys, every client of the server is its admin, and needs no proof.
    test_entitled_is_nobody_with_a_wrong_proof = None
    # A server that sees a client hang up leaves the queue at once, but not before another one can be asked.
    test_waiting_on_a_connection_that_is_closed = None

    @pytest.fixture
    def connect(self, servers: Servers) -> Iterator[Connections]:
        capabilities: Capabilities = servers.opened.capabilities  # type: ignore[attr-defined] # it is a store's class
        with Connections(partial(wandering, servers.url), capabilities) as connect:
            yield connect
        forget_everything(servers)

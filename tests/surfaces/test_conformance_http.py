"""Every promise holds through HTTP as well: the whole suite with a client of a real server."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.stores.sqlite import SqliteStore
from leasehold.testing.conformance import Conformance, Connections
from tests.surfaces.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class TestThroughHttp(Conformance):
    # What an installation allows is decided where the server runs, not by its clients.
    test_ttl_has_an_upper_bound_that_the_settings_choose = None  # type: ignore[assignment]
    test_overlap_of_a_scheme_that_the_settings_make_hierarchical = None  # type: ignore[assignment]
    # Without keys, whoever reaches the server is its admin, and needs no proof.
    test_entitled_is_nobody_with_a_wrong_proof = None  # type: ignore[assignment]

    @pytest.fixture
    def connect(self, tmp_path: Path) -> Iterator[Connections]:
        with (
            serving(tmp_path, "--rate", "0") as server,
            Connections(partial(leasehold.connect, server.url), SqliteStore.capabilities) as connect,
        ):
            yield connect

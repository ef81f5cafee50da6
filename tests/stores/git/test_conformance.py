"""A git remote keeps every promise: a bare repository by its path, and one served over the git protocol.

A push costs 60 ms, so CI runs those topics that a store can break, over both; with LEASEHOLD_PROVE=1 all topics run.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.stores.git import CAPABILITIES
from leasehold.testing.conformance import Conformance, Connections
from leasehold.testing.conformance.fences import Fences
from leasehold.testing.conformance.modes import Modes
from leasehold.testing.conformance.retries import Retries
from leasehold.testing.conformance.several import Several
from leasehold.testing.conformance.ttl import Ttl
from leasehold.testing.conformance.unclean import Unclean
from leasehold.testing.conformance.waiting import Waiting
from tests.kit.remotes import bare, others, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROVE = bool(os.environ.get("LEASEHOLD_PROVE"))
OPTIONS = "poll=100ms"


class OfAStore(Modes, Several, Ttl, Waiting, Fences, Unclean, Retries):
    """What depends on how a store writes, compares and tells the time."""


class OfATransport(Several, Retries):
    """What depends on how a store is reached."""


def test_the_topics_that_ci_leaves_out() -> None:
    if not PROVE:
        pytest.skip("over git, CI runs 7 topics by path and 2 over the network; LEASEHOLD_PROVE=1 runs all, on both")


class TestByPath(Conformance if PROVE else OfAStore):  # type: ignore[misc] # chosen when it is run
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Iterator[Connections]:
        remote = bare(tmp_path / "remote.git")
        before = others(remote)
        opening = partial(leasehold.connect, f"git+file://{remote}?{OPTIONS}&cache={tmp_path}/cache")
        with Connections(opening, CAPABILITIES) as connect:
            yield connect
        assert others(remote) == before


class TestServed(Conformance if PROVE else OfATransport):  # type: ignore[misc]
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Iterator[Connections]:
        remote = bare(tmp_path / "remote.git")
        before = others(remote)
        with served(tmp_path) as url:
            opening = partial(leasehold.connect, f"git+{url}/remote.git?{OPTIONS}&cache={tmp_path}/cache")
            with Connections(opening, CAPABILITIES) as connect:
                yield connect
        assert others(remote) == before

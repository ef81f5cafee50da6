"""Every promise of Leasehold, as one suite that each store runs: a file per topic. Needs pytest.

A store author writes one fixture::

    import pytest
    import leasehold
    from leasehold.testing.conformance import Connections, Conformance

    class TestMyStore(Conformance):
        @pytest.fixture
        def connect(self, tmp_path):
            url = f"mystore://{tmp_path}"
            with Connections(lambda **options: leasehold.connect(url, **options), MyStore.capabilities) as connect:
                yield connect

`connect(**options)` gives a fresh connection, independent of all others, to the same, at first empty, store. Options
are those of `leasehold.connect`: `holder`, `space`, `settings`. Where a store's capabilities say that it cannot keep
a promise, the tests of that promise are skipped with that reason; everything else must pass.
"""

from __future__ import annotations

from pkgutil import iter_modules

import pytest

TOPICS = tuple(module.name for module in iter_modules(__path__))
"""The files of this package."""

pytest.register_assert_rewrite(*(f"{__name__}.{topic}" for topic in TOPICS))

from leasehold.testing.conformance.admin import Admin  # noqa: E402 (asserts are rewritten from here on)
from leasehold.testing.conformance.asking import Asking, Connect, Connections  # noqa: E402
from leasehold.testing.conformance.bounds import Bounds  # noqa: E402
from leasehold.testing.conformance.cancelling import Cancelling  # noqa: E402
from leasehold.testing.conformance.choices import Choices  # noqa: E402
from leasehold.testing.conformance.deadlocks import Deadlocks  # noqa: E402
from leasehold.testing.conformance.entitled import Entitled  # noqa: E402
from leasehold.testing.conformance.fences import Fences  # noqa: E402
from leasehold.testing.conformance.graphs import Graphs  # noqa: E402
from leasehold.testing.conformance.history import History  # noqa: E402
from leasehold.testing.conformance.intents import Intents  # noqa: E402
from leasehold.testing.conformance.leases import Leases  # noqa: E402
from leasehold.testing.conformance.modes import Modes  # noqa: E402
from leasehold.testing.conformance.names import Names  # noqa: E402
from leasehold.testing.conformance.order import Order  # noqa: E402
from leasehold.testing.conformance.overlap import Overlap  # noqa: E402
from leasehold.testing.conformance.patterns import Patterns  # noqa: E402
from leasehold.testing.conformance.plans import Plans  # noqa: E402
from leasehold.testing.conformance.pools import Pools  # noqa: E402
from leasehold.testing.conformance.reentrant import Reentrant  # noqa: E402
from leasehold.testing.conformance.refusals import Refusals  # noqa: E402
from leasehold.testing.conformance.retries import Retries  # noqa: E402
from leasehold.testing.conformance.sessions import Sessions  # noqa: E402
from leasehold.testing.conformance.several import Several  # noqa: E402
from leasehold.testing.conformance.ttl import Ttl  # noqa: E402
from leasehold.testing.conformance.unclean import Unclean  # noqa: E402
from leasehold.testing.conformance.waiting import Waiting  # noqa: E402

__all__ = ["TOPICS", "Asking", "Conformance", "Connect", "Connections"]


class Conformance(
    Names,
    Overlap,
    Patterns,
    Pools,
    Plans,
    Modes,
    Several,
    Choices,
    Ttl,
    Waiting,
    Order,
    Refusals,
    Retries,
    Cancelling,
    Reentrant,
    Leases,
    Entitled,
    Sessions,
    Admin,
    Unclean,
    Deadlocks,
    Intents,
    Graphs,
    Fences,
    History,
    Bounds,
):
    """All topics. Subclass it as `Test…` with a fixture `connect`; or subclass a single topic of them."""

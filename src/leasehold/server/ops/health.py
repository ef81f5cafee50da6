"""Readiness (the store answers, and the engine can commit), and the figures of the store for a scrape of metrics."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from leasehold.domain.outcomes import Refused
from leasehold.domain.timestamps import SECOND
from leasehold.errors import LeaseholdError
from leasehold.server.api import problems
from leasehold.server.ops.metrics import StoreState

if TYPE_CHECKING:
    from starlette.responses import Response

    from leasehold.locks.hosted import Served
    from leasehold.server.ops.metrics import Labels, Metrics


SECONDS = 5.0


async def ready(served: Served) -> Response:
    """Answer that requests can be served, or raise the problem that says why not."""
    try:
        async with asyncio.timeout(SECONDS):
            await asyncio.get_running_loop().run_in_executor(None, served.ping)
            await served.probe()
    except TimeoutError:
        raise problems.Problem("unreachable", f"the store has not answered for {SECONDS:g} s") from None
    except LeaseholdError as error:
        raise problems.of_error(error) from error
    return problems.ok({"status": "ok"})


VALID = 5.0
"""Seconds for which a look is valid: several scrapers cost the store one look."""
REST = 20
"""A look is valid for so many times as long as it took, if that is more: it costs a server 5 % at most."""
EDGES_MOST = 1_000
"""The longest waits come first, so the oldest of each space is among so many edges as a rule."""
SECONDS = 5.0


class StoreLook:
    """Looks at the store, at most once in a while, and leaves the figures as they were if it does not answer."""

    def __init__(self, served: Served, metrics: Metrics) -> None:
        self._served = served
        self._metrics = metrics
        self._valid_until = 0.0
        self._turn = asyncio.Lock()

    async def refresh(self) -> None:
        """Bring the figures of the store up to date."""
        async with self._turn:
            begun = time.monotonic()
            if begun < self._valid_until:
                return
            try:
                async with asyncio.timeout(SECONDS):
                    self._metrics.store_state = await self._look()
            except (TimeoutError, LeaseholdError):  # `/readyz` reports it
                self._metrics.store_state.round_trip = time.monotonic() - begun
            took = time.monotonic() - begun
            self._valid_until = begun + took + max(VALID, took * REST)

    async def _look(self) -> StoreState:
        begun = time.perf_counter()
        now = await asyncio.get_running_loop().run_in_executor(None, self._served.ping)
        state = StoreState({}, {}, {}, time.perf_counter() - begun)
        for values in self._metrics.store_state.held:
            state.held[values] = 0  # a series that vanishes looks like a failure
        leases = await self._served.locks.list()
        for lease in () if isinstance(leases, Refused) else leases:
            labels = self._metrics.labels(lease.space, lease.resources[0])
            state.held[labels] = state.held.get(labels, 0) + 1
            _keep_oldest(state.holds, labels, (now - lease.acquired_us) / SECOND)
        seen = await self._served.locks.graph(limit=EDGES_MOST)
        if not isinstance(seen, Refused):
            spaces = {agent.id: agent.space for agent in seen.agents}
            for edge in seen.edges:
                labels = self._metrics.labels(spaces[edge.waiter], edge.resource)
                _keep_oldest(state.waits, labels, (now - edge.since_us) / SECOND)
        return state


def _keep_oldest(ages: dict[Labels, float], labels: Labels, age: float) -> None:
    ages[labels] = max(ages.get(labels, 0.0), age, 0.0)

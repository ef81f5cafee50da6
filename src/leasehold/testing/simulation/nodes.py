"""Simulated processes: an engine, its way to the store, and a clock that is a little wrong. They stop at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.timestamps import SECOND
from leasehold.engine.engine import Engine
from leasehold.errors import LeaseholdError
from leasehold.testing.simulation.watch import Broken

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from leasehold.testing.faults import FaultyStore

TURNS = 400
"""An engine that turns more often than this in a second, although nobody asks, is spinning."""


class SimulatedNode:
    """One process."""

    def __init__(
        self,
        number: int,
        store: FaultyStore,
        clock: Callable[[], int],
        chance: random.Random,
        *,
        housekeeping: bool = False,
    ) -> None:
        self.store = store
        self._clock = clock
        self._pace = chance.uniform(0.9995, 1.0005)
        self._started = clock()
        self.engine = Engine(store, clock=self._monotonic, engine_id=f"engine-{number}", housekeeping=housekeeping)
        self.paused_until = 0
        self.is_alive = True
        self._troubled_at = self._started
        self._second = 0
        self._turns = 0

    def _monotonic(self) -> float:
        return (self._clock() - self._started) / SECOND * self._pace

    @property
    def runs(self) -> bool:
        """True if it would take its turn now."""
        return self.is_alive and self.paused_until <= self._clock()

    def undisturbed_since(self) -> int:
        """Return the time since which it has run and reached the store."""
        return self._troubled_at if self.runs else self._clock()

    def pause(self, us: int) -> None:
        """Stop for a while, as a process does that is swapped out."""
        self.paused_until = self._troubled_at = self._clock() + us

    def due_in(self) -> int | None:
        """Return the time until it must take a turn, or None if a caller has to ask first."""
        if self.engine.has_work:
            return 0
        at = self.engine.next_time()
        return None if at is None else max(0, int((at - self._monotonic()) / self._pace * SECOND) + 1)

    def turn(self) -> None:
        """Let the engine take its turn."""
        failures = self.store.failures
        self._count_turn()
        try:
            self.engine.turn()
        except LeaseholdError as error:
            raise Broken(f"a turn of the engine ended in {error!r}; its callers got no answer") from error
        if self.store.failures != failures:
            self._troubled_at = self._clock()

    def _count_turn(self) -> None:
        second = self._clock() // SECOND
        if second != self._second:
            self._second, self._turns = second, 0
        self._turns += not self.engine.has_work
        if self._turns > TURNS:
            raise Broken(f"the engine spins: {self._turns} turns in a second in which nobody asked for them")

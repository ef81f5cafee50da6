"""A thread that asks for etcd's time at each turn of a second, so that all servers agree on it."""

from __future__ import annotations

import threading

from leasehold.errors import LeaseholdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.stores.etcd.clock import MemberClock

PATIENCE = 5.0


class Timekeeper:
    """Asks for the time until it is closed."""

    def __init__(self, clock: MemberClock, ask: Callable[[], None]) -> None:
        self._clock = clock
        self._ask = ask
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="etcd time", daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        while not self._is_closed.wait(self._clock.until_a_turn()):
            try:
                self._ask()
            except LeaseholdError:  # the calls that need etcd report it; the known time stays good enough
                self._is_closed.wait(1)

    def close(self) -> None:
        """Stop after the request that is under way."""
        self._is_closed.set()
        self._thread.join(PATIENCE)

"""The clock of etcd's members, derived from the date in each of their HTTP answers.

A date has whole seconds. Each one bounds the offset of that clock to our monotonic one, since the member read its clock
between the request and the answer. Next to the turn of a second the bounds are as narrow as one exchange. `now` uses
the lower bound, so that nothing expires early.
"""

from __future__ import annotations

import calendar
import threading
import time
from typing import TYPE_CHECKING

from leasehold.domain.timestamps import SECOND
from leasehold.errors import LeaseholdError

if TYPE_CHECKING:
    from collections.abc import Callable

EXACT = 5_000
"""Microseconds of uncertainty at which the clock may be used for decisions."""
STEP = 5 * SECOND
"""Microseconds by which a date must contradict the bounds to mean that the members' clock was set."""
DRIFT = 5_000
"""Two clocks drift apart by at most one part in this many."""
PATIENCE = 5.0
"""Seconds that closing waits for a request under way."""

_known: dict[object, MemberClock] = {}


def clock_of(members: object) -> MemberClock:
    """Return this process's shared clock of these members."""
    return _known.setdefault(members, MemberClock())


class MemberClock:
    """Bounds of the offset from our monotonic clock to etcd's, in microseconds."""

    def __init__(self) -> None:
        self._low: int | None = None
        self._high = 0
        self._known_at = 0

    def narrow(self, date: str, asked: float, answered: float) -> None:
        """Narrow the bounds by the date of an answer that was requested and received at these monotonic times."""
        seconds = parse(date)
        if seconds is None:
            return
        low = seconds * SECOND - int(answered * SECOND)
        high = (seconds + 1) * SECOND - int(asked * SECOND)
        if self._low is None or high < self._low - STEP or low > self._high + STEP:
            self._low, self._high, self._known_at = low, high, int(answered * SECOND)
            return
        apart = (int(answered * SECOND) - self._known_at) // DRIFT
        low, high = max(self._low - apart, low), min(self._high + apart, high)
        if low < high:  # otherwise another member with a slightly different clock: keep the bounds
            self._low, self._high, self._known_at = low, high, int(answered * SECOND)

    def until_a_turn(self) -> float:
        """Return the seconds until a second turns, by the middle of the bounds.

        A date asked for then halves the uncertainty: it shows on which side of the middle the members' clock is.
        """
        guess = ((self._low or 0) + self._high) // 2 + time.monotonic_ns() // 1_000
        return (SECOND - guess % SECOND) / SECOND

    @property
    def is_exact(self) -> bool:
        """True if the offset is known well enough for decisions."""
        return self._low is not None and self._high - self._low <= EXACT

    def now(self) -> int:
        """Return the members' time, never ahead of it."""
        if self._low is None:
            raise RuntimeError("no answer with a date has come yet")
        return self._low + time.monotonic_ns() // 1_000


class Timekeeper:
    """A thread that asks for etcd's time at each turn of a second, so that all servers agree on it."""

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


def parse(date: str) -> int | None:
    """Return the seconds since 1970 of an HTTP date, or None if it is not one."""
    try:
        return calendar.timegm(time.strptime(date, "%a, %d %b %Y %H:%M:%S GMT"))
    except ValueError:
        return None

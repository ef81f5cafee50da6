"""The clock of etcd's members, from the date that each of their answers carries.

A date has whole seconds; each narrows down by how much that clock is ahead of our monotonic one: it was asked for at
one moment and answered at another, and the truth lies in between. Seen next to the turn of a second, that is exact to
the time of one exchange. The estimate stays on the late side, so that nothing expires before its time.
"""

from __future__ import annotations

import calendar
import time

from leasehold.model import SECOND

EXACT = 5_000
"""How exactly the clock must be known before anything is decided by it, in microseconds."""
STEP = 5 * SECOND
"""A date that is this far from what we thought means that their clock was set."""
DRIFT = 5_000
"""Two clocks go apart by at most one part in this many."""

_known: dict[object, MemberClock] = {}


def clock_of(members: object) -> MemberClock:
    """The clock of these members, as far as this process knows it already."""
    return _known.setdefault(members, MemberClock())


class MemberClock:
    """By how many microseconds etcd's clock is ahead of our monotonic one."""

    def __init__(self) -> None:
        self._low: int | None = None
        self._high = 0
        self._told_at = 0

    def tell(self, date: str, asked: float, answered: float) -> None:
        """An answer with this date was asked for and arrived at these moments."""
        seconds = parse(date)
        if seconds is None:
            return
        low = seconds * SECOND - int(answered * SECOND)
        high = (seconds + 1) * SECOND - int(asked * SECOND)
        if self._low is None or high < self._low - STEP or low > self._high + STEP:
            self._low, self._high, self._told_at = low, high, int(answered * SECOND)
            return
        apart = (int(answered * SECOND) - self._told_at) // DRIFT
        low, high = max(self._low - apart, low), min(self._high + apart, high)
        if low < high:  # otherwise another member, a little apart: keep to what we have
            self._low, self._high, self._told_at = low, high, int(answered * SECOND)

    def until_a_turn(self) -> float:
        """In how many seconds a date tells most: when by our best guess a second turns.

        If it has turned by then, their clock is ahead of the guess, and otherwise behind: what is not known is halved.
        """
        guess = ((self._low or 0) + self._high) // 2 + time.monotonic_ns() // 1_000
        return (SECOND - guess % SECOND) / SECOND

    @property
    def is_exact(self) -> bool:
        """Whether it is known well enough."""
        return self._low is not None and self._high - self._low <= EXACT

    def now(self) -> int:
        """Their time, never ahead of it."""
        if self._low is None:
            raise RuntimeError("no answer with a date has come yet")
        return self._low + time.monotonic_ns() // 1_000


def parse(date: str) -> int | None:
    """The seconds since 1970 of an HTTP date; None if it is none."""
    try:
        return calendar.timegm(time.strptime(date, "%a, %d %b %Y %H:%M:%S GMT"))
    except ValueError:
        return None

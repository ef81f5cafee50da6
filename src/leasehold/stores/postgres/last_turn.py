"""Facts about PostgreSQL that a server keeps between its turns. The next turn finds out if they are still true."""

from __future__ import annotations

import time

from leasehold.domain.nouns import Noun

OUR_CLOCK = 999_000
"""At least so many microseconds of the database's clock pass in a second of ours: real clocks are far better."""


class LastTurn(Noun):
    """Facts at the end of our last turn. They hold until another server has a turn."""

    now: int
    """The database's clock."""
    at: float
    """Our own clock, when we had heard of it."""
    fence: int
    timeline: bytes
    opens_at: int
    longest: int

    def by_now(self) -> int:
        """Return the database's time, or a little less: our clock may be the faster one."""
        return self.now + int((time.monotonic() - self.at) * OUR_CLOCK)

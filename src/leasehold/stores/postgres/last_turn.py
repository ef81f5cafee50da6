"""Facts as of the end of a server's last turn. The next turn checks if they are still true."""

from __future__ import annotations

import time

from leasehold.domain.nouns import Noun

OUR_CLOCK = 999_000
"""The fewest microseconds on the database's clock in a second of this machine's. Real clocks differ far less."""


class LastTurn(Noun):
    """Facts as of the end of the last turn. They hold until another server has a turn."""

    now: int
    """The database's clock."""
    at: float
    """This machine's clock when the answer arrived."""
    fence: int
    timeline: bytes
    opens_at: int
    longest: int

    def by_now(self) -> int:
        """Return the database's time, or a little less: this machine's clock may be the faster one."""
        return self.now + int((time.monotonic() - self.at) * OUR_CLOCK)

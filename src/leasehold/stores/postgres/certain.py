"""What else a server knows of PostgreSQL between its turns. It does not know whether that is still true."""

from __future__ import annotations

from leasehold.noun import Noun


class Certain(Noun):
    """What was so at the end of our last turn, and is until somebody else has one."""

    now: int
    """The database's clock."""
    at: float
    """Our own clock, when we had heard of it."""
    fence: int
    timeline: bytes
    opens_at: int
    longest: int

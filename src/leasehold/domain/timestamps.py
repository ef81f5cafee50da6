"""Times and durations in whole microseconds, and as `datetime` and `timedelta` for callers.

`datetime` is imported only when a caller asks for one: a one-shot command does without.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from typing import Final

SECOND: Final = 1_000_000
"""One second in the unit of every time and duration here."""

FOREVER: Final = 9_007_199_254_740_991  # 2**53 - 1, spelled out: so compiled code knows it, too
"""A time that never comes; also the largest fence, since JSON numbers are exact up to here."""


def moment(us: int) -> datetime:
    """Return this time as a `datetime` in UTC."""
    from datetime import UTC, datetime, timedelta

    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)


def moment_or_never(us: int | None) -> datetime | None:
    """Return this time as a `datetime` in UTC, or None for a time that never comes or is not known."""
    return None if us is None or us >= FOREVER else moment(us)


def span(us: int) -> timedelta:
    """Return this duration as a `timedelta`."""
    from datetime import timedelta

    return timedelta(microseconds=us)

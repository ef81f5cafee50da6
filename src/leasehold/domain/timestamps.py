"""The store's whole microseconds as times of the standard library, for callers. It reads no clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from leasehold.domain.model import FOREVER

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(us: int) -> datetime:
    """The time of this many microseconds since 1970, in UTC."""
    return _EPOCH + timedelta(microseconds=us)


def moment_or_never(us: int | None) -> datetime | None:
    """The same; None for one that never comes."""
    return None if us is None or us >= FOREVER else moment(us)


def span(us: int) -> timedelta:
    """The duration of this many microseconds."""
    return timedelta(microseconds=us)

"""A clock that the test moves, and leases to count on it."""

from __future__ import annotations

from leasehold.domain.leases import Lease
from leasehold.domain.outcomes import Granted
from leasehold.domain.timestamps import SECOND

ID = "l7-0123456789abcdef0123456789abcdef"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def lease(ttl: float = 30, life: float | None = None, as_of: int = 5_000_000) -> Lease:
    expires_at = as_of + int((ttl if life is None else life) * SECOND)
    return Lease(
        ID, "default", ("x",), "a", None, "exclusive", 1, 7, int(ttl * SECOND), 0, expires_at, None, None, None, as_of
    )


def granted(ttl: float = 30, life: float | None = None) -> Granted:
    return Granted(lease(ttl, life), "secret", fresh=True)

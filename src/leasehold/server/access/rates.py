"""How often each principal may ask: so many requests a second."""

from __future__ import annotations

import time

from leasehold.server.api.problems import Problem

RATE = 1_000.0
PRINCIPALS = 10_000


class Bucket:
    """What is left of a principal's requests, and since when it has been filling up."""

    __slots__ = ("left", "since")

    def __init__(self, left: float, since: float) -> None:
        self.left = left
        self.since = since


class Rates:
    """A bucket of tokens for each principal: it fills up at `rate` a second, and holds one second's worth."""

    def __init__(self, rate: float = RATE) -> None:
        self._rate = float(rate)
        self._buckets: dict[str, Bucket] = {}

    def take(self, who: str, now: float = 0.0) -> None:
        """Count one request; too many are refused. `now`: of whoever has just looked at the clock."""
        rate = self._rate
        if not rate:
            return
        now = now or time.monotonic()
        bucket = self._buckets.get(who)
        if bucket is None:
            bucket = self._new_bucket(who, now)
        left = min(rate, bucket.left + (now - bucket.since) * rate)
        if left < 1:
            raise Problem(
                "rate_limited",
                f"more than {rate:g} requests a second; slow down",
                retry_after_seconds=round((1 - left) / rate, 6),
            )
        bucket.left = left - 1
        bucket.since = now

    def _new_bucket(self, who: str, now: float) -> Bucket:
        if len(self._buckets) >= PRINCIPALS:
            self._forget(now)
        return self._buckets.setdefault(who, Bucket(self._rate, now))

    def _forget(self, now: float) -> None:
        """Whoever has not asked for a second has a full bucket, which need not be kept."""
        self._buckets = {who: bucket for who, bucket in self._buckets.items() if now - bucket.since < 1}

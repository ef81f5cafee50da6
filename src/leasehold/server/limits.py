"""How much may be asked: bodies of bounded size, in bounded time, and so many requests a second from each principal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from leasehold.server.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request

BODY_BYTES = 64 * 1024
BODY_SECONDS = 20.0
"""How long a client may take to send its body."""
RATE = 1_000.0
PRINCIPALS = 10_000


class Rates:
    """A bucket of tokens for each principal: it fills up at `rate` a second, and holds one second's worth."""

    def __init__(self, rate: float = RATE) -> None:
        self._rate = rate
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, who: str) -> None:
        """Count one request; too many are refused."""
        if not self._rate:
            return
        now = time.monotonic()
        left, at = self._buckets.get(who, (self._rate, now))
        left = min(self._rate, left + (now - at) * self._rate)
        if left < 1:
            raise Problem(
                "rate_limited",
                f"more than {self._rate:g} requests a second; slow down",
                retry_after_seconds=round((1 - left) / self._rate, 6),
            )
        if who not in self._buckets and len(self._buckets) >= PRINCIPALS:
            self._forget(now)
        self._buckets[who] = (left - 1, now)

    def _forget(self, now: float) -> None:
        """Whoever has not asked for a second has a full bucket, which need not be kept."""
        self._buckets = {who: (left, at) for who, (left, at) in self._buckets.items() if now - at < 1}


async def read_body(request: Request, most: int = BODY_BYTES) -> bytes:
    """The whole body, if it is not too large."""
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > most:
        raise too_large(most)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise too_large(most)
    return bytes(body)


def too_large(most: int = BODY_BYTES) -> Problem:
    """The refusal of a body that is too large."""
    return Problem("too_large", f"a body may have at most {most} bytes")

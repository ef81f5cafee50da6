"""The body of a request that the quick parser does not take: of a bounded size, and within bounded time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from leasehold.server.api.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request

BODY_BYTES = 64 * 1024
BODY_SECONDS = 20.0
"""How long a client may take to send its body, in seconds."""


async def read_body(request: Request, most: int = BODY_BYTES) -> bytes:
    """Return the whole body; refuse one that is too large or does not arrive in time."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _read(request, most)
    except TimeoutError:
        raise slow() from None


async def _read(request: Request, most: int) -> bytes:
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > most:
        raise too_large(most)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise too_large(most)
    return bytes(body)


def too_large(most: int) -> Problem:
    """Return the refusal of a body of more bytes than that."""
    return Problem("too_large", f"a body may have at most {most} bytes")


def slow() -> Problem:
    """Return the refusal of a body that takes too long."""
    return Problem("slow", f"the body did not arrive within {BODY_SECONDS:g} s")

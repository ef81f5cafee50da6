"""Readiness: the store answers, and the engine can commit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from leasehold.errors import LeaseholdError
from leasehold.server.api import problems

if TYPE_CHECKING:
    from starlette.responses import Response

    from leasehold.locks.hosted import Served

SECONDS = 5.0


async def ready(served: Served) -> Response:
    """Answer that requests can be served, or raise the problem that says why not."""
    try:
        async with asyncio.timeout(SECONDS):
            await asyncio.get_running_loop().run_in_executor(None, served.ping)
            await served.probe()
    except TimeoutError:
        raise problems.Problem("unreachable", f"the store has not answered for {SECONDS:g} s") from None
    except LeaseholdError as error:
        raise problems.of_error(error) from error
    return problems.ok({"status": "ok"})

"""``leasehold mcp``: the tools over standard input and output. The life of this process is a session.

When the client goes away, whatever it took is released; should this process be killed, it expires within a minute.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from leasehold.mcp.building import build
from leasehold.mcp.desk import Desk
from leasehold.mcp.sessions import Sessions
from leasehold.opening import aconnect

if TYPE_CHECKING:
    from leasehold.async_locks import AsyncLocks
    from leasehold.config import Choice

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Client:
    """The one party at the other end."""

    id = "stdio"

    def __init__(self, locks: AsyncLocks, sessions: Sessions) -> None:
        self._locks = locks
        self._sessions = sessions
        self.gone = asyncio.Event()

    def agent(self, given: str | None) -> str:
        """As it says, or as this process is called."""
        return given or self._locks.holder

    def is_one(self, given: str | None) -> bool:  # noqa: ARG002 (everybody in here has a session)
        """Every name has a session of its own."""
        return True

    async def credential(self, agent: str) -> str:
        """Begun when it is first needed."""
        return await self._sessions.of(agent)

    async def ask(self, verb: str, arguments: dict[str, Any]) -> Any:  # noqa: ANN401 (see `parties.Party`)
        """The locks' answer."""
        return await getattr(self._locks, verb)(**arguments)

    def granted(self, lease: str, token: str) -> None:
        """It ends with the session: nothing to remember."""


def serve(choice: Choice, holder: str | None, space: str, session: str | None) -> None:
    """Serve until the client closes its end, or somebody says to stop."""
    asyncio.run(_serve(choice, holder, space, session))


async def _serve(choice: Choice, holder: str | None, space: str, session: str | None) -> None:
    locks = await aconnect(choice, holder=holder, space=space)
    sessions = Sessions(locks, given={} if session is None else {locks.holder: session})
    client = Client(locks, sessions)
    desk = Desk()
    server = build(desk, lambda _: client)
    running = asyncio.ensure_future(server.run_stdio_async())
    beating = asyncio.ensure_future(sessions.keep())
    loop = asyncio.get_running_loop()
    for number in STOPPING:
        loop.add_signal_handler(number, running.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await running
    finally:
        client.gone.set()
        beating.cancel()
        try:
            await desk.pursuits.close()
            await sessions.end()
        finally:
            await locks.close()
        sys.stdout.flush()

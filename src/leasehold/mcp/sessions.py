"""The sessions of a process: what its agents take ends with it. A heartbeat keeps them alive meanwhile."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from leasehold.domain.outcomes import Lost, Refused
from leasehold.domain.sessions import SessionStarted
from leasehold.errors import LeaseholdError

if TYPE_CHECKING:
    from leasehold.locks.aio import AsyncLocks

TTL = 60.0
"""A process that is killed blocks nobody for longer than this, in seconds."""
log = logging.getLogger("leasehold.mcp")


class McpSessions:
    """One session an agent, begun when it first asks for something."""

    def __init__(self, locks: AsyncLocks, *, ttl: float = TTL, given: dict[str, str] | None = None) -> None:
        self._locks = locks
        self._ttl = ttl
        self._given = given or {}
        """Sessions that somebody else began, and will end, by agent."""
        self._own: dict[str, str] = {}
        self._starting = asyncio.Lock()

    async def of(self, agent: str) -> str:
        """`ID.SECRET` of this agent's session."""
        known = self._given.get(agent) or self._own.get(agent)
        if known is not None:
            return known
        async with self._starting:
            if agent not in self._own:
                started = await self._locks.start_session(ttl=self._ttl, holder=agent, name="an MCP client")
                if not isinstance(started, SessionStarted):
                    raise LeaseholdError(f"no session could be started: {started.message}")
                self._own[agent] = started.secret
        return self._own[agent]

    async def beat(self) -> None:
        """A full TTL again for every session and its leases; one that is lost is begun anew when it is needed."""
        for agent, credential in tuple(self._own.items()):
            renewed = await self._locks.renew_session(credential)
            if isinstance(renewed, Lost | Refused) and self._own.get(agent) == credential:
                del self._own[agent]
                log.warning("the session of %s is gone, with everything it held: it was not renewed in time", agent)

    async def keep(self) -> None:
        """Beat three times a TTL, for ever; trouble with the store is told, and tried again."""
        while True:
            await asyncio.sleep(self._ttl / 3)
            try:
                await self.beat()
            except LeaseholdError as error:
                log.warning("the leases could not be renewed: %s; trying again", error)

    async def end(self) -> None:
        """Release everything."""
        while self._own:
            _, credential = self._own.popitem()
            await self._locks.end_session(credential)

"""The sessions of a process: its agents' leases end with it. A heartbeat keeps them alive meanwhile."""

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
"""Seconds after which the leases of a killed process expire."""
log = logging.getLogger("leasehold.mcp")


class McpSessions:
    """One session an agent, begun when it first asks for something."""

    def __init__(self, locks: AsyncLocks, *, ttl: float = TTL, given: dict[str, str] | None = None) -> None:
        self._locks = locks
        self._ttl = ttl
        self._given = given or {}
        """Credentials of sessions that this process neither started nor ends, by agent."""
        self._own: dict[str, str] = {}
        self._starting = asyncio.Lock()

    async def of(self, agent: str) -> str:
        """Return `ID.SECRET` of this agent's session, and start the session if there is none."""
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
        """Renew every session with its leases; a lost one is started anew when its agent next needs it."""
        for agent, credential in tuple(self._own.items()):
            renewed = await self._locks.renew_session(credential)
            if isinstance(renewed, Lost | Refused) and self._own.get(agent) == credential:
                del self._own[agent]
                log.warning("the session of %s is gone, with everything it held: it was not renewed in time", agent)

    async def keep(self) -> None:
        """Renew three times a TTL, for ever. Failures are logged and retried."""
        while True:
            await asyncio.sleep(self._ttl / 3)
            try:
                await self.beat()
            except LeaseholdError as error:
                log.warning("the leases could not be renewed: %s; trying again", error)

    async def end(self) -> None:
        """End all sessions, and so release their leases."""
        while self._own:
            _, credential = self._own.popitem()
            await self._locks.end_session(credential)

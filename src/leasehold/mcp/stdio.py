"""``leasehold mcp``: the tools over standard input and output. The life of this process is a session.

When the client goes away, whatever it took is released; should this process be killed, it expires within a minute.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from leasehold.domain.outcomes import Granted, Lost, Planned, Refused, Released
from leasehold.errors import LeaseholdError
from leasehold.locks.connect import aconnect, is_by_role
from leasehold.mcp.handlers import ToolHandlers
from leasehold.mcp.losing import LostLeases
from leasehold.mcp.server import build
from leasehold.mcp.sessions import McpSessions
from leasehold.wire.sentences import FOR_PEOPLE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leasehold.config.settings import Choice
    from leasehold.locks.aio import AsyncLocks
    from leasehold.mcp.tickets import Claims

    KeepPlan = Callable[[Planned], None]

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LEAVING = 10.0
"""Seconds within which the process releases its leases before it exits."""
_LEFT = "not everything could be released, and it expires within a minute"
log = logging.getLogger("leasehold.mcp")


class StdioParty:
    """The client at the other end of standard input and output."""

    id = "stdio"
    connection = ""

    def __init__(self, locks: AsyncLocks, sessions: McpSessions, choice: Choice, keep_plan: KeepPlan) -> None:
        self._locks = locks
        self._keep_plan = keep_plan
        self._may_force = "force-release" in choice.agents_may or is_by_role(choice.url)
        self._sessions = sessions
        self.gone = asyncio.Event()
        self._lost = LostLeases(locks)

    def agent(self, given: str | None) -> str:
        """Return the name that the agent gave, or the holder of this process."""
        return given or self._locks.holder

    def is_one(self, given: str | None) -> bool:  # noqa: ARG002 (every agent here has a session)
        """Return True: every name has a session of its own."""
        return True

    def is_named(self, given: str | None) -> bool:
        """Sub-agents share this process: without an `agent_id`, nothing tells them apart."""
        return given is not None

    async def credential(self, agent: str) -> str:
        """Return the session of this agent, and start it if there is none."""
        return await self._sessions.of(agent)

    async def ask(self, verb: str, arguments: dict[str, Any]) -> Any:  # noqa: ANN401 (see `parties.Party`)
        """Return the outcome of a verb. Refuse force-release, unless keys or the user's own configuration allow it."""
        if verb == "force_release" and not self._may_force:
            return Refused("not_allowed", "", FOR_PEOPLE)
        outcome = await getattr(self._locks, verb)(**arguments)
        if isinstance(outcome, Granted):
            self._lost.follow(outcome)
        elif isinstance(outcome, Planned):
            self._keep_plan(outcome)
        elif verb in ("release", "renew") and isinstance(outcome, Released | Lost):
            self._lost.forget(outcome.lease)  # this very answer says so
        return outcome

    def news(self, given: str | None) -> list[str]:
        """Return what this agent has lost since its last answer."""
        return self._lost.news(self.agent(given))

    def granted(self, lease: str, token: str, claims: Claims) -> None:
        """Do nothing: the lease ends with its session."""


def serve(choice: Choice, holder: str | None, space: str, session: str | None, keep_plan: KeepPlan) -> None:
    """Serve until the client closes its end, or a signal stops the process.

    `keep_plan` keeps the token of a plan where the hooks of the agent's editor find it.
    """
    asyncio.run(_serve(choice, holder, space, session, keep_plan))


async def _serve(choice: Choice, holder: str | None, space: str, session: str | None, keep_plan: KeepPlan) -> None:
    """Serve one client on standard input and output. When it goes away, end the waits and sessions, then close."""
    locks = await aconnect(choice, holder=holder, space=space)
    sessions = McpSessions(locks, given={} if session is None else {locks.holder: session})
    client = StdioParty(locks, sessions, choice, keep_plan)
    handlers = ToolHandlers()
    running = asyncio.ensure_future(build(handlers, lambda _: client).run_stdio_async())
    beating = asyncio.ensure_future(sessions.keep())

    async def end() -> None:
        client.gone.set()
        beating.cancel()
        try:
            await handlers.waits.close()
            await sessions.end()
        finally:
            await locks.close()

    try:
        if await _is_stopped(running):
            await _leave(running, end())
        await running
    finally:
        await _end(end())
        sys.stdout.flush()


async def _is_stopped(running: asyncio.Future[None]) -> bool:
    """Return True if a signal stops the process before the client closes its end."""
    said = asyncio.Event()
    for number in STOPPING:
        asyncio.get_running_loop().add_signal_handler(number, said.set)
    stopping = asyncio.ensure_future(said.wait())
    await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    return not running.done()


async def _end(end: Coroutine[Any, Any, None]) -> None:
    """Release everything, or exit without after a while: the store may never answer, and signals are ignored by now."""
    try:
        async with asyncio.timeout(LEAVING):
            await end
    except TimeoutError:
        log.warning("%s: it took too long", _LEFT)
        sys.stdout.flush()
        logging.shutdown()
        os._exit(1)


async def _leave(running: asyncio.Future[None], end: Coroutine[Any, Any, None]) -> NoReturn:
    """Stop answering, release everything, and exit.

    A thread of the SDK may be in the middle of a read that nothing ends but the client, and both the loop and Python
    would wait for it: so this process goes without them.
    """
    running.cancel()
    code = 1
    try:
        async with asyncio.timeout(LEAVING):
            await end
        code = 0
    except (LeaseholdError, TimeoutError) as error:
        log.warning("%s: %s", _LEFT, str(error) or "it took too long")
    except BaseException:
        log.exception(_LEFT)
    finally:
        logging.shutdown()
        os._exit(code)

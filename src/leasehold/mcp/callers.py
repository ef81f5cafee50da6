"""On whose behalf a tool is called. It decides nothing: it only knows whom to ask, and in whose name."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from leasehold.domain.outcomes import Refused
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.requests.calls import refusal

if TYPE_CHECKING:
    import asyncio

    from leasehold.mcp.tickets import Claims


class Party(Protocol):
    """Whoever calls tools, over whatever transport."""

    id: str
    """Who this is: a ticket is good for its own party only. Never the connection."""
    connection: str
    """The MCP session, if the client keeps one; agents of one name in two of them are two."""
    gone: asyncio.Event
    """Set once nobody is there any more to hear the answer."""

    def agent(self, given: str | None) -> str:
        """The name under which this agent holds leases."""

    def is_one(self, given: str | None) -> bool:
        """Whether that name is this agent's own, and not shared by all who show the same key."""

    def is_named(self, given: str | None) -> bool:
        """Whether the agent gave a name of its own: only then an acquire may return the lease that it has already."""

    async def credential(self, agent: str) -> str | None:
        """`ID.SECRET` of the session in whose name this agent acts, if it has one."""

    async def ask(self, verb: str, arguments: dict[str, Any]) -> Any:  # noqa: ANN401 (an outcome: see `locks.Locks`)
        """The answer of the locks to one verb."""

    def news(self, given: str | None) -> list[str]:
        """What this agent has to be told with the next answer: leases that were taken from it."""

    def granted(self, lease: str, token: str, claims: Claims) -> None:
        """This was granted, and the answer is on its way; perhaps to others as well, who had the same ticket."""


async def ask(party: Party, verb: str, arguments: dict[str, Any]) -> Any:  # noqa: ANN401 (an outcome)
    """The answer of the locks; that they cannot be asked is an answer too, which an agent can understand."""
    try:
        return await party.ask(verb, arguments)
    except InvalidInput as error:
        return refusal(error)
    except LeaseholdError as error:
        return Refused(error.code, "", str(error))


async def credential(party: Party, agent: str) -> str | Refused | None:
    """`ID.SECRET` of the session in whose name this agent acts, if it has one and it can be had."""
    try:
        return await party.credential(agent)
    except LeaseholdError as error:
        return Refused(error.code, "", str(error))


PARTY: ContextVar[Party] = ContextVar("party")
"""Whose request is being answered."""

"""The parties on whose behalf tools are called. It decides nothing about leases."""

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
    """A caller of tools, over any transport."""

    id: str
    """Id of the party: a ticket is good for its own party only. Never the id of the connection."""
    connection: str
    """The MCP session, if the client keeps one; agents of one name in two of them are two."""
    gone: asyncio.Event
    """Set once the client has disconnected."""

    def agent(self, given: str | None) -> str:
        """Return the name under which this agent holds leases."""

    def is_one(self, given: str | None) -> bool:
        """Return True if that name is this agent's own, and not shared by all callers with the same key."""

    def is_named(self, given: str | None) -> bool:
        """Return True if the agent gave a name of its own: only then may an acquire return a lease that it has."""

    async def credential(self, agent: str) -> str | None:
        """Return `ID.SECRET` of this agent's session, if it has one."""

    async def ask(self, verb: str, arguments: dict[str, Any]) -> Any:  # noqa: ANN401 (an outcome: see `locks.Locks`)
        """Return the outcome of one verb."""

    def news(self, given: str | None) -> list[str]:
        """Return the losses of this agent that belong into its next answer."""

    def granted(self, lease: str, token: str, claims: Claims) -> None:
        """Note a grant whose answer is not sent yet; other calls with the same ticket may receive it, too."""


async def ask(party: Party, verb: str, arguments: dict[str, Any]) -> Any:  # noqa: ANN401 (an outcome)
    """Return the outcome of one verb; a failure is a refusal, which an agent can understand."""
    try:
        return await party.ask(verb, arguments)
    except InvalidInput as error:
        return refusal(error)
    except LeaseholdError as error:
        return Refused(error.code, "", str(error))


async def credential(party: Party, agent: str) -> str | Refused | None:
    """Return `ID.SECRET` of this agent's session, if it has one; a refusal if it cannot be started."""
    try:
        return await party.credential(agent)
    except LeaseholdError as error:
        return Refused(error.code, "", str(error))


PARTY: ContextVar[Party] = ContextVar("party")
"""The party whose request is being answered."""

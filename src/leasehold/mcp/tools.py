"""The eight tools: their names, arguments, bounds and hints. ``handlers`` has their actions."""

# No `from __future__ import annotations`: the schemas are made from the annotations.

from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ToolAnnotations
from pydantic import Field

from leasehold.mcp.callers import PARTY
from leasehold.mcp.handlers import ToolHandlers
from leasehold.mcp.shapes import Answer
from leasehold.requests import verbs
from leasehold.requests.descriptions import words

WAIT_MOST = 50
TTL_LEAST = 1
"""Seconds: an agent cannot renew more often."""


def _said(verb: str, argument: str, **bounds: Any) -> Any:  # noqa: ANN401 (pydantic's own)
    """Return what the list of verbs says of an argument: its meaning and its bounds."""
    found = next(each for each in verbs.verb(verb).arguments if each.name == argument)
    known = {name: value for name, value in (("ge", found.least), ("le", found.most)) if value is not None}
    return Field(description=words(verb, argument)[0], **{**known, **bounds})


Mode = Literal["exclusive", "shared", "slots"]
Name = Annotated[str, Field(min_length=1, max_length=512)]
Resource = Annotated[
    Name | Annotated[list[Name], Field(min_length=1, max_length=verbs.RESOURCES_MOST)],
    Field(
        description="Name to lock: issue:42, path:src/**/*.py, deploy://api-prod or any other; several: all or none."
    ),
]
One = Annotated[Name, Field(description="The resource's name, such as issue:42 or path:src/a.py.")]
Target = Annotated[Name, Field(description="The resource that you hold, or the id of the lease.")]
Ttl = Annotated[float, _said("acquire", "ttl", ge=TTL_LEAST, le=verbs.DAY)]
Work = Annotated[str | None, _said("acquire", "name", max_length=256)]
Agent = Annotated[
    str | None,
    Field(min_length=1, max_length=256, description="Your own name, if several agents share this connection."),
]
Token = Annotated[
    str | None,
    Field(max_length=512, description="The token that came with the lease; not needed where you have a session."),
]
Reason = Annotated[str | None, _said("acquire", "reason", max_length=1024)]
Info = Annotated[dict[str, Any] | None, _said("acquire", "context")]
Slots = Annotated[int, _said("acquire", "slots")]
AnyOf = Annotated[bool, _said("acquire", "any_of")]
NewTtl = Annotated[float | None, Field(ge=TTL_LEAST, le=verbs.DAY, description="A new TTL; else the same again.")]
How = Annotated[Mode | None, _said("acquire", "mode")]


def _hints(*, reads: bool = False, destroys: bool = False, again: bool = True) -> ToolAnnotations:
    return ToolAnnotations(
        read_only_hint=reads, destructive_hint=destroys, idempotent_hint=again, open_world_hint=False
    )


def register(server: MCPServer[Any], handlers: ToolHandlers) -> None:
    """Register the tools with this server; the two that agents of Action Llama know come first."""
    _register_acquiring(server, handlers)
    _register_keeping(server, handlers)
    _register_waiting(server, handlers)
    _register_looking(server, handlers)


def _register_acquiring(server: MCPServer[Any], handlers: ToolHandlers) -> None:
    """Register the tools that acquire and release."""

    @server.tool(title="Acquire a lock", annotations=_hints())
    async def acquire_lock(
        *,
        resource: Resource,
        ttl_seconds: Ttl = verbs.DEFAULT_TTL,
        work: Work = None,
        reason: Reason = None,
        mode: How = None,
        slots: Slots = 1,
        any_of: AnyOf = False,
        context: Info = None,
        plan: Annotated[bool, Field(description="Only announce it, and see whose plans and locks overlap.")] = False,
        agent_id: Agent = None,
    ) -> Answer:
        """Take a lock before you touch what others may touch too: an issue, a file, a deploy target. It never waits.

        If `ok` is false, another agent has it: skip it and go on with something else, or call wait_for_lock.
        """
        kind = {"mode": mode, "slots": slots, "any_of": any_of}
        terms = {"resources": resource, "ttl": ttl_seconds, "name": work, "reason": reason, "context": context, **kind}
        act = handlers.plan if plan else handlers.acquire
        return await act(PARTY.get(), agent_id, terms)


def _register_waiting(server: MCPServer[Any], handlers: ToolHandlers) -> None:
    """Register the tool that waits in a queue."""

    @server.tool(title="Wait for a lock", annotations=_hints())
    async def wait_for_lock(
        ctx: Context[Any, Any],
        *,
        resource: Resource,
        ttl_seconds: Ttl = verbs.DEFAULT_TTL,
        wait_seconds: Annotated[
            float, Field(ge=0.1, le=WAIT_MOST, description="How long this call waits at most.")
        ] = WAIT_MOST,
        ticket: Annotated[
            str | None, Field(min_length=1, max_length=128, description="From your last call, to keep your place.")
        ] = None,
        work: Work = None,
        reason: Reason = None,
        mode: How = None,
        slots: Slots = 1,
        any_of: AnyOf = False,
        context: Info = None,
        agent_id: Agent = None,
    ) -> Answer:
        """Wait in the queue for a lock, at most 50 seconds a call; acquire_lock has the same arguments.

        If `ok` is false, call again with the same arguments and `data.ticket` within a minute to keep your place.
        """
        kind = {"mode": mode, "slots": slots, "any_of": any_of}
        terms = {"resources": resource, "ttl": ttl_seconds, "name": work, "reason": reason, "context": context, **kind}

        async def told(waited: float, line: str) -> None:
            await ctx.report_progress(round(waited, 1), wait_seconds, line)

        listens = (ctx.request_context.meta or {}).get("progress_token") is not None
        return await handlers.wait(PARTY.get(), agent_id, terms, ticket, wait_seconds, told if listens else None)


def _register_keeping(server: MCPServer[Any], handlers: ToolHandlers) -> None:
    """Register the tools that renew, update and force."""

    @server.tool(title="Release a lock", annotations=_hints())
    async def release_lock(
        resource: Target,
        token: Token = None,
        status: Annotated[Literal["completed", "failed", "cancelled"], _said("release", "status")] = "completed",
        error: Annotated[str | None, _said("release", "error", max_length=1024)] = None,
        agent_id: Agent = None,
    ) -> Answer:
        """Release your lock as soon as you are done, also after a failure."""
        return await handlers.release(PARTY.get(), agent_id, resource, token, status, error)

    @server.tool(title="Renew a lock", annotations=_hints())
    async def renew_lock(
        resource: Target, token: Token = None, ttl_seconds: NewTtl = None, agent_id: Agent = None
    ) -> Answer:
        """Reset a lock's TTL, during long work. `lost` means: stop, another holder may have it."""
        return await handlers.renew(PARTY.get(), agent_id, resource, token, ttl_seconds)

    @server.tool(title="Force a lock open", annotations=_hints(destroys=True))
    async def force_release_lock(
        resource: Target,
        reason: Annotated[str, Field(min_length=1, max_length=1024, description="Why; it is in the history.")],
        agent_id: Agent = None,
    ) -> Answer:
        """End another holder's lease. Only if a person told you to: its holder may be at work. Needs an admin."""
        return await handlers.force_release(PARTY.get(), agent_id, resource, reason)


def _register_looking(server: MCPServer[Any], handlers: ToolHandlers) -> None:
    """Register the tools that only read."""
    looks = _hints(reads=True)

    @server.tool(title="Check a lock", annotations=looks)
    async def check_lock(resource: One) -> Answer:
        """Show who holds a resource, until when, and who waits. It takes nothing: only acquire_lock does."""
        return await handlers.check(PARTY.get(), resource)

    @server.tool(title="List locks", annotations=looks)
    async def list_locks(
        holder: Annotated[str | None, Field(max_length=256, description="Only those of this holder.")] = None,
        resource: Annotated[str | None, Field(max_length=512, description="Only those on this resource.")] = None,
    ) -> Answer:
        """List every lock that is held now, with holder, work and remaining time, and every plan."""
        return await handlers.list(PARTY.get(), holder, resource)

    @server.tool(title="History of locks", annotations=looks)
    async def lock_history(
        resource: Annotated[str | None, Field(max_length=512, description="Only of this resource.")] = None,
        holder: Annotated[str | None, Field(max_length=256, description="Only of this holder.")] = None,
        limit: Annotated[int, Field(ge=1, le=200, description="At most so many.")] = 20,
    ) -> Answer:
        """List what happened to locks, the newest first: granted, released, expired, forced, refused, deadlock."""
        return await handlers.history(PARTY.get(), resource, holder, limit)

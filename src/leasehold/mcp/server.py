"""Build an MCP server: tools, resources, a prompt, and instructions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resources import ResourceSecurity
from mcp_types import INVALID_PARAMS, CallToolResult, TextContent
from pydantic import ValidationError

import leasehold
from leasehold.domain.outcomes import Refused
from leasehold.mcp import arguments as wording
from leasehold.mcp import tools
from leasehold.mcp.callers import PARTY, ask
from leasehold.mcp.shapes import lean
from leasehold.mcp.tasks import WaitTasks
from leasehold.mcp.telling import said
from leasehold.mcp.trespassing import TrespassReports
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.mcpserver import Context
    from mcp_types import GetPromptResult, InputRequiredResult, Tool

    from leasehold.mcp.callers import Party
    from leasehold.mcp.handlers import ToolHandlers

    PartyOf = Callable[[ServerRequestContext[Any, Any]], Party]

INSTRUCTIONS = """\
Before you touch anything that other agents or people may touch at the same time (an issue, a pull request, a file, a
deploy target), call acquire_lock with its name. If the answer is not ok, another agent works on it: skip it and go on
with something else. Never work on it without the lock. Hold one lock at a time unless your task says otherwise, call
renew_lock during long work, and call release_lock as soon as you are done, also when the work failed."""


class McpServer(MCPServer[Any]):
    """An MCP server with a short list of tools, which explains wrong arguments in words that an agent can act on."""

    trespasses: TrespassReports

    async def list_tools(self) -> list[Tool]:
        """List the tools without what their schemas need not say: the list goes into the prompt of each agent."""
        return [
            tool.model_copy(
                update={
                    "input_schema": lean(tool.input_schema),
                    # without the description, which would be the same eight times
                    "output_schema": {k: each for k, each in lean(tool.output_schema).items() if k != "description"},
                }
            )
            for tool in await super().list_tools()
        ]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; refuse arguments that it does not know."""
        known = [
            each for tool in await self.list_tools() if tool.name == name for each in tool.input_schema["properties"]
        ]  # none for an unknown tool
        unknown = [each for each in arguments if known and each not in known and each != wording.EVERYWHERE]
        if unknown:
            raise ToolError(wording.unknown(name, unknown, known))
        party, agent = PARTY.get(), arguments.get(wording.EVERYWHERE)
        try:
            answer = await super().call_tool(name, arguments, context)
            return _told(answer, [*party.news(agent), *await self.trespasses.news(party, agent)])
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(wording.wrong(name, error.__cause__)) from error.__cause__
            raise

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[Any, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        """Return a prompt; report an unknown one or a missing argument as the client's error."""
        try:
            return await super().get_prompt(name, arguments, context)
        except ValueError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error


def _told(answer: CallToolResult | InputRequiredResult, news: list[str]) -> CallToolResult | InputRequiredResult:
    """Return the answer with the agent's losses before its advice, and with a text for the model."""
    if not isinstance(answer, CallToolResult) or answer.structured_content is None:
        return answer
    told = {**answer.structured_content, "advice": " ".join([*news, answer.structured_content["advice"]]).strip()}
    return answer.model_copy(update={"structured_content": told, "content": [TextContent(text=said(told))]})


def build(handlers: ToolHandlers, party_of: PartyOf, **options: Any) -> MCPServer[Any]:
    """Build a server whose tools act for the party that `party_of` returns."""

    async def answer_for(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        PARTY.set(party_of(ctx))
        return await call_next(ctx)

    tasks = WaitTasks(handlers)
    server = McpServer(
        "leasehold",
        title="Leasehold locks",
        description="Locks for agents: one holder at a time, with a time limit",
        instructions=INSTRUCTIONS,
        version=leasehold.__version__,
        log_level="WARNING",
        middleware=[answer_for],
        extensions=[tasks],
        **options,
    )
    server.trespasses, tasks.server = TrespassReports(), server
    tools.register(server, handlers)
    _resources(server)
    _prompt(server)
    return server


def _resources(server: MCPServer[Any]) -> None:
    """Register the resources that a client can read: every lease, and the state of one name."""

    @server.resource("lock://active", title="Every lock that is held now", mime_type="application/json")
    async def active() -> str:
        found = await ask(PARTY.get(), "list", {"space": None, "holder": None, "resource": None})
        return json.dumps(wire.answer(found) if isinstance(found, Refused) else wire.leases(found))

    @server.resource(
        "lock://resource/{+name}",
        title="How one resource stands",
        mime_type="application/json",
        security=ResourceSecurity(exempt_params={"name"}),  # a name is no path: it opens nothing
    )
    async def resource(name: str) -> str:
        return json.dumps(wire.answer(await ask(PARTY.get(), "inspect", {"resource": name, "space": None})))


def _prompt(server: MCPServer[Any]) -> None:
    """Register the prompt by which a person has an agent claim an issue."""

    @server.prompt(title="Claim an issue before working on it")
    def claim_issue(issue: str) -> str:
        """Work on an issue only if nobody else does."""
        if not issue.lstrip("#").strip():
            raise MCPError(INVALID_PARAMS, "issue: is empty; give its number or its name, such as 42")
        name = issue if ":" in issue else f"issue:{issue.lstrip('#')}"  # a number alone would be another name
        return (
            f"Work on the issue {issue}. First call acquire_lock with the resource {name!r} and say in `work` what "
            "you are going to do. If the answer is not ok, stop: tell me who holds it and until when, nothing else. "
            "If it is, do the work, call renew_lock if it takes long, and call release_lock at the end, with status "
            "failed and the error if it did not work out."
        )

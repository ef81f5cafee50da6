"""``wait_for_lock`` as a task, for clients that declare the extension ``io.modelcontextprotocol/tasks`` (2026-07-28).

The client learns at once that it waits, and polls in the background until the lock is the agent's. The specification
is ``specification/2026-07-28/tasks.md`` of https://github.com/modelcontextprotocol/ext-tasks, read November 2026; the
Python SDK has only the interface of extensions. A task is a ticketed wait (see ``tickets``) whose id carries the
arguments of its call: another server of the store can answer for it, and a client that stops polling leaves the queue.
"""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp import MCPError
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import INVALID_PARAMS, CallToolResult, RequestParams, TextContent
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from leasehold.mcp.arguments import EVERYWHERE
from leasehold.mcp.callers import PARTY
from leasehold.mcp.tools import WAIT_MOST

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from mcp.server import MCPServer
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp_types import CallToolRequestParams, InputRequiredResult

    from leasehold.mcp.handlers import ToolHandlers

    Ctx: TypeAlias = ServerRequestContext[Any, Any]

IDENTIFIER = "io.modelcontextprotocol/tasks"
TOOL = "wait_for_lock"
UNDECLARED = -32021
"""The extension's code for a client that does not declare it."""
AT_ONCE = 0.1
"""Seconds for which one look at the queue waits, the least that the tool allows."""
POLL_MS = 1_000
"""How often a client is asked to look, in milliseconds; its place is kept for a minute."""
ID_MOST = 2_000
"""Characters of a task's id, which clients send in a header; a call with longer arguments becomes no task."""
ENDED_MOST = 1_000
"""Tasks without a lease whose end is remembered, so that a client may ask for it again."""


class WaitTask(NamedTuple):
    """One wait, as its id carries it."""

    ticket: str
    arguments: dict[str, Any]
    created: float
    until: float | None
    """When the wait ends without a lease, if its caller said so."""

    @property
    def id(self) -> str:
        """Return the ticket, and all else as JSON in letters that a header may have."""
        rest = json.dumps([self.arguments, round(self.created, 3), self.until], separators=(",", ":"))
        return f"{self.ticket}.{base64.urlsafe_b64encode(rest.encode()).decode().rstrip('=')}"


def _read(id_: str, ctx: Ctx) -> WaitTask:
    """Return the task of an id. Raises MCPError if it is none of ours, or if the client does not know tasks."""
    if not _declares(ctx):
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {IDENTIFIER: {}}}}
        raise MCPError(UNDECLARED, f"Missing required client capability: the extension {IDENTIFIER}", needed)
    ticket, _, rest = id_.partition(".")
    try:
        arguments, created, until = json.loads(base64.urlsafe_b64decode(rest + "=" * (-len(rest) % 4)))
        return WaitTask(ticket, dict(arguments), float(created), None if until is None else float(until))
    except (ValueError, TypeError, RecursionError):
        raise MCPError(INVALID_PARAMS, "no such task: its id is none that a tools/call returned") from None


class TaskParams(RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str


class UpdateParams(TaskParams):
    """The parameters of `tasks/update`."""

    input_responses: dict[str, Any]


class WaitTasks(Extension):
    """Answers a wait that has to queue with a task, and what clients ask about it."""

    identifier = IDENTIFIER

    def __init__(self, handlers: ToolHandlers) -> None:
        self._handlers = handlers
        self._ended: dict[tuple[str, str], dict[str, Any]] = {}
        """How tasks without a lease ended, by the party and the task's id.

        A grant is asked for again by its `request_id`: its lease is released if the answer does not reach the client.
        """
        self.server: MCPServer[Any]

    def methods(self) -> Sequence[MethodBinding]:
        """Return the three methods of the extension."""
        revisions = frozenset(MODERN_PROTOCOL_VERSIONS)
        return [
            MethodBinding("tasks/get", TaskParams, self.get, revisions),
            MethodBinding("tasks/update", UpdateParams, self.update, revisions),
            MethodBinding("tasks/cancel", TaskParams, self.cancel, revisions),
        ]

    async def intercept_tool_call(self, params: CallToolRequestParams, ctx: Ctx, call_next: CallNext) -> HandlerResult:
        """Answer a wait that is not over at once with a task, if the client knows tasks."""
        task = _asked(params) if params.name == TOOL and _declares(ctx) else None
        if task is None:
            return await call_next(ctx)
        params.arguments = {**(params.arguments or {}), "wait_seconds": AT_ONCE}
        answer = await call_next(ctx)
        ticket = _ticket(answer)
        if ticket is None:
            return answer
        return _shown(task._replace(ticket=ticket), "working", resultType="task", statusMessage=_advice(answer))

    async def get(self, ctx: Ctx, params: TaskParams) -> dict[str, Any]:
        """Return how a wait stands, with the tool's answer once it is over."""
        task = _read(params.task_id, ctx)
        ended = self._ended.get((PARTY.get().id, params.task_id))
        if ended is not None:
            return ended
        answer = await self._look(ctx, task)
        is_over = _ticket(answer) is None or (task.until is not None and time.time() >= task.until)
        if not is_over:
            return _shown(task, "working", statusMessage=_advice(answer))
        result = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        completed = _shown(task, "completed", result=result)
        return completed if "lease" in _data(answer) else self._end(task, completed)

    async def update(self, ctx: Ctx, params: UpdateParams) -> dict[str, Any]:
        """Acknowledge answers to questions: a wait asks none."""
        _read(params.task_id, ctx)
        return {}

    async def cancel(self, ctx: Ctx, params: TaskParams) -> dict[str, Any]:
        """Leave the queue. A wait that is over stays as it ended."""
        task, party = _read(params.task_id, ctx), PARTY.get()
        if (party.id, params.task_id) not in self._ended:
            self._end(task, _shown(task, "cancelled"))
            await self._handlers.stop_waiting(party, task.arguments.get(EVERYWHERE), task.ticket)
        return {}

    async def _look(self, ctx: Ctx, task: WaitTask) -> CallToolResult | InputRequiredResult:
        arguments = {**task.arguments, "ticket": task.ticket, "wait_seconds": AT_ONCE}
        try:
            return await self.server.call_tool(TOOL, arguments, Context(request_context=ctx, mcp_server=self.server))
        except ToolError as error:
            return CallToolResult(content=[TextContent(text=str(error))], is_error=True)

    def _end(self, task: WaitTask, ended: dict[str, Any]) -> dict[str, Any]:
        while len(self._ended) >= ENDED_MOST:
            del self._ended[next(iter(self._ended))]
        self._ended[PARTY.get().id, task.id] = ended
        return ended


def _declares(ctx: Ctx) -> bool:
    """Return True if the client declares the extension with this request, in a revision that has it."""
    declared = ctx.session.client_capabilities
    is_new = ctx.session.protocol_version in MODERN_PROTOCOL_VERSIONS
    return is_new and declared is not None and IDENTIFIER in (declared.extensions or {})


def _asked(params: CallToolRequestParams) -> WaitTask | None:
    """Return the task that this call may become; None if its answer is to be the tool's own."""
    arguments = dict(params.arguments or {})
    seconds = arguments.pop("wait_seconds", WAIT_MOST)
    if not isinstance(seconds, int | float) or not AT_ONCE < seconds <= WAIT_MOST:
        return None
    ticket, now = arguments.pop("ticket", None), time.time()
    until = now + seconds if "wait_seconds" in (params.arguments or {}) else None
    task = WaitTask(ticket or "", arguments, now, until)
    return task if len(task.id) <= ID_MOST else None


def _data(answer: object) -> dict[str, Any]:
    """Return the data in an answer of the tool; a refusal has none."""
    told = answer.structured_content if isinstance(answer, CallToolResult) else None
    return {} if told is None else told.get("data") or {}


def _ticket(answer: object) -> str | None:
    """Return the ticket in an answer of the tool: the wait is not over."""
    return _data(answer).get("ticket")


def _advice(answer: object) -> str:
    queue = _data(answer).get("queue")
    return f"waiting, number {queue['position']} of {queue['length']}" if queue and queue["position"] else "waiting"


def _shown(task: WaitTask, status: str, **more: Any) -> dict[str, Any]:
    """Return the task as clients see it."""
    created, now = (datetime.fromtimestamp(each, UTC).isoformat() for each in (task.created, time.time()))
    shown = {"taskId": task.id, "status": status, "createdAt": created, "lastUpdatedAt": now, "ttlMs": None}
    return {"resultType": "complete", **shown, "pollIntervalMs": POLL_MS, **more}

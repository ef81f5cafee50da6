"""wait_for_lock as a task, by the official client with the extension `io.modelcontextprotocol/tasks`.

The client's part, which the SDK leaves to its users, is written as the extension's specification has it:
https://github.com/modelcontextprotocol/ext-tasks, specification/2026-07-28/tasks.md.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

import pytest
from mcp import MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp_types import CallToolResult, Request, RequestParams, Result

from leasehold.mcp import tasks
from tests.mcp.test_tools import TRANSPORTS, call, run, soon

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mcp import Client


MODERN = "2026-07-28"


class CreateTaskResult(Result):
    """What a call of a tool may end in, for a client of the extension."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    status_message: str | None = None
    poll_interval_ms: int


class DetailedTask(Result):
    """How a task stands."""

    task_id: str
    status: str
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    status_message: str | None = None
    result: dict[str, Any] | None = None


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None
    """Only of an update."""


class TaskRequest(Request[TaskParams, str]):
    method: str
    params: TaskParams


class Tasks(ClientExtension):
    """Polls a task until its end, and lets a test see it first."""

    identifier = tasks.IDENTIFIER

    def __init__(self) -> None:
        self.begun: list[CreateTaskResult] = []
        self.is_waiting = asyncio.Event()

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreateTaskResult, resolve=self.resolve)]

    async def resolve(self, begun: CreateTaskResult, ctx: ClaimContext) -> CallToolResult:
        self.begun.append(begun)
        self.is_waiting.set()
        while True:
            seen = await about(ctx.session, "get", begun.task_id)
            if seen.status == "completed":
                return CallToolResult.model_validate(seen.result)
            if seen.status == "cancelled":
                raise asyncio.CancelledError
            await asyncio.sleep(begun.poll_interval_ms / 1e4)


async def about(session: Any, method: str, task: str) -> DetailedTask:  # noqa: ANN401 (a session of the client)
    """Send one request of the extension."""
    request = TaskRequest(method=f"tasks/{method}", params=TaskParams(task_id=task, input_responses={}))
    found: DetailedTask = await session.send_request(request, DetailedTask if method == "get" else Result)
    return found


async def waiting(client: Client, extension: Tasks, **arguments: Any) -> asyncio.Task[CallToolResult]:
    """Begin a wait, and return once the client knows its task."""
    found = asyncio.create_task(client.call_tool("wait_for_lock", {"resource": "a", "agent_id": "bob", **arguments}))
    seen = asyncio.create_task(extension.is_waiting.wait())
    await asyncio.wait((found, seen), return_when=asyncio.FIRST_COMPLETED)
    assert extension.is_waiting.is_set(), found
    return found


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_end_of_a_task_wakes_the_agent_up_with_the_lock(tmp_path: Path, transport: str) -> None:
    async def work() -> None:
        extension = Tasks()
        async with TRANSPORTS[transport](tmp_path, MODERN, extensions=[extension]) as client:
            assert (await call(client, "acquire_lock", resource="a", agent_id="ada"))["ok"]
            bob = await waiting(client, extension)
            (begun,) = extension.begun
            assert begun.status == "working"

            async def is_queued() -> bool:
                return (await about(client.session, "get", begun.task_id)).status_message == "waiting, number 1 of 1"

            await soon(is_queued)
            assert (await call(client, "release_lock", resource="a", agent_id="ada"))["ok"]
            answer = (await bob).structured_content
            assert answer is not None
            assert (answer["ok"], answer["data"]["lease"]["holder"]) == (True, "bob")
            again = await about(client.session, "get", begun.task_id)
            assert again.result is not None
            assert again.status == "completed", "a task that has ended stays as it is"
            assert again.result["structuredContent"]["data"]["lease"]["id"] == answer["data"]["lease"]["id"]
            assert (await call(client, "release_lock", resource="a", agent_id="bob"))["ok"]
            late = await about(client.session, "get", begun.task_id)
            assert late.result is not None
            assert late.result["structuredContent"]["ok"] is False, "it holds nothing any more"
            assert (await call(client, "check_lock", resource="a"))["data"]["free"]

    run(work)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_task_that_is_cancelled_leaves_the_queue(tmp_path: Path, transport: str) -> None:
    async def work() -> None:
        extension = Tasks()
        async with TRANSPORTS[transport](tmp_path, MODERN, extensions=[extension]) as client:
            assert (await call(client, "acquire_lock", resource="a", agent_id="ada"))["ok"]
            bob = await waiting(client, extension)
            (begun,) = extension.begun

            async def is_queued() -> bool:
                return bool((await call(client, "check_lock", resource="a"))["data"]["waiting"])

            await soon(is_queued)
            await about(client.session, "update", begun.task_id)
            await about(client.session, "cancel", begun.task_id)
            assert (await about(client.session, "get", begun.task_id)).status == "cancelled"

            async def is_left() -> bool:
                return not await is_queued()

            await soon(is_left)
            bob.cancel()

    run(work)


def test_a_task_ends_when_its_call_said_how_long_to_wait(tmp_path: Path) -> None:
    async def work() -> None:
        extension = Tasks()
        async with TRANSPORTS["stdio"](tmp_path, MODERN, extensions=[extension]) as client:
            assert (await call(client, "acquire_lock", resource="a", agent_id="ada"))["ok"]
            answer = (await (await waiting(client, extension, wait_seconds=0.2))).structured_content
            assert answer is not None
            assert (answer["ok"], "ticket" in answer["data"]) == (False, True)

    run(work)


def test_what_is_free_or_asked_without_the_extension_is_no_task(tmp_path: Path) -> None:
    async def work() -> None:
        extension = Tasks()
        async with TRANSPORTS["stdio"](tmp_path, MODERN, extensions=[extension]) as client:
            assert (await call(client, "wait_for_lock", resource="a", agent_id="ada"))["ok"]
            long = {"resource": "a", "agent_id": "bob", "work": "x" * 256, "context": {"x": "y" * 2_000}}
            assert "ticket" in (await call(client, "wait_for_lock", **long, wait_seconds=0.2))["data"]
            assert (await call(client, "wait_for_lock", resource="path:../x", agent_id="bob"))["error"][
                "code"
            ] == "invalid"
            strange = await client.call_tool("wait_for_lock", {"resource": "a", "wait_seconds": "soon"})
            assert strange.is_error
            assert extension.begun == []
            with pytest.raises(MCPError, match="no such task"):
                await about(client.session, "get", "t1.nonsense")

    run(work)


@pytest.mark.parametrize("mode", [MODERN, "legacy"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_client_without_the_extension_gets_a_ticket(tmp_path: Path, transport: str, mode: str) -> None:
    async def work() -> None:
        async with TRANSPORTS[transport](tmp_path, mode) as client:
            assert (await call(client, "acquire_lock", resource="a", agent_id="ada"))["ok"]
            told = await call(client, "wait_for_lock", resource="a", agent_id="bob", wait_seconds=0.2)
            assert "ticket" in told["data"]
            with pytest.raises(MCPError) as refused:
                await about(client.session, "get", "t1.e30")
            assert refused.value.code == (tasks.UNDECLARED if mode == MODERN else -32601)

    run(work)

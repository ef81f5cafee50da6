"""An agent is one over its MCP tools, its editor's hooks and its shell; its MCP session ends with its leases."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import Implementation

from tests.kit.serving import PATIENCE, create_key, serving
from tests.mcp.test_tools import ERAS, call, database, over_stdio, run, soon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@asynccontextmanager
async def connected(folder: Path, transport: str, era: str) -> AsyncIterator[tuple[Client, str]]:
    """A client of the tools, and the URL by which its hooks and its shell reach the same locks."""
    if transport == "stdio":
        async with over_stdio(folder, era) as client:
            yield client, database(folder)
    else:
        with serving(folder) as server:
            async with Client(f"{server.url}/mcp", mode=era) as client:
                yield client, server.url


def leasehold(folder: Path, url: str, *words: str, feed: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    told = {**kept, "HOME": str(folder / "home"), "LEASEHOLD_URL": url, **env}
    command = [sys.executable, "-m", "leasehold.cli", *words]
    return subprocess.run(command, cwd=folder, env=told, input=feed, capture_output=True, text=True, check=False)


def hook(folder: Path, url: str, session: str, tool: str, **tool_input: str) -> Any:  # noqa: ANN401 (any JSON)
    given = {"session_id": session, "cwd": str(folder), "hook_event_name": "PreToolUse", "tool_name": tool}
    text = json.dumps({**given, "tool_input": tool_input})
    done = leasehold(folder, url, "hook", "claude", "--policy", "require", feed=text)
    assert done.returncode == 0, done
    return json.loads(done.stdout)["hookSpecificOutput"] if done.stdout else None


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_what_an_agent_took_by_a_tool_is_its_own_in_its_editor_and_its_shell(
    tmp_path: Path, transport: str, era: str
) -> None:
    async def work() -> None:
        async with connected(tmp_path, transport, era) as (client, url):
            asked = {"resource": "path:src/a.py", "work": "parsing"}
            told = await asyncio.to_thread(hook, tmp_path, url, "aaaa", "mcp__leasehold__acquire_lock", **asked)
            taken = await call(client, "acquire_lock", **told["updatedInput"])
            assert taken["data"]["lease"]["holder"] == "claude-aaaa"
            edit = {"tool": "Edit", "file_path": str(tmp_path / "src" / "a.py")}
            assert await asyncio.to_thread(hook, tmp_path, url, "aaaa", **edit) is None
            denied = await asyncio.to_thread(hook, tmp_path, url, "bbbb", **edit)
            assert "held by claude-aaaa (parsing)" in denied["permissionDecisionReason"]
            words = ("guard", "src/a.py", "--policy", "require")
            for holder, code in (("claude-aaaa", 0), ("claude-bbbb", 4)):
                done = await asyncio.to_thread(leasehold, tmp_path, url, *words, LEASEHOLD_HOLDER=holder)
                assert done.returncode == code, done
            other = {**asked, "agent_id": "claude-bbbb"}
            refused = await call(client, "acquire_lock", **other)
            assert [each["yours"] for each in refused["error"]["holders"]] == [False]
            again = await call(client, "acquire_lock", **told["updatedInput"])
            assert again["data"]["lease"]["id"] == taken["data"]["lease"]["id"]

    run(work)


@pytest.mark.parametrize("era", ERAS)
def test_an_agent_without_a_name_is_its_key_its_client_and_its_mcp_session(tmp_path: Path, era: str) -> None:
    key, keeps_session = create_key(tmp_path, "agent"), era == "legacy"

    async def work() -> None:
        with serving(tmp_path) as server:
            url = f"{server.url}/mcp"
            async with _as(key, url, era) as one, _as(key, url, era) as other:
                mine = (await call(one, "acquire_lock", resource="a"))["data"]
                theirs = (await call(other, "acquire_lock", resource="b"))["data"]["lease"]["holder"]
                name = mine["lease"]["holder"]
                assert re.fullmatch("agent/claude_code" + "-[0-9a-f]{8}" * keeps_session, name)
                assert (name != theirs) == keeps_session
                for client, agent, yours in (
                    (one, {}, keeps_session),
                    (other, {}, False),
                    (other, {"agent_id": name}, False),
                ):
                    refused = await call(client, "acquire_lock", resource="a", **agent)
                    assert [each["yours"] for each in refused["error"]["holders"]] == [yours], (agent, refused)
                for agent in ({}, {"agent_id": name}):
                    for tool in ("renew_lock", "release_lock"):
                        assert not (await call(other, tool, resource="a", **agent))["ok"], (tool, agent)
                proof = {} if keeps_session else {"token": mine["token"]}
                assert (await call(one, "renew_lock", resource="a", **proof))["ok"]
                assert (await call(one, "release_lock", resource="a", **proof))["data"]["released"] is True

    run(work)


@pytest.mark.parametrize("era", ERAS)
def test_a_token_releases_what_was_acquired_under_the_name_of_an_mcp_session_before(tmp_path: Path, era: str) -> None:
    key = create_key(tmp_path, "agent")

    async def work() -> None:
        with serving(tmp_path) as server:
            asked = {"resources": ["a"], "holder": "agent/claude_code-00000000", "ttl_seconds": 600}
            token = server.post("acquire", asked, key=key).json["token"]
            async with _as(key, f"{server.url}/mcp", era) as client:
                assert (await call(client, "release_lock", resource="a"))["error"]["code"] == "not_found"
                assert not (await call(client, "release_lock", resource="a", token="wrong"))["ok"]
                assert (await call(client, "release_lock", resource="a", token=token))["data"]["released"] is True

    run(work)


def test_a_client_that_ends_its_mcp_session_releases_what_it_took(tmp_path: Path) -> None:
    async def work() -> None:
        with serving(tmp_path) as server:
            url = f"{server.url}/mcp"
            async with Client(url) as watching:
                async with Client(url, mode="legacy") as one, Client(url, mode="legacy") as other:
                    assert (await call(one, "acquire_lock", resource="a", agent_id="ada"))["ok"]
                    assert (await call(one, "acquire_lock", resource="b"))["ok"]
                    assert (await call(other, "acquire_lock", resource="c"))["ok"]
                    await asyncio.sleep(0)
                    assert await _held(watching) == {"a", "b", "c"}

                async def is_over() -> bool:
                    return not await _held(watching)

                await soon(is_over)

    run(work)


def test_the_end_of_one_mcp_session_touches_no_other_and_no_lease_of_a_session(tmp_path: Path) -> None:
    key = create_key(tmp_path, "agent")

    async def work() -> None:
        with serving(tmp_path) as server:
            url = f"{server.url}/mcp"
            secret = server.post("sessions", {"ttl_seconds": 3600}, key=key).json["credential"]
            async with _as(key, url) as staying:
                assert (await call(staying, "acquire_lock", resource="stays"))["ok"]
                async with _as(secret, url) as leaving:
                    assert (await call(leaving, "acquire_lock", resource="of the session"))["ok"]
                async with _as(key, url) as leaving:
                    assert (await call(leaving, "acquire_lock", resource="goes"))["ok"]

                async def is_gone() -> bool:
                    return "goes" not in await _held(staying)

                await soon(is_gone)
                assert await _held(staying) == {"stays", "of the session"}

    run(work)


@asynccontextmanager
async def _as(credential: str, url: str, era: str = "legacy") -> AsyncIterator[Client]:
    who = Implementation(name="claude code", version="1")
    async with (
        create_mcp_http_client(headers={"Authorization": f"Bearer {credential}"}) as line,
        Client(streamable_http_client(url, http_client=line), mode=era, client_info=who) as client,
    ):
        yield client


async def _held(client: Client) -> set[str]:
    listed = await call(client, "list_locks")
    return {name for lease in listed["data"]["leases"] for name in lease["resources"]}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_background_wait_wakes_an_agent_up(tmp_path: Path, transport: str, era: str) -> None:
    async def work() -> None:
        async with connected(tmp_path, transport, era) as (client, url):
            held = {"resource": "issue:42", "agent_id": "ada"}
            assert (await call(client, "acquire_lock", **held))["ok"]
            waiting = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "leasehold.cli", "wait", "issue:42", "--timeout", "10m", "--url", url),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=tmp_path,
            )
            try:
                refused = await call(client, "acquire_lock", resource="issue:42", agent_id="bob")
                assert [each["holder"] for each in refused["error"]["holders"]] == ["ada"]
                seen = await call(client, "check_lock", resource="issue:42")
                assert seen["data"]["waiting"] == [], "the command has no place in the queue"
                assert waiting.returncode is None
                assert (await call(client, "release_lock", **held))["ok"]
                async with asyncio.timeout(PATIENCE):
                    out, _ = await waiting.communicate()
            finally:
                if waiting.returncode is None:
                    waiting.kill()
            assert waiting.returncode == 0
            assert b"leasehold acquire issue:42" in out
            assert (await call(client, "acquire_lock", resource="issue:42", agent_id="bob"))["ok"]

    run(work)

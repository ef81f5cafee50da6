"""What is an agent's own, over MCP: by its name, by its token, and also once it is gone."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

import leasehold
from leasehold.mcp.ownership import CallingAgent, Handed
from tests.kit.serving import create_key, serving
from tests.mcp.test_tools import TRANSPORTS, call, database, over_stdio, run, soon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@asynccontextmanager
async def two_agents(folder: Path, role: str | None) -> AsyncIterator[tuple[Client, Client]]:
    """Two that know nothing of each other, on an open server or with the same key."""
    shown = {} if role is None else {"Authorization": f"Bearer {create_key(folder, role)}"}
    with serving(folder) as server:
        async with (
            create_mcp_http_client(headers=shown) as line,
            Client(streamable_http_client(f"{server.url}/mcp", http_client=line)) as one,
            Client(streamable_http_client(f"{server.url}/mcp", http_client=line)) as other,
        ):
            yield one, other


@pytest.mark.parametrize("role", [None, "agent", "admin"])
def test_agents_without_a_name_are_not_each_other(tmp_path: Path, role: str | None) -> None:
    async def work() -> None:
        async with two_agents(tmp_path, role) as (one, other):
            mine = (await call(one, "acquire_lock", resource="issue:77"))["data"]
            refused = await call(other, "acquire_lock", resource="issue:77")
            assert refused["error"]["code"] == "held"
            assert refused["advice"].startswith("Do not touch it")
            waiting = await call(other, "wait_for_lock", resource="issue:77", wait_seconds=0.1)
            assert waiting["advice"].startswith("You still wait")
            assert waiting["data"]["queue"] == {"length": 1, "position": 1}
            second = await call(one, "wait_for_lock", resource="issue:77", wait_seconds=0.1)
            assert second["data"]["queue"] == {"length": 2, "position": 0}  # two of one name: nobody knows which
            for target in ("issue:77", mine["lease"]["id"]):
                for tool in ("renew_lock", "release_lock"):
                    denied = await call(other, tool, resource=target)
                    assert denied["error"]["code"] == "not_allowed", (tool, target)
                    assert denied["advice"].startswith("If it is yours, call again with the token")
            proof = {"resource": "issue:77", "token": mine["token"]}
            assert (await call(one, "renew_lock", **proof))["ok"]
            assert (await call(one, "release_lock", **proof))["data"]["released"] is True

    run(work)


def test_where_nobody_has_to_show_anything_an_agent_still_ends_its_own_leases_only(tmp_path: Path) -> None:
    async def work() -> None:
        async with two_agents(tmp_path, None) as (one, other):
            mine = (await call(one, "acquire_lock", resource="a", agent_id="ada"))["data"]["lease"]["id"]
            for target in ("a", mine):
                refused = await call(other, "release_lock", resource=target, agent_id="bob")
                assert refused["error"]["code"] in ("not_found", "not_allowed")
            assert (await call(one, "renew_lock", resource=mine, agent_id="ada"))["ok"]
            assert (await call(one, "release_lock", resource=mine, agent_id="ada"))["data"]["released"] is True

    run(work)


ROUNDS = 1_000 if os.environ.get("LEASEHOLD_PROVE") else 20


@pytest.mark.parametrize("way", ["stdio", "session"])
def test_two_sub_agents_of_one_connection_never_both_get_a_yes(tmp_path: Path, way: str) -> None:
    """Nothing tells them apart: they share one process over standard input, or one session over HTTP."""

    async def work() -> None:
        async with AsyncExitStack() as stack:
            names = [{}, {}] if way == "stdio" else [{"agent_id": "a"}, {"agent_id": "b"}]
            client = await stack.enter_async_context(
                over_stdio(tmp_path, "auto") if way == "stdio" else _in_session(tmp_path)
            )
            for number in range(ROUNDS):
                tries = [call(client, "acquire_lock", resource=f"x{number}", **name) for name in names]
                told = sorted(await asyncio.gather(*tries), key=lambda each: not each["ok"])
                assert [each["ok"] for each in told] == [True, False], told
                assert [each["yours"] for each in told[1]["error"]["holders"]] == [True]
                assert "If you took it yourself" in told[1]["advice"]
                ended = await call(client, "release_lock", resource=f"x{number}", **names[1])
                assert ended["data"]["released"] is True, "for a release they are one agent"

    asyncio.run(work())


def test_agents_that_chose_the_same_name_in_two_connections_never_both_get_a_yes(tmp_path: Path) -> None:
    async def work() -> None:
        with serving(tmp_path) as server:
            url = f"{server.url}/mcp"
            async with Client(url, mode="legacy") as one, Client(url, mode="legacy") as other:
                ada: dict[str, Any] = {"resource": "issue:42", "agent_id": "claude"}
                assert (await call(one, "acquire_lock", **ada))["ok"]
                refused = await call(other, "acquire_lock", **ada)
                assert [each["yours"] for each in refused["error"]["holders"]] == [False]
                assert refused["advice"].startswith("Do not touch it")
                again = await call(one, "acquire_lock", **ada)
                assert again["advice"].startswith("It was yours already.")

    run(work)


@asynccontextmanager
async def _in_session(folder: Path) -> AsyncIterator[Client]:
    """A harness whose sub-agents all show the secret of one session."""
    key = create_key(folder, "agent")
    with serving(folder, "--rate", "0") as server:
        session = server.post("sessions", {"ttl_seconds": 3600}, key=key).json["credential"]
        shown = {"Authorization": f"Bearer {session}"}
        async with (
            create_mcp_http_client(headers=shown) as line,
            Client(streamable_http_client(f"{server.url}/mcp", http_client=line)) as client,
        ):
            yield client


def test_a_token_tells_which_of_several_leases_is_meant(tmp_path: Path) -> None:
    async def work() -> None:
        async with two_agents(tmp_path, "agent") as (one, other):
            first = (await call(one, "acquire_lock", resource="pool", slots=2))["data"]
            second = (await call(other, "acquire_lock", resource="pool", slots=2))["data"]
            ended = await call(one, "release_lock", resource="pool", token=first["token"])
            assert (ended["data"]["released"], ended["data"]["lease"]) == (True, first["lease"]["id"])
            third = (await call(one, "acquire_lock", resource="pool", slots=2))["data"]
            again = await call(one, "release_lock", resource="pool", token=first["token"])
            assert (again["data"]["released"], again["data"]["lease"]) == (False, first["lease"]["id"])
            left = (await call(one, "list_locks"))["data"]["leases"]
            assert [lease["id"] for lease in left] == [second["lease"]["id"], third["lease"]["id"]]

    run(work)


def test_a_token_from_elsewhere_finds_its_lease_too(tmp_path: Path) -> None:
    with leasehold.connect(database(tmp_path), holder="coder-1") as locks:
        older, newer = (_granted(locks, "pool", mode="slots", slots=2) for _ in range(2))

        async def work() -> None:
            async with over_stdio(tmp_path, "auto") as client:
                ended = await call(client, "release_lock", resource="pool", token=older.token)
                assert (ended["data"]["released"], ended["data"]["lease"]) == (True, older.lease.id)

        run(work)
        assert [lease.id for lease in locks.list()] == [newer.lease.id]  # type: ignore[union-attr]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_by_its_name_a_lost_lease_is_lost_with_the_reason(tmp_path: Path, transport: str) -> None:
    async def work() -> None:
        async with TRANSPORTS[transport](tmp_path, "auto") as client:
            ada: dict[str, Any] = {"resource": "issue:42", "agent_id": "ada"}
            mine = (await call(client, "acquire_lock", **ada))["data"]
            forced = {"resource": "issue:42", "reason": "it hangs", "agent_id": "ops"}
            assert (await call(client, "force_release_lock", **forced))["ok"]
            assert (await call(client, "acquire_lock", resource="issue:42", agent_id="bob"))["ok"]
            for proof in ({}, {"token": mine["token"]}):
                lost = await call(client, "renew_lock", **ada, **proof)
                assert lost["error"]["code"] == "lost"
                assert lost["error"]["reason"] == "forced by ops: it hangs"
                assert lost["advice"].startswith("Stop that work now")
                gone = await call(client, "release_lock", **ada, **proof)
                assert (gone["data"]["released"], gone["data"]["reason"]) == (False, "forced by ops: it hangs")
                assert gone["advice"] == "It was not yours any more: nothing changed."
            held = (await call(client, "check_lock", resource="issue:42"))["data"]["leases"]
            assert [lease["holder"] for lease in held] == ["bob"]

    run(work)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_by_its_name_an_expired_lease_is_lost(tmp_path: Path, transport: str) -> None:
    async def work() -> None:
        async with TRANSPORTS[transport](tmp_path, "auto") as client:
            assert (await call(client, "acquire_lock", resource="path:src", ttl_seconds=1, agent_id="ada"))["ok"]

            async def is_free() -> bool:
                return bool((await call(client, "check_lock", resource="path:src"))["data"]["free"])

            await soon(is_free)
            lost = await call(client, "renew_lock", resource="path:./src", agent_id="ada")
            assert (lost["error"]["code"], lost["error"]["reason"]) == ("lost", "expired")
            assert (await call(client, "acquire_lock", resource="path:src/a", agent_id="ada"))["ok"]
            # What is gone is told of, and nothing that merely overlaps with it is ended in its place.
            gone = await call(client, "release_lock", resource="path:src", agent_id="ada")
            assert gone["data"]["released"] is False
            anew = await call(client, "release_lock", resource="path:src/a", agent_id="ada")
            assert anew["data"]["released"] is True

    run(work)


def test_what_was_handed_out_is_remembered_within_bounds(tmp_path: Path) -> None:
    handed, ada = Handed(most=4), CallingAgent("ada", None, is_one=True)
    with leasehold.connect(database(tmp_path), holder="ada") as locks:
        for got in (_granted(locks, name) for name in ("a", "b", "c")):
            handed.remember("open", ada, got.lease, got.token)
    assert handed.to("open", ada, "a") is None
    assert handed.to("open", ada, "c") == handed.by(got.token, "c") == got.lease.id
    assert handed.to("elsewhere", ada, "c") is None
    assert handed.to("open", ada._replace(is_one=False), "c") is None


def _granted(locks: leasehold.Locks, resource: str, **terms: Any) -> leasehold.Granted:
    got = locks.acquire(resource, ttl=600, **terms)
    assert isinstance(got, leasehold.Granted)
    return got


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_holder_learns_of_a_trespass_with_its_next_answer_and_once(tmp_path: Path, transport: str) -> None:
    async def work() -> None:
        async with TRANSPORTS[transport](tmp_path, "auto") as client:
            name = "path:src/a.py"
            mine = (await call(client, "acquire_lock", resource=name))["data"]["lease"]
            with leasehold.connect(database(tmp_path)) as locks:
                assert locks.report_trespass(mine["id"], paths=[name], by="claude-bbbb")
            told = await call(client, "check_lock", resource=name)
            assert told["advice"].startswith(f"CHANGED: claude-bbbb changed {name}, which you hold: read it anew.")
            assert "CHANGED" not in (await call(client, "check_lock", resource=name))["advice"]

    run(work)

"""Tickets over MCP: one that several calls use at once, and one whose key is revoked."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

import leasehold
from leasehold.config import settings as config
from leasehold.locks.connect import aconnect
from leasehold.mcp.handlers import ToolHandlers
from leasehold.mcp.http import HttpParty
from leasehold.mcp.tickets import TicketedWaits
from tests.kit.serving import PATIENCE, create_key, id_of, serving, until
from tests.mcp.test_tools import TRANSPORTS, call, database, run, soon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from leasehold.locks.aio import AsyncLocks
    from leasehold.mcp.shapes import Json

TERMS: dict[str, Any] = {"resources": "a", "ttl": 600}


async def begun(client: Client, arguments: dict[str, Any]) -> asyncio.Task[Any]:
    """A wait that has told how it goes."""
    told = asyncio.Event()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.set()

    waiting = asyncio.create_task(client.call_tool("wait_for_lock", arguments, progress_callback=progress))
    await told.wait()
    return waiting


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_two_calls_with_one_ticket_wait_in_one_place(tmp_path: Path, transport: str) -> None:
    async def work() -> None:
        async with TRANSPORTS[transport](tmp_path, "auto") as client:
            assert (await call(client, "acquire_lock", resource="a", agent_id="ada"))["ok"]
            bob: dict[str, Any] = {"resource": "a", "agent_id": "bob"}
            first = await call(client, "wait_for_lock", **bob, wait_seconds=0.1)
            bob["ticket"] = first["data"]["ticket"]
            both = [await begun(client, bob), await begun(client, bob)]
            gone = await begun(client, bob)
            gone.cancel()
            short = await call(client, "wait_for_lock", **bob, wait_seconds=0.1)
            assert short["data"]["queue"] == {"length": 1, "position": 1}
            assert (await call(client, "release_lock", resource="a", agent_id="ada"))["ok"]
            got = [(await each).structured_content["data"] for each in both]
            assert got[0]["lease"]["id"] == got[1]["lease"]["id"]
            seen = (await call(client, "check_lock", resource="a"))["data"]
            assert ([lease["holder"] for lease in seen["leases"]], seen["waiting"]) == (["bob"], [])

    run(work)


class Scene:
    """A handlers, and callers who share a key."""

    def __init__(self, locks: AsyncLocks, keep: float) -> None:
        self.locks = locks
        self.desk = ToolHandlers(TicketedWaits(keep))

    async def ask(self, verb: str, asked: dict[str, Any]) -> object:
        answer: object = await getattr(self.locks, verb)(**asked)
        return answer

    def caller(self) -> HttpParty:
        return HttpParty("key", "agents", None, self.ask)

    def wait(self, caller: HttpParty, ticket: str, seconds: float) -> asyncio.Task[Json]:
        return asyncio.create_task(self.desk.wait(caller, "bob", TERMS, ticket, seconds, None))

    async def look(self) -> tuple[list[str], list[str]]:
        """Who holds it, and who waits."""
        seen = await self.locks.inspect("a")
        assert isinstance(seen, leasehold.Inspection)
        return [each.holder for each in seen.leases], [each.holder for each in seen.waiting]

    async def looks(self, holders: list[str], waiting: list[str]) -> None:
        async def is_so() -> bool:
            return await self.look() == (holders, waiting)

        await soon(is_so)


@asynccontextmanager
async def held(folder: Path, keep: float = 600) -> AsyncIterator[tuple[Scene, leasehold.Granted]]:
    """Somebody has it."""
    async with await aconnect(config.find(database(folder)), holder="ada") as locks:
        mine = await locks.acquire("a", ttl=600)
        assert isinstance(mine, leasehold.Granted)
        scene = Scene(locks, keep)
        yield scene, mine
        await scene.desk.waits.close()


def test_a_place_that_two_calls_left_is_given_up(tmp_path: Path) -> None:
    async def work() -> None:
        async with held(tmp_path, keep=0.5) as (scene, _):
            one, other = scene.caller(), scene.caller()
            told = await asyncio.gather(scene.wait(one, "t1", 0.1), scene.wait(other, "t1", 0.1))
            assert [each["data"]["ticket"] for each in told] == ["t1", "t1"]
            await scene.looks(["ada"], [])

    run(work)


def test_who_is_gone_leaves_the_place_to_the_other(tmp_path: Path) -> None:
    async def work() -> None:
        async with held(tmp_path) as (scene, mine):
            one, other, third = scene.caller(), scene.caller(), scene.caller()
            waits = [scene.wait(each, "t1", PATIENCE) for each in (one, other, third)]
            await scene.looks(["ada"], ["bob"])
            one.gone.set()
            await waits[0]
            waits[1].cancel()
            await asyncio.wait([waits[1]])
            assert await scene.look() == (["ada"], ["bob"])
            await scene.locks.release(mine.lease.id, mine.token)
            assert (await waits[2])["ok"]
            assert await scene.look() == (["bob"], [])

    run(work)


@pytest.mark.parametrize("is_first_heard", [True, False])
def test_a_grant_that_one_of_two_has_heard_is_not_released(tmp_path: Path, is_first_heard: bool) -> None:
    async def work() -> None:
        async with held(tmp_path) as (scene, mine):
            one, other = scene.caller(), scene.caller()
            waits = [scene.wait(each, "t1", PATIENCE) for each in (one, other)]
            await scene.looks(["ada"], ["bob"])
            await scene.locks.release(mine.lease.id, mine.token)
            assert all([(await each)["ok"] for each in waits])
            if is_first_heard:
                one.sent()
            await one.close()
            await other.close()
            assert await scene.look() == ((["bob"] if is_first_heard else []), [])

    run(work)


def test_whose_key_is_revoked_waits_no_longer(tmp_path: Path) -> None:
    admin, agent = (create_key(tmp_path, role) for role in ("admin", "agent"))

    async def work() -> None:
        with serving(tmp_path) as server:

            def waiting() -> list[str]:
                seen = server.get("inspect?resource=a", key=admin).json["waiting"]
                return [each["holder"] for each in seen]

            assert server.post("acquire", {"resources": ["a"], "ttl_seconds": 600}, key=admin).status == 200
            async with (
                create_mcp_http_client(headers={"Authorization": f"Bearer {agent}"}) as line,
                Client(streamable_http_client(f"{server.url}/mcp", http_client=line)) as client,
            ):
                # One has a ticket and nobody attends to it, the other waits.
                await call(client, "wait_for_lock", resource="a", agent_id="bob", wait_seconds=0.1)
                attended = await begun(client, {"resource": "a", "agent_id": "eve"})
                assert await asyncio.to_thread(waiting) == ["bob", "eve"]
                await asyncio.to_thread(server.post, "keys/revoke", {"id": id_of(agent)}, key=admin)
                told = (await attended).structured_content
                assert told["error"]["code"] == "unauthenticated"
                assert "revoked" in told["error"]["message"]
                assert "ask a person" in told["advice"]
                await asyncio.to_thread(until, lambda: waiting() == [])

    run(work)

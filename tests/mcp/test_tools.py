"""Every tool, driven by the SDK's own client: over standard input and over HTTP, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import INVALID_PARAMS

import leasehold
from tests.kit.serving import PATIENCE, create_key, serving, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from mcp.client.extension import ClientExtension

ERAS = ("auto", "legacy")
LISTED_MOST = 10_000
"""Characters of JSON for all tools: they go into the prompt of each agent."""
TOOLS = {
    "acquire_lock",
    "release_lock",
    "renew_lock",
    "check_lock",
    "list_locks",
    "lock_history",
    "wait_for_lock",
    "force_release_lock",
}


def database(folder: Path) -> str:
    return f"sqlite:///{folder / 'locks.db'}"


def settings(folder: Path) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    return {**clean, "LEASEHOLD_URL": database(folder), **allowing(folder), "LEASEHOLD_HOLDER": "coder-1"}


def allowing(folder: Path) -> dict[str, str]:
    """The user's own configuration allows agents to force a lock open."""
    config = folder / "config" / "leasehold" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('[people]\nagents_may = ["force-release"]\n')
    return {"XDG_CONFIG_HOME": str(folder / "config")}


@asynccontextmanager
async def over_stdio(
    folder: Path, era: str, extensions: Sequence[ClientExtension] = (), **env: str
) -> AsyncIterator[Client]:
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "leasehold.cli", "mcp"], env=settings(folder) | env, cwd=folder
    )
    async with Client(stdio_client(command), mode=era, extensions=extensions) as client:
        yield client


@asynccontextmanager
async def over_http(folder: Path, era: str, extensions: Sequence[ClientExtension] = ()) -> AsyncIterator[Client]:
    with serving(folder, env=allowing(folder)) as server:
        async with Client(f"{server.url}/mcp", mode=era, extensions=extensions) as client:
            yield client


TRANSPORTS = {"stdio": over_stdio, "http": over_http}


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    told: dict[str, Any] = answer.structured_content
    assert told["advice"] in answer.content[0].text  # type: ignore[union-attr]
    assert "{" not in answer.content[0].text  # type: ignore[union-attr] # the data are not said twice
    return told


async def soon(condition: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # noqa: ASYNC110 (what is waited for is in another process)
            await asyncio.sleep(0.01)


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 2 * PATIENCE))


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_tool(tmp_path: Path, transport: str, era: str) -> None:
    async def work() -> None:
        async with TRANSPORTS[transport](tmp_path, era) as client:
            await _what_there_is(client)
            await _take_and_give_back(client)
            await _plan_and_take(client)
            await _wait_with_a_ticket(client)
            await _look_and_force(client)

    run(work)


async def _what_there_is(client: Client) -> None:
    listed = await client.list_tools()
    tools = {tool.name: tool for tool in listed.tools}
    in_prompt = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed.tools]
    assert len(json.dumps(in_prompt)) <= LISTED_MOST
    assert set(tools) == TOOLS
    assert list(tools)[:2] == ["acquire_lock", "release_lock"]
    for tool in tools.values():
        assert tool.output_schema is not None
        assert tool.annotations is not None
        assert tool.annotations.open_world_hint is False
    assert "skip" in (tools["acquire_lock"].description or "")
    reading = {name for name, tool in tools.items() if tool.annotations and tool.annotations.read_only_hint}
    assert reading == {"check_lock", "list_locks", "lock_history"}
    assert [name for name, tool in tools.items() if tool.annotations and tool.annotations.destructive_hint] == [
        "force_release_lock"
    ]
    prompts = await client.list_prompts()
    assert [prompt.name for prompt in prompts.prompts] == ["claim_issue"]
    told = await client.get_prompt("claim_issue", {"issue": "issue:42"})
    assert "acquire_lock" in told.messages[0].content.text  # type: ignore[union-attr]


async def _take_and_give_back(client: Client) -> None:
    mine = await call(client, "acquire_lock", resource="issue:42", work="fix the parser", agent_id="ada")
    assert mine["ok"] is True
    assert mine["data"]["lease"]["holder"] == "ada"
    assert "release_lock" in mine["advice"]
    again = await call(client, "acquire_lock", resource="issue:42", agent_id="ada")
    assert again["data"]["lease"]["fence"] == mine["data"]["lease"]["fence"]
    refused = await call(client, "acquire_lock", resource="issue:42", agent_id="bob")
    assert refused["ok"] is False
    assert refused["error"]["code"] == "held"
    blocker = refused["error"]["holders"][0]
    assert (blocker["holder"], blocker["name"]) == ("ada", "fix the parser")
    assert blocker["expires_in_seconds"] > 0
    assert refused["error"]["queue"] == {"length": 1, "position": 1}
    assert "skip it" in refused["advice"]
    renewed = await call(client, "renew_lock", resource="issue:42", agent_id="ada", ttl_seconds=40)
    assert renewed["data"]["lease"]["ttl_seconds"] == 40
    proof = {"token": mine["data"]["token"], "agent_id": "ada"}
    ended = await call(client, "release_lock", resource="issue:42", status="failed", error="no luck", **proof)
    assert ended["data"]["released"] is True
    again = await call(client, "release_lock", resource="issue:42", agent_id="ada")
    assert (again["data"]["released"], again["data"]["reason"]) == (False, "released")
    nothing = await call(client, "release_lock", resource="issue:42", agent_id="bob")
    assert nothing["error"]["code"] == "not_found"
    gone = await call(client, "renew_lock", resource=mine["data"]["lease"]["id"], **proof)
    assert gone["error"]["code"] == "lost"
    assert "Stop" in gone["advice"]


async def _plan_and_take(client: Client) -> None:
    names = ["path:planned", "issue:7"]
    mine = await call(client, "acquire_lock", resource=names, plan=True, work="parser", agent_id="ada")
    assert (mine["ok"], mine["data"]["plan"]["overlaps"]) == (True, [])
    assert "acquire_lock each part" in mine["advice"]
    theirs = await call(client, "acquire_lock", resource="path:planned/a.py", plan=True, agent_id="bob")
    (overlap,) = theirs["data"]["plan"]["overlaps"]
    assert (overlap["state"], overlap["holder"], overlap["other"]) == ("planned", "ada", "path:planned")
    assert "Others plan or hold" in theirs["advice"]
    taken = await call(client, "acquire_lock", resource="issue:7", agent_id="ada")
    listed = (await call(client, "list_locks"))["data"]["plans"]
    assert {each["holder"]: each["resources"] for each in listed} == {
        "ada": ["path:planned"],
        "bob": ["path:planned/a.py"],
    }
    checked = await call(client, "check_lock", resource="path:planned/b.py")
    assert [each["holder"] for each in checked["data"]["plans"]] == ["ada"]
    assert "planned" in checked["advice"]
    for told, agent in ((mine, "ada"), (theirs, "bob")):
        over = await call(client, "release_lock", resource=told["data"]["plan"]["id"], agent_id=agent)
        assert over["data"]["released"] is True
    assert (await call(client, "release_lock", resource="issue:7", agent_id="ada"))["data"]["released"]
    assert taken["ok"]


async def _wait_with_a_ticket(client: Client) -> None:
    assert (await call(client, "acquire_lock", resource="deploy://api", agent_id="ada"))["ok"]
    seen: list[str] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message or "")

    terms = {"resource": "deploy://api", "agent_id": "bob"}
    answer = await client.call_tool("wait_for_lock", {**terms, "wait_seconds": 1.5}, progress_callback=progress)
    told = answer.structured_content
    assert told is not None
    assert told["ok"] is False
    assert told["data"]["queue"] == {"length": 1, "position": 1}
    assert seen
    assert seen[0].startswith("place 1 of 1; held by ada")
    third = await call(client, "wait_for_lock", resource="deploy://api", agent_id="eve", wait_seconds=0.1)
    assert third["data"]["queue"] == {"length": 2, "position": 2}
    assert (await call(client, "release_lock", resource="deploy://api", agent_id="ada"))["ok"]
    got = await call(client, "wait_for_lock", **terms, ticket=told["data"]["ticket"])
    assert got["data"]["lease"]["holder"] == "bob"
    assert (await call(client, "release_lock", resource="deploy://api", agent_id="bob"))["ok"]
    late = await call(client, "wait_for_lock", resource="deploy://api", agent_id="eve", ticket=third["data"]["ticket"])
    assert late["data"]["lease"]["holder"] == "eve"
    assert (await call(client, "release_lock", resource="deploy://api", agent_id="eve"))["ok"]


async def _look_and_force(client: Client) -> None:
    taken = await call(client, "acquire_lock", resource=["path:src/a.py", "path:src/b.py"], agent_id="ada")
    assert taken["data"]["lease"]["resources"] == ["path:src/a.py", "path:src/b.py"]
    seen = await call(client, "check_lock", resource="path:src")
    assert seen["data"]["free"] is False
    listed = await call(client, "list_locks", holder="ada")
    assert [lease["id"] for lease in listed["data"]["leases"]] == [taken["data"]["lease"]["id"]]
    assert "check_lock" not in listed["advice"]
    note = {"note": "x" * 600}
    assert (await call(client, "acquire_lock", resource="path:notes", agent_id="ada", context=note))["ok"]
    listed = await call(client, "list_locks", holder="ada")
    assert [lease["context"] for lease in listed["data"]["leases"]] == [None, None]
    assert listed["advice"].endswith("Long contexts are left out here: check_lock has them.")
    seen = await call(client, "check_lock", resource="path:notes")
    assert seen["data"]["leases"][0]["context"] == note
    assert (await call(client, "release_lock", resource="path:notes", agent_id="ada"))["ok"]
    active = json.loads((await client.read_resource("lock://active")).contents[0].text)  # type: ignore[union-attr]
    assert active["leases"][0]["holder"] == "ada"
    one = json.loads(
        (await client.read_resource("lock://resource/path%3Asrc%2Fa.py")).contents[0].text  # type: ignore[union-attr]
    )
    assert one["resource"] == "path:src/a.py"
    forced = await call(client, "force_release_lock", resource="path:src/a.py", reason="told to", agent_id="ops")
    assert forced["data"]["released"] is True
    assert forced["advice"].startswith("It is free now.")
    again = await call(client, "force_release_lock", resource="path:src/a.py", reason="told to", agent_id="ops")
    assert (again["data"]["released"], again["advice"]) == (False, "Nobody held it: nothing changed.")
    events = (await call(client, "lock_history", resource="path:src/a.py"))["data"]["events"]
    assert events[0]["kind"] == "forced"
    assert "told to" in json.dumps(events[0]["detail"])


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_call_that_goes_on_with_a_ticket_waits_itself(tmp_path: Path, transport: str, era: str) -> None:
    async def work() -> None:
        async with TRANSPORTS[transport](tmp_path, era) as client:
            assert (await call(client, "acquire_lock", resource="a", agent_id="ada"))["ok"]
            terms = {"resource": "a", "agent_id": "bob"}
            first = await call(client, "wait_for_lock", **terms, wait_seconds=0.1)
            told = asyncio.Event()

            async def progress(progress: float, total: float | None, message: str | None) -> None:
                told.set()

            terms |= {"ticket": first["data"]["ticket"]}
            second = asyncio.create_task(client.call_tool("wait_for_lock", terms, progress_callback=progress))
            under_way = asyncio.create_task(told.wait())
            await asyncio.wait((second, under_way), return_when=asyncio.FIRST_COMPLETED)
            under_way.cancel()
            assert not second.done(), second.result().structured_content
            assert (await call(client, "release_lock", resource="a", agent_id="ada"))["ok"]
            got = (await second).structured_content
            assert got is not None
            assert got["data"]["lease"]["holder"] == "bob"

    run(work)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("acquire_lock", {"resource": ""}, "resource"),
    ("acquire_lock", {"resource": "a", "ttl_seconds": 0}, "ttl_seconds"),
    ("acquire_lock", {"resource": "a", "ttl_seconds": 1e12}, "ttl_seconds"),
    ("acquire_lock", {"resource": "a", "ttl_seconds": "abc"}, "ttl_seconds"),
    ("acquire_lock", {"resource": ["a"] * 65}, "resource"),
    ("wait_for_lock", {"resource": "a", "wait_seconds": 51}, "wait_seconds"),
    ("force_release_lock", {"resource": "a"}, "reason"),
    ("lock_history", {"limit": 100_000}, "limit"),
]


def test_bad_input_names_the_argument_and_changes_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with over_stdio(tmp_path, "auto") as client:
            for tool, arguments, named in BAD:
                answer = await client.call_tool(tool, arguments)
                assert answer.is_error
                assert named in answer.content[0].text  # type: ignore[union-attr]
            refused = await call(client, "acquire_lock", resource="path:../../etc")
            assert refused["error"]["code"] == "invalid"
            assert refused["error"]["field"] == "resource"
            assert (await call(client, "list_locks"))["data"]["leases"] == []

    run(work)


def test_bad_input_is_told_in_words_that_an_agent_can_act_on(tmp_path: Path) -> None:
    told = {
        ("acquire_lock", "resource_key"): "there is no argument resource_key (did you mean resource?)",
        ("acquire_lock", "ttl"): "there is no argument ttl (did you mean ttl_seconds?)",
        ("acquire_lock", "wait_seconds"): "there is no argument wait_seconds",
        ("acquire_lock", "holder"): "there is no argument holder; there are resource",
        ("check_lock", "space"): "there is no argument space; there are resource",
    }

    async def work() -> None:
        async with over_stdio(tmp_path, "auto") as client:
            for (tool, name), said in told.items():
                answer = await client.call_tool(tool, {"resource": "a", name: 5})
                assert answer.is_error
                assert said in answer.content[0].text  # type: ignore[union-attr]
            for tool, arguments, _ in BAD:
                text = (await client.call_tool(tool, arguments)).content[0].text  # type: ignore[union-attr]
                assert text.startswith(f"{tool}: ")
                assert text.endswith("Nothing was changed: correct that, and call again.")
                assert "pydantic" not in text
            assert (await call(client, "check_lock", resource="a", agent_id="me"))["data"]["free"] is True
            for mode in ("shared", "exclusive"):
                contradiction = await call(client, "acquire_lock", resource="a", mode=mode, slots=3)
                assert contradiction["error"]["field"] == "slots"
            answer = await client.call_tool("acquire_lock", {"resource": "a", "mode": "exclusive", "slots": 3})
            assert answer.content[0].text.startswith("slots: an exclusive lease has one")  # type: ignore[union-attr]

    run(work)


def test_an_agent_that_is_in_its_own_way_or_has_lost_its_lease_is_told_so(tmp_path: Path) -> None:
    async def work() -> None:
        async with over_stdio(tmp_path, "auto") as client:
            lost = await call(client, "renew_lock", resource="path:src")
            assert lost["error"]["code"] == "not_found"
            assert "stop that work now" in lost["advice"]
            assert "nothing to do" in (await call(client, "release_lock", resource="path:src"))["advice"]
            taken = await call(client, "acquire_lock", resource="path:src")
            assert "It is renewed while your session lives" in taken["advice"]
            assert taken["data"]["lease"]["expires_in_seconds"] < taken["data"]["lease"]["ttl_seconds"]
            kept = await call(client, "renew_lock", resource="path:src")
            assert kept["advice"].startswith("Go on. It is renewed while your session lives")
            short = await call(client, "acquire_lock", resource="b", ttl_seconds=5)
            assert "renew_lock before 5s are over" in short["advice"]
            for tool in ("acquire_lock", "wait_for_lock"):
                refused = await call(client, tool, resource="path:src/a.py")
                assert [each["yours"] for each in refused["error"]["holders"]] == [True]
                assert "is in the way, on path:src. If you took it yourself, go on" in refused["advice"]
            ada = {"agent_id": "ada"}
            taken = await call(client, "acquire_lock", resource="path:doc", **ada)
            again = await call(client, "acquire_lock", resource="path:doc/a.md", **ada)
            assert again["advice"].startswith("It was yours already.")
            assert again["data"]["lease"]["id"] == taken["data"]["lease"]["id"]
            for tool in ("acquire_lock", "wait_for_lock"):
                refused = await call(client, tool, resource=["path:doc/a.md", "path:lib"], **ada)
                assert refused["error"]["code"] == "held"
                assert refused["error"]["message"].startswith("path:doc/a.md + path:lib is yours since ")
                assert "Your own lease is in the way, on path:doc:" in refused["advice"]
            others = await call(client, "acquire_lock", resource="path:src/a.py", agent_id="other")
            assert others["advice"].startswith("Do not touch it")

    run(work)


@pytest.mark.parametrize(("issue", "name"), [("42", "issue:42"), ("#42", "issue:42"), ("github://a/b/issues/42",) * 2])
def test_an_issue_is_claimed_by_the_name_that_others_use(tmp_path: Path, issue: str, name: str) -> None:
    async def work() -> None:
        async with over_stdio(tmp_path, "auto") as client:
            prompt = await client.get_prompt("claim_issue", {"issue": issue})
            assert f"with the resource '{name}'" in prompt.messages[0].content.text  # type: ignore[union-attr]

    run(work)


@pytest.mark.parametrize("era", ERAS)
def test_a_prompt_that_cannot_be_given_is_the_clients_mistake(tmp_path: Path, era: str) -> None:
    async def work() -> None:
        async with over_stdio(tmp_path, era) as client:
            for name, arguments, said in (
                ("claim_issue", {}, "issue"),
                ("claim_issue", {"issue": "# "}, "issue: is empty"),
                ("claim_pr", {"issue": "42"}, "claim_pr"),
            ):
                with pytest.raises(MCPError, match=said) as refused:
                    await client.get_prompt(name, arguments)
                assert refused.value.error.code == INVALID_PARAMS

    run(work)


def test_a_wait_for_several_names_tells_who_holds_any_of_them(tmp_path: Path) -> None:
    lines: list[str | None] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        lines.append(message)

    async def work() -> None:
        with leasehold.connect(database(tmp_path)) as locks:
            locks.acquire("held", ttl=600, holder="zoe")
        async with over_stdio(tmp_path, "auto") as client:
            asked = {"resource": ["free", "held"], "wait_seconds": 1.5}
            answer = await client.call_tool("wait_for_lock", asked, progress_callback=heard)
            assert answer.structured_content is not None
            told = answer.structured_content["data"]
            assert [lease["holder"] for lease in told["holders"]] == ["zoe"]
            assert told["queue"] == {"length": 1, "position": 1}
            assert "held by zoe" in (lines[0] or "")

    run(work)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_lease_that_a_session_renews_is_told_without_an_end(tmp_path: Path, transport: str) -> None:
    lines: list[str | None] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        lines.append(message)

    async def work() -> None:
        async with TRANSPORTS[transport](tmp_path, "auto") as client:
            with leasehold.connect(database(tmp_path)) as locks:
                begun = locks.start_session(ttl=600, holder="zoe")
                assert isinstance(begun, leasehold.SessionStarted)
                assert locks.acquire("a", ttl=600, session=begun.secret)
            refused = await client.call_tool("acquire_lock", {"resource": "a", "agent_id": "ada"})
            assert refused.structured_content is not None
            assert refused.structured_content["error"]["retry_after_seconds"] == 30
            waits = {"resource": "a", "agent_id": "ada", "wait_seconds": 1.5}
            waiting = await client.call_tool("wait_for_lock", waits, progress_callback=heard)
            for told in (refused.content[0].text, waiting.content[0].text, lines[0] or ""):  # type: ignore[union-attr]
                assert "held by zoe, renewed while its session lives" in told
                assert "at most" not in told
                assert "for another" not in told

    run(work)


def test_locks_that_cannot_be_reached_are_a_refusal_that_an_agent_understands(tmp_path: Path) -> None:
    env = {**settings(tmp_path), "LEASEHOLD_URL": "http://127.0.0.1:1"}
    command = StdioServerParameters(command=sys.executable, args=["-m", "leasehold.cli", "mcp"], env=env, cwd=tmp_path)

    async def work() -> None:
        async with Client(stdio_client(command)) as client:
            for tool in ("acquire_lock", "check_lock"):
                answer = await call(client, tool, resource="a")
                assert answer["ok"] is False
                assert answer["error"]["code"] == "unreachable"
                assert "do not go on" in answer["advice"]

    run(work)


@pytest.mark.parametrize(
    ("transport", "way"), [("stdio", "force-release"), ("stdio", "session"), ("http", "force-release")]
)
def test_an_agent_is_told_with_its_next_answer_that_its_lease_was_taken(
    tmp_path: Path, transport: str, way: str
) -> None:
    """By another process, whatever it asks next, though it neither renews nor names that lease; and it is told once."""

    async def work() -> None:
        async with TRANSPORTS[transport](tmp_path, "auto") as client:
            mine = (await call(client, "acquire_lock", resource="issue:1", agent_id="ada"))["data"]["lease"]
            await call(client, "acquire_lock", resource="issue:2", agent_id="bob")
            await asyncio.to_thread(_take, tmp_path, way, mine)
            told: list[str] = []

            async def is_told() -> bool:
                told.append((await call(client, "acquire_lock", resource="issue:3", agent_id="ada"))["advice"])
                assert "LOST" not in (await call(client, "acquire_lock", resource="issue:2", agent_id="bob"))["advice"]
                return "LOST" in told[-1]

            await soon(is_told)
            assert told[-1].startswith("LOST: issue:1 is no longer yours (")
            assert "LOST" not in (await call(client, "acquire_lock", resource="issue:4", agent_id="ada"))["advice"]

    run(work)


def _take(folder: Path, way: str, lease: dict[str, Any]) -> None:
    with leasehold.connect(database(folder)) as ops:
        if way == "session":
            assert ops.end_session(lease["session"], admin="ops", reason="test")
        else:
            assert ops.force_release(lease["id"], by="ops", reason="test")


@pytest.mark.parametrize("era", ERAS)
def test_what_a_client_over_stdio_took_is_released_when_it_goes(tmp_path: Path, era: str) -> None:
    async def work() -> None:
        async with over_stdio(tmp_path, era) as client:
            assert (await call(client, "acquire_lock", resource="a", ttl_seconds=3600))["ok"]
            assert (await call(client, "acquire_lock", resource="b", agent_id="other"))["ok"]

    run(work)
    with leasehold.connect(database(tmp_path)) as locks:
        assert locks.list() == ()
        assert locks.sessions() == ()


def test_a_session_that_was_given_acts_in_its_own_name(tmp_path: Path) -> None:
    with leasehold.connect(database(tmp_path), holder="nightly") as locks:
        session = locks.start_session(ttl=600)
        assert isinstance(session, leasehold.SessionStarted)
        assert isinstance(locks.acquire("taken", ttl=600, holder="bob"), leasehold.Granted)

    async def work() -> None:
        async with over_stdio(tmp_path, "auto", LEASEHOLD_SESSION=session.secret) as client:
            mine = await call(client, "acquire_lock", resource="a")
            assert mine["data"]["lease"]["holder"] == "nightly"
            waited = await call(client, "wait_for_lock", resource="taken", wait_seconds=0.5)
            assert waited["data"]["queue"] == {"length": 1, "position": 1}
            assert (await call(client, "renew_lock", resource="a"))["ok"]
            assert (await call(client, "release_lock", resource="a", token=mine["data"]["token"]))["ok"]

    run(work)


KILLED = """
import asyncio, os, sys
from tests.mcp.test_tools import call, over_stdio
from pathlib import Path

async def main():
    async with over_stdio(Path(sys.argv[1]), sys.argv[2]) as client:
        assert (await call(client, "acquire_lock", resource="own"))["ok"]
        asyncio.get_running_loop().create_task(call(client, "wait_for_lock", resource="wanted"))
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_is_killed_in_the_middle_of_a_wait_holds_nothing(tmp_path: Path, era: str) -> None:
    with leasehold.connect(database(tmp_path), holder="keeper") as locks:
        held = locks.acquire("wanted", ttl=600)
        assert isinstance(held, leasehold.Granted)
        client = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path), era])
        try:
            until(lambda: _waiting(locks, "wanted") == ["coder-1"])
        finally:
            client.kill()
            client.wait()
        until(lambda: _waiting(locks, "wanted") == [] and locks.sessions() == ())
        assert [lease.holder for lease in locks.list()] == ["keeper"]  # type: ignore[union-attr]


def _waiting(locks: leasehold.Locks, resource: str) -> list[str]:
    seen = locks.inspect(resource)
    assert isinstance(seen, leasehold.Inspection)
    return [each.holder for each in seen.waiting]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_call_that_is_cancelled_leaves_the_queue(tmp_path: Path, transport: str, era: str) -> None:
    async def work() -> None:
        async with TRANSPORTS[transport](tmp_path, era) as client:
            await call(client, "acquire_lock", resource="a", agent_id="ada")
            waiting = asyncio.create_task(call(client, "wait_for_lock", resource="a", agent_id="bob"))

            async def queue() -> list[str]:
                seen = await call(client, "check_lock", resource="a")
                return [each["holder"] for each in seen["data"]["waiting"]]

            await soon(lambda: _is(queue, ["bob"]))
            waiting.cancel()
            await soon(lambda: _is(queue, []))
            await call(client, "release_lock", resource="a", agent_id="ada")
            assert (await call(client, "check_lock", resource="a"))["data"]["free"] is True

    run(work)


async def _is(ask: Callable[[], Awaitable[object]], expected: object) -> bool:
    return await ask() == expected


@pytest.mark.parametrize("era", ERAS)
def test_a_client_over_http_that_vanishes_leaves_the_queue_and_one_that_reconnects_goes_on(
    tmp_path: Path, era: str
) -> None:
    async def work() -> None:
        with serving(tmp_path) as server:
            url = f"{server.url}/mcp"
            async with Client(url, mode=era) as holder:  # it stays connected: a client that ends releases its leases
                await call(holder, "acquire_lock", resource="a", agent_id="ada")
                async with Client(url, mode=era) as client:
                    asked = {"resource": "a", "agent_id": "bob", "wait_seconds": 0.1}
                    ticket = (await call(client, "wait_for_lock", **asked))["data"]["ticket"]
                vanishing = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-c", VANISHED, url, era])
                try:
                    await asyncio.to_thread(until, lambda: server.waiting("a") == ["bob", "eve"])
                finally:
                    vanishing.kill()
                    vanishing.wait()
                await asyncio.to_thread(until, lambda: server.waiting("a") == ["bob"])
                await call(holder, "release_lock", resource="a", agent_id="ada")
                async with Client(url, mode=era) as client:
                    got = await call(client, "wait_for_lock", resource="a", agent_id="bob", ticket=ticket)
                    assert got["data"]["lease"]["holder"] == "bob"

    run(work)


VANISHED = """
import asyncio, sys
from mcp import Client
from tests.mcp.test_tools import call

async def main():
    async with Client(sys.argv[1], mode=sys.argv[2]) as client:
        await call(client, "wait_for_lock", resource="a", agent_id="eve")

asyncio.run(main())
"""


def test_over_http_a_key_is_needed_where_there_are_keys_and_roles_count(tmp_path: Path) -> None:
    keys = {role: create_key(tmp_path, role) for role in ("admin", "agent", "viewer")}
    with serving(tmp_path) as server:
        assert server.ask("POST", "/mcp", {}).status == 401
        assert server.ask("POST", "/mcp", {}, key="lh_wrong_key").status == 401

        async def work() -> None:
            async with _with_key(server.url, keys["viewer"]) as viewer:
                refused = await call(viewer, "acquire_lock", resource="a")
                assert refused["error"]["code"] == "not_allowed"
                assert (await call(viewer, "check_lock", resource="a"))["data"]["free"] is True
            async with _with_key(server.url, keys["agent"]) as agent:
                first = await call(agent, "acquire_lock", resource="a")
                assert first["data"]["lease"]["holder"] == "agent/mcp"
                # Several agents may share a key: without a name of their own, none gets another's lease.
                assert (await call(agent, "acquire_lock", resource="a"))["error"]["code"] == "held"
                forced = await call(agent, "force_release_lock", resource="a", reason="because")
                assert forced["error"]["code"] == "not_allowed"
                token = first["data"]["token"]
                assert (await call(agent, "release_lock", resource="a"))["error"]["code"] == "not_allowed"
                assert (await call(agent, "release_lock", resource="a", token=token))["ok"]

        run(work)


@asynccontextmanager
async def _with_key(url: str, key: str) -> AsyncIterator[Client]:
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async with (
        create_mcp_http_client(headers={"Authorization": f"Bearer {key}"}) as line,
        Client(streamable_http_client(f"{url}/mcp", http_client=line)) as client,
    ):
        yield client


def test_without_keys_the_host_and_the_origin_are_checked(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert server.ask("POST", "/mcp", {}, Host="evil.example").status == 421
        assert server.ask("POST", "/mcp", {}, Origin="http://evil.example").status == 403

"""What is for people: adopt at a terminal; force-release, steal and clear, which agents are refused."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
from mcp import Client

from tests.kit.serving import create_key, serving
from tests.kit.terminals import Terminal
from tests.mcp.test_tools import call, over_stdio

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.shell import Shell

AGENT = {"CLAUDECODE": "1"}
VERBS = {
    "force-release": ("force-release", "x", "--reason", "told to"),
    "steal": ("steal", "x", "--reason", "told to"),
    "clear": ("clear", "x", "--reason", "told to"),
}


def allow(shell: Shell, *verbs: str) -> None:
    path = shell.home / "config" / "leasehold" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f"[people]\nagents_may = [{', '.join(map(repr, verbs))}]\n")


# ------------------------------------------------------------------------------------ force-release, steal, clear


@pytest.mark.parametrize("verb", VERBS)
def test_an_agent_is_refused_what_is_for_people(shell: Shell, verb: str) -> None:
    shell.call("acquire", "x", "--on-expiry", "quarantine", holder="bob")
    if verb == "clear":
        assert shell.call("force-release", "x", "--reason", "gone", holder="ops").code == 0
    for holder in ("ada", None):
        refused = shell.call(*VERBS[verb], holder=holder, env=AGENT)
        assert refused.code == 8
        assert f"{verb} is for people" in refused.err
        assert "Next:" not in refused.err
    seen = shell.inspect("x")
    assert seen.closed if verb == "clear" else [lease.holder for lease in seen.leases] == ["bob"]
    assert shell.call(*VERBS[verb], holder="ops").code == 0


def test_an_agent_is_refused_to_end_anothers_session_unless_it_may_force_a_release(shell: Shell) -> None:
    """What a `leasehold run` holds ends with its session."""
    session = shell.json("session", "start", holder="bob")["data"]["session"]["id"]
    refused = shell.call("session", "end", session, "--by", "ada", env=AGENT)
    assert refused.code == 8
    assert "to end another's session is for people" in refused.err
    assert session in shell.call("session", "list").out
    allow(shell, "force-release")
    assert shell.call("session", "end", session, "--by", "ada", env=AGENT).code == 0


def test_an_agent_that_clears_its_environment_is_refused_too(shell: Shell) -> None:
    shell.call("acquire", "x", holder="bob")
    env = shell.with_command(shell.env(None))
    shutil.copy("/bin/bash", shell.home / "bin" / "claude")
    given = " ".join(f'{name}="{env[name]}"' for name in ("PATH", "HOME", "PYTHONPATH", "XDG_STATE_HOME"))
    done = shell.sh(f"claude -c 'env -i {given} leasehold force-release x --reason told; exit $?'", env=AGENT)
    assert done.code == 8
    assert "force-release is for people" in done.err
    assert shell.holders("x") == ["bob"]


@pytest.mark.parametrize("verb", VERBS)
def test_the_users_own_configuration_may_allow_it_and_a_checkouts_may_not(shell: Shell, verb: str) -> None:
    shell.call("acquire", "x", "--on-expiry", "quarantine", holder="bob")
    if verb == "clear":
        shell.call("force-release", "x", "--reason", "gone", holder="ops")
    (shell.home / "leasehold.toml").write_text(f"[people]\nagents_may = ['{verb}']\n")
    refused = shell.call(*VERBS[verb], env=AGENT)
    assert refused.code == 2
    assert "config/leasehold/config.toml" in refused.err
    (shell.home / "leasehold.toml").unlink()
    allow(shell, verb)
    assert shell.call(*VERBS[verb], env=AGENT).code == 0


def test_what_may_be_allowed_is_checked(shell: Shell) -> None:
    allow(shell, "release")
    refused = shell.call("list")
    assert refused.code == 2
    assert "force-release, steal, clear" in refused.err


def test_on_a_server_keys_decide(shell: Shell, tmp_path: Path) -> None:
    admin = create_key(tmp_path, "admin")
    with serving(tmp_path) as server:
        env = {**AGENT, "LEASEHOLD_URL": server.url, "LEASEHOLD_API_KEY": admin}
        assert shell.call("acquire", "x", env=env).code == 0
        assert shell.call(*VERBS["force-release"], env=env).code == 0


@pytest.mark.parametrize("verb", VERBS)
def test_on_a_server_without_keys_an_agent_is_refused_it_as_on_a_local_store(
    shell: Shell, tmp_path: Path, verb: str
) -> None:
    with serving(tmp_path) as server:
        person = {"LEASEHOLD_URL": server.url}
        shell.call("acquire", "x", "--on-expiry", "quarantine", holder="bob", env=person)
        if verb == "clear":
            assert shell.call("force-release", "x", "--reason", "gone", holder="ops", env=person).code == 0
        refused = shell.call(*VERBS[verb], env={**AGENT, **person})
        assert refused.code == 8
        assert f"{verb} is for people" in refused.err
        assert shell.call(*VERBS[verb], holder="ops", env=person).code == 0


def test_no_refusal_offers_what_is_for_people(shell: Shell) -> None:
    shell.call("acquire", "x", "--on-expiry", "quarantine")
    refused = [shell.call("acquire", "x", holder="bob"), shell.call("release", "x", holder="bob")]
    refused += [shell.call("acquire", "x", "--wait", "10ms", holder="bob"), shell.call("renew", "x", holder="bob")]
    shell.call("force-release", "x", "--reason", "gone", holder="ops")
    refused += [shell.call("acquire", "x", holder="bob"), shell.run("run", "x", "--", "true", holder="bob")]
    for done in refused:
        assert done.code in (4, 5, 8)
        assert not [word for word in ("force", "steal", "clear", "adopt") if word in done.err], done.err
    for told in (shell.call("doctor", env=AGENT).out, shell.call("doctor").out, shell.call("doctor", "--json").out):
        assert "quarantined" in told
        assert "leasehold clear" not in told, "an agent that nothing recognises reads a pipe"
    with Terminal(shell, "doctor") as terminal:
        assert terminal.end() == 0
    assert "leasehold clear" in terminal.shown


@pytest.mark.parametrize("way", ["stdio", "http", "stdio to a server"])
def test_a_tool_of_mcp_is_refused_it_too(tmp_path: Path, way: str) -> None:
    own = {"XDG_CONFIG_HOME": str(tmp_path / "none")}

    async def work() -> None:
        async with AsyncExitStack() as stack:
            url = stack.enter_context(serving(tmp_path, env=own)).url if way != "stdio" else ""
            given = {"LEASEHOLD_URL": url} if url else {}
            client = await stack.enter_async_context(
                Client(f"{url}/mcp") if way == "http" else over_stdio(tmp_path, "auto", (), **own, **given)
            )
            await call(client, "acquire_lock", resource="x", agent_id="bob")
            refused = await call(client, "force_release_lock", resource="x", reason="told to", agent_id="ada")
            assert refused["error"]["code"] == "not_allowed"
            assert "is for people" in refused["error"]["message"]
            assert len((await call(client, "list_locks"))["data"]["leases"]) == 1

    asyncio.run(work())


# ---------------------------------------------------------------------------------------------------- adopt


def test_adopt_asks_at_a_terminal_and_is_in_the_history(shell: Shell) -> None:
    shell.call("acquire", "x", "--reason", "tests", holder="bob")
    assert shell.call("release", "x").code == 8
    with Terminal(shell, "adopt", "x") as terminal:
        terminal.until("Adopt it? [y/N]")
        assert "was taken by bob" in terminal.shown
        terminal.type("n\n")
        assert terminal.end() == 8
    assert shell.call("release", "x").code == 8
    with Terminal(shell, "adopt", "x") as terminal:
        terminal.until("Adopt it? [y/N]")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert "adopted by ada, from bob; before: tests" in shell.call("history", "x").out
    assert shell.holders("x") == ["bob"]
    assert shell.call("release", "x").code == 0
    assert shell.holders("x") == []


@pytest.mark.parametrize("env", [{}, AGENT])
def test_adopt_is_for_nobody_but_a_person_at_a_terminal(shell: Shell, env: dict[str, str]) -> None:
    shell.call("acquire", "x", holder="bob")
    assert shell.run("adopt", "x", env=env, give="y\n").code == 8
    if env:
        with Terminal(shell, "adopt", "x", env=env) as terminal:
            assert terminal.end() == 8
    assert shell.call("release", "x").code == 8


def test_adopt_needs_the_token(shell: Shell, tmp_path: Path) -> None:
    shell.call("acquire", "x", "--token-file", str(tmp_path / "token"), holder="bob")
    with Terminal(shell, "adopt", "x") as terminal:
        assert terminal.end() == 8
        assert "its token is not kept here" in terminal.shown
    with Terminal(shell, "adopt", "nothing") as terminal:
        assert terminal.end() == 3
    assert shell.call("release", "x", "--token-file", str(tmp_path / "token")).code == 0

"""What a tool call changes is judged by its effects: others' paths are told, free ones become the agent's."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.guard.editors.adapters import AFTER, BEFORE, END
from leasehold.guard.editors.decision import Decision
from tests.guard.effects.agents import Agent, held, until_stamped_later
from tests.guard.effects.repository import FILE, FREE, sh, spelled
from tests.guard.effects.ways import READS, WAYS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.guard.effects.ways import Way


STEP = 1 if os.environ.get("LEASEHOLD_PROVE") == "1" else 5
"""Of so many ways, one is tried elsewhere than in the main worktree."""


@pytest.fixture
def agent(app: Path, tmp_path: Path) -> Agent:
    locks = leasehold.connect(f"sqlite:///{tmp_path}/locks.db", holder="test")
    return Agent("aaaa", locks, app, {"HOME": str(tmp_path / "home")})


def prepare(way: Way, where: Path) -> None:
    if way.needs and shutil.which(way.needs) is None:
        pytest.skip(f"NOT RUN: {way.needs} is not installed")
    if way.before:
        sh(spelled(way.before), where)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_a_change_of_a_held_file_is_told_and_can_be_undone(way: Way, agent: Agent) -> None:
    assert agent.locks.acquire(f"path:{FILE}", ttl=600, holder="bob", name="parsing")
    prepare(way, agent.here)
    content = (agent.here / FILE).read_bytes()
    said = agent.run(spelled(way.command), agent.here)
    assert not said.allowed
    assert f"{FILE}, held by bob (parsing)" in said.message
    undo = next(line for line in said.message.splitlines() if line.startswith("  ") and "held.py" in line)
    subprocess.run(["bash", "-c", undo], cwd=agent.here, check=True, capture_output=True)
    assert (agent.here / FILE).read_bytes() == content
    assert held(agent)[f"path:{FILE}"] == "bob"


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_a_changed_file_that_nobody_holds_becomes_the_agents(way: Way, agent: Agent) -> None:
    assert agent.locks.acquire(f"path:{FREE}", ttl=600, holder="bob")
    prepare(way, agent.here)
    said = agent.run(spelled(way.command), agent.here)
    assert said.allowed, said
    assert held(agent)[f"path:{FILE}"] == "claude-aaaa"


@pytest.mark.parametrize("way", WAYS[::STEP], ids=lambda way: way.name)
def test_another_worktree_is_no_way_round(way: Way, agent: Agent) -> None:
    second = agent.here.parent / "second"
    assert agent.locks.acquire(f"path:{FILE}", ttl=600, holder="bob")
    prepare(way, second)
    said = agent.run(spelled(way.command), second)
    assert not said.allowed
    assert str(second) in said.message


@pytest.mark.parametrize("way", WAYS[1 % STEP :: STEP], ids=lambda way: way.name)
def test_a_submodule_is_no_way_round(way: Way, agent: Agent) -> None:
    sub = agent.here / "sub"
    assert agent.locks.acquire(f"path:{FILE}", ttl=600, holder="bob")
    prepare(way, sub)
    said = agent.run(spelled(way.command), sub)
    assert not said.allowed
    assert str(sub) in said.message


@pytest.mark.parametrize("command", READS)
def test_what_only_reads_is_not_flagged(command: str, agent: Agent) -> None:
    assert agent.locks.acquire("path:src", ttl=600, holder="bob")
    assert agent.run(spelled(command)) == Decision()
    assert held(agent) == {"path:src": "bob"}


@pytest.mark.parametrize("mine", ["bob's work\n", None, "one\ntwo\nthree\n"], ids=["edited", "deleted", "committed"])
def test_an_agent_can_undo_its_trespass_by_the_command_that_the_hook_gives(mine: str | None, agent: Agent) -> None:
    """Also if it trespasses again before that: what the file held at first is what counts."""
    held_file = agent.here / FILE
    assert agent.locks.acquire(f"path:{FILE}", ttl=600, holder="bob")
    held_file.unlink() if mine is None else held_file.write_text(mine)
    undo = ""
    for number in (1, 2):
        said = agent.run(f"echo {number} > {FILE}", agent.here, number)
        assert not said.allowed
        undo = said.message.splitlines()[1].strip()
    assert not agent.hook(BEFORE, 3, f"cp -p other {FILE}").allowed, "another command on that file is refused as ever"
    said = agent.run(f"{undo}; echo more >> {FILE}", number=4)
    assert "Undo this before you go on" in said.message
    assert agent.run(said.message.splitlines()[1].strip(), number=5) == Decision()
    assert (held_file.read_text() if held_file.exists() else None) == mine
    assert not agent.hook(BEFORE, 6, undo).allowed, "it is resolved, and the file is held as before"


def test_the_undo_of_a_trespass_outlives_the_session_that_made_it(agent: Agent) -> None:
    assert agent.locks.acquire(f"path:{FILE}", ttl=600, holder="bob")
    (agent.here / FILE).write_text("bob's work\n")
    undo = agent.run(f"echo x > {FILE}", agent.here).message.splitlines()[1].strip()
    agent.hook(BEFORE, 2, "./build")
    agent.hook(END, 3)
    sh(undo, agent.here)
    assert (agent.here / FILE).read_text() == "bob's work\n"
    assert not any(path.name == "before.json" for path in (agent.here.parent.parent / "home").rglob("*"))


def test_an_edit_of_its_holder_resolves_a_trespass(agent: Agent) -> None:
    bob = agent._replace(name="bbbb")
    assert bob.hook(BEFORE, 1, path=FILE).allowed
    bob.hook(AFTER, 1, path=FILE)
    undo = agent.run(f"echo x > {FILE}", agent.here, 2).message.splitlines()[1].strip()
    assert bob.hook(BEFORE, 3, path=FILE).allowed
    (agent.here / FILE).write_text("bob read it anew\n")
    bob.hook(AFTER, 3, path=FILE)
    assert not agent.hook(BEFORE, 4, undo).allowed


def test_under_warn_the_agent_is_told_and_goes_on(agent: Agent) -> None:
    assert agent.locks.acquire(f"path:{FILE}", ttl=600, holder="bob")
    said = agent.run(f"python3 -c \"open('{FILE}', 'w')\"", agent.here, policy="warn")
    assert said.allowed
    assert said.message.startswith("Careful: Your call changed what others hold")


def test_a_held_file_that_is_ignored_by_git_is_seen(agent: Agent) -> None:
    (agent.here / ".git" / "info" / "exclude").write_text("build\n")
    (agent.here / "build").mkdir()
    (agent.here / "build" / "out").write_text("bob's")
    assert agent.locks.acquire("path:build", ttl=600, holder="bob")
    said = agent.run("echo x > build/out", agent.here)
    assert "build/out, held by bob" in said.message
    undo = said.message.splitlines()[1]
    subprocess.run(["bash", "-c", undo], check=True)
    assert (agent.here / "build" / "out").read_text() == "bob's"


def test_a_file_that_its_holder_edits_meanwhile_is_not_held_against_the_agent(agent: Agent) -> None:
    bob = agent._replace(name="bbbb")
    assert agent.hook(BEFORE, 1, "./build").allowed
    assert bob.hook(BEFORE, 1, path=FILE).allowed
    (agent.here / FILE).write_text("bob was here")
    assert bob.hook(AFTER, 1, path=FILE) == Decision()
    assert agent.hook(AFTER, 1, "./build") == Decision()
    assert held(agent) == {f"path:{FILE}": "claude-bbbb"}


def test_where_two_calls_overlap_nobody_is_accused(agent: Agent) -> None:
    bob = agent._replace(name="bbbb")
    assert bob.hook(BEFORE, 0, path=FILE).allowed
    bob.hook(AFTER, 0, path=FILE)
    assert agent.hook(BEFORE, 1, "./build").allowed
    assert bob.hook(BEFORE, 2, "./test").allowed
    (agent.here / FILE).write_text("who was here?")
    told = agent.hook(AFTER, 1, "./build")
    assert told.allowed
    assert "it is not known who changed them" in told.message
    assert bob.hook(AFTER, 2, "./test") == Decision()


def test_a_file_tool_that_is_at_work_on_another_file_excuses_nobody(agent: Agent) -> None:
    """Some agents report no end of an edit that failed, and such a call counts as open for an hour."""
    bob = agent._replace(name="bbbb")
    assert bob.hook(BEFORE, 0, path=FILE).allowed
    bob.hook(AFTER, 0, path=FILE)
    assert bob.hook(BEFORE, 1, path=FREE).allowed
    said = agent.run(f"echo x > {FILE}", agent.here, 2)
    assert not said.allowed
    assert f"{FILE}, held by claude-bbbb" in said.message
    said = agent.run(f"echo x > {FREE}", agent.here, 3)
    assert said.allowed, "bob may be writing this one right now"
    assert "it is not known who changed them" in said.message


def test_what_another_agent_changed_before_is_its_own(agent: Agent) -> None:
    bob = agent._replace(name="bbbb")
    assert agent.hook(BEFORE, 1, "./build").allowed
    sh("echo a > a.txt", agent.here)
    until_stamped_later(agent.here / "a.txt")
    assert bob.hook(BEFORE, 2, "./test").allowed
    agent.hook(AFTER, 1, "./build")
    sh("echo b > b.txt", agent.here)
    bob.hook(AFTER, 2, "./test")
    assert held(agent) == {"path:a.txt": "claude-aaaa", "path:b.txt": "claude-bbbb"}


def test_where_two_calls_overlap_a_free_file_is_leased_to_nobody_and_both_agents_learn_of_it(agent: Agent) -> None:
    bob = agent._replace(name="bbbb")
    assert agent.hook(BEFORE, 1, "./build").allowed
    assert bob.hook(BEFORE, 2, "./test").allowed
    sh("echo a > a.txt", agent.here)
    for each, number, command in ((agent, 1, "./build"), (bob, 2, "./test")):
        said = each.hook(AFTER, number, command)
        assert said.allowed
        assert said.message.endswith("Acquire those that your call changed:\n  leasehold acquire path:a.txt")
    assert held(agent) == {}


def test_an_agent_can_undo_a_change_of_which_nothing_tells_who_made_it(agent: Agent) -> None:
    bob = agent._replace(name="bbbb")
    assert bob.hook(BEFORE, 0, path=FILE).allowed
    bob.hook(AFTER, 0, path=FILE)
    assert agent.hook(BEFORE, 1, "./build").allowed
    assert bob.hook(BEFORE, 2, "./test").allowed
    (agent.here / FILE).write_text("it was the agent\n")
    undo = agent.hook(AFTER, 1, "./build").message.splitlines()[1].strip()
    assert agent.run(undo, number=3) == Decision()
    assert (agent.here / FILE).read_text() == "one\ntwo\nthree\n"
    assert "trespass" not in {event.kind for event in agent.locks.history(limit=100)}  # type: ignore[union-attr]

"""Ways round the picture of a tree: bits of git's index, repositories elsewhere, links, and calls that do not end."""

from __future__ import annotations

import pytest

import leasehold
from leasehold.guard.editors import local
from leasehold.guard.editors.adapters import AFTER, BEFORE
from leasehold.guard.editors.decision import Decision
from leasehold.guard.editors.payloads import HookCall, read
from leasehold.guard.effects import guarding
from tests.guard.effects.agents import Agent, held
from tests.guard.effects.repository import FILE, FREE, commit_files, sh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

WRITE = f"python3 -c \"open('{FILE}', 'w').write('x')\""
RAN = "python3 -c 1"
"""A command that may write, and writes nothing."""


@pytest.fixture
def agent(app: Path, tmp_path: Path) -> Agent:
    locks = leasehold.connect(f"sqlite:///{tmp_path}/locks.db", holder="test")
    return Agent("aaaa", locks, app, {"HOME": str(tmp_path / "home")})


def hold(agent: Agent, name: str = f"path:{FILE}") -> None:
    assert agent.locks.acquire(name, ttl=600, holder="bob")


def undo(said: Decision, where: Path) -> None:
    for line in said.message.splitlines():
        if line.startswith("  "):
            sh(line, where)


# ------------------------------------------------------------------------------------- bits of git's index


@pytest.mark.parametrize("name", [f"path:{FILE}", "path:src", "path:src/*.py"])
@pytest.mark.parametrize("bit", ["--assume-unchanged", "--skip-worktree"])
@pytest.mark.parametrize("is_set_before", [True, False], ids=["before", "by the call"])
def test_a_file_that_git_is_told_to_overlook_is_seen(agent: Agent, name: str, bit: str, *, is_set_before: bool) -> None:
    hold(agent, name)
    hide = f"git update-index {bit} {FILE}"
    if is_set_before:
        sh(hide, agent.here)
    said = agent.run(WRITE if is_set_before else f"{hide}; {WRITE}", agent.here)
    assert not said.allowed
    assert f"{FILE}, held by bob" in said.message
    undo(said, agent.here)
    assert (agent.here / FILE).read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize("name", [f"path:{FILE}", "path:src"])
def test_a_sparse_checkout_that_removes_a_held_file_is_seen(agent: Agent, name: str) -> None:
    hold(agent, name)
    sh("git update-index -q --refresh", agent.here)
    said = agent.run("git sparse-checkout set --no-cone /nothing", agent.here)
    assert not (agent.here / FILE).exists()
    assert f"{FILE}, held by bob" in said.message
    undo(said, agent.here)
    assert (agent.here / FILE).read_text() == "one\ntwo\nthree\n"


def test_a_held_file_that_git_ignores_is_seen_when_it_is_removed(agent: Agent) -> None:
    (agent.here / ".git" / "info" / "exclude").write_text("*.out\n")
    (agent.here / "a.out").write_text("bob's")
    hold(agent, "path:a.out")
    said = agent.run("rm a.out", agent.here)
    assert "a.out, held by bob" in said.message
    undo(said, agent.here)
    assert (agent.here / "a.out").read_text() == "bob's"


def test_a_held_folder_that_is_removed_is_reported_by_its_files(agent: Agent) -> None:
    hold(agent, "path:src")
    said = agent.run("rm -r src", agent.here)
    assert f"{FREE}, held by bob; {FILE}, held by bob. Undo" in said.message
    undo(said, agent.here)
    assert (agent.here / FREE).exists()


# --------------------------------------------------------------------------- other trees and repositories


@pytest.mark.parametrize(
    "command",
    [
        "cd ../other && python3 -c \"open('src/held.py', 'w')\"",
        "git -C ../other checkout -q feature",
        "python3 -c \"open('../other/src/held.py', 'w')\"",
        "D=../other; python3 -c \"import sys; open(sys.argv[1] + '/src/held.py', 'w')\" $D",
        "cd ..; cd other; python3 -c \"open('src/held.py', 'w')\"",
    ],
)
def test_another_repository_that_a_command_mentions_is_compared(agent: Agent, command: str) -> None:
    other = agent.here.parent / "other"
    commit_files(other)
    hold(agent)
    said = agent.run(command)
    assert not said.allowed
    assert str(other) in said.message


def test_the_superproject_of_a_submodule_is_compared(agent: Agent) -> None:
    hold(agent)
    inside = agent._replace(here=agent.here / "sub")
    said = inside.run(f"cd ..; echo x > {FILE}", inside.here)
    assert not said.allowed
    assert str(agent.here) in said.message


def test_a_submodule_that_is_held_from_outside_is_seen(agent: Agent) -> None:
    hold(agent, "path:sub")
    said = agent.run("echo x > sub/src/held.py", agent.here)
    assert "sub/src/held.py, held by bob" in said.message
    undo(said, agent.here)
    assert (agent.here / "sub" / FILE).read_text() == "one\ntwo\nthree\n"


def test_a_worktree_that_the_call_creates_is_compared(agent: Agent) -> None:
    hold(agent)
    said = agent.run(
        f"git worktree add -q ../third HEAD && echo x > ../third/{FILE} && echo y > ../third/new", agent.here
    )
    assert not said.allowed
    assert str(agent.here.parent / "third") in said.message
    assert held(agent)["path:new"] == "claude-aaaa"


def test_a_tree_that_is_gone_hides_nothing_elsewhere(agent: Agent) -> None:
    hold(agent)
    work = agent.here.parent / "second" / FILE
    work.write_text("bob's work\n")
    said = agent.run(f"git worktree remove --force ../second; echo x > {FILE}", agent.here)
    assert not said.allowed
    assert said.message.count(f"{FILE}, held by bob") == 2, "bob's work in the other worktree, and this file"


@pytest.mark.parametrize("is_register_inside", [True, False])
def test_a_repository_that_the_call_moves_away_hides_nothing(agent: Agent, *, is_register_inside: bool) -> None:
    hold(agent)
    if is_register_inside:  # as with the default store
        (agent.here / ".git" / "leasehold").mkdir()
    said = agent.run(f"mv .git ../moved; echo x > {FILE}", agent.here)
    assert not said.allowed
    assert f"{FILE}, held by bob. Undo this before you go on:\n  # ask bob about {FILE}" in said.message


def test_a_call_that_outlives_its_record_is_judged(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(agent)
    assert agent.hook(BEFORE, 1, "./build").allowed
    monkeypatch.setattr("leasehold.guard.effects.calls.KEPT_NS", -1)
    assert agent._replace(name="bbbb").run(RAN, agent.here, number=2) == Decision()
    (agent.here / FILE).write_text("x")
    assert f"{FILE}, held by bob" in agent.hook(AFTER, 1, "./build").message


# ------------------------------------------------------------------------------------------- links


def test_a_file_tool_does_not_write_through_a_link_to_a_held_file(agent: Agent) -> None:
    hold(agent)
    sh(f"ln -s {FILE} link.py; ln -s src folder", agent.here)
    assert not agent.hook(BEFORE, 1, path="link.py").allowed
    assert not agent.hook(BEFORE, 2, path="folder/held.py").allowed


def test_a_held_link_is_restored_by_the_command_that_the_hook_gives(agent: Agent) -> None:
    sh("ln -s held.py src/link.py; git add -A; git commit -qm link", agent.here)
    hold(agent, "path:src/link.py")
    said = agent.run("rm src/link.py; printf held.py > src/link.py", agent.here)
    assert "src/link.py, held by bob" in said.message
    undo_it = said.message.splitlines()[1].strip()
    assert agent.run(undo_it, number=2) == Decision()
    assert (agent.here / "src" / "link.py").is_symlink()


def test_a_link_of_which_only_the_index_changes_is_leased_to_nobody(agent: Agent) -> None:
    sh("ln -s held.py src/link.py; git add -A; git commit -qm link", agent.here)
    hold(agent)
    assert agent.run("git rm -q --cached src/link.py", agent.here) == Decision()
    assert held(agent) == {f"path:{FILE}": "bob"}


@pytest.mark.parametrize("name", [":(top)a", "a*", "[ab]", "?", "-rf", "a b'c\"d", "$HOME", "ünï"])
def test_the_command_that_restores_a_file_means_that_file_alone(agent: Agent, name: str) -> None:
    beside = [agent.here / each for each in (name, "ab", "a", "b")]
    for path in beside:
        path.write_text("one")
    sh("git add -A; git commit -qm odd", agent.here)
    bob = agent._replace(name="bbbb")
    assert bob.hook(BEFORE, 1, path=str(agent.here / name)).allowed
    bob.hook(AFTER, 1, path=str(agent.here / name))
    for path in beside[1:]:
        path.write_text("work of others")
    assert agent.hook(BEFORE, 2, "./build").allowed
    (agent.here / name).write_text("x")
    undo_it = agent.hook(AFTER, 2, "./build").message.splitlines()[1].strip()
    assert agent.run(undo_it, number=3) == Decision()
    assert [path.read_text() for path in beside] == ["one", *["work of others"] * 3]


# ------------------------------------------------------------------------ calls whose end is not reported


def test_a_call_that_was_interrupted_is_judged_before_the_next_one(agent: Agent) -> None:
    hold(agent)
    assert agent.hook(BEFORE, 1, "./build").allowed
    (agent.here / FILE).write_text("x")
    (agent.here / "new").write_text("x")
    said = agent.hook(BEFORE, 2, RAN)
    assert not said.allowed
    assert said.message.startswith("An earlier call of yours, whose end was not reported, changed what others hold")
    assert held(agent)["path:new"] == "claude-aaaa"
    assert agent.run(said.message.splitlines()[1].strip(), number=3).allowed
    assert (agent.here / FILE).read_text() == "one\ntwo\nthree\n"
    assert agent.run(RAN, number=4) == Decision()


def test_calls_of_one_agent_that_run_at_once_are_judged_once(agent: Agent) -> None:
    hold(agent)
    assert agent.hook(BEFORE, 1, "./build").allowed
    (agent.here / "a").write_text("x")
    assert agent.hook(BEFORE, 2, "./test").allowed
    (agent.here / FILE).write_text("x")
    first, second = agent.hook(AFTER, 1, "./build"), agent.hook(AFTER, 2, "./test")
    assert not first.allowed
    assert held(agent)["path:a"] == "claude-aaaa"
    assert f"{FILE}, held by bob" in first.message
    assert not second.allowed


def test_after_ten_minutes_an_interrupted_call_accuses_nobody(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(agent)
    assert agent.hook(BEFORE, 1, "./build").allowed
    (agent.here / FILE).write_text("bob, by his own editor")
    monkeypatch.setattr(guarding, "OPEN_NS", 0)
    said = agent.hook(BEFORE, 2, RAN)
    assert said.allowed
    assert "it is not known who changed them" in said.message
    agent.hook(AFTER, 2, RAN)
    assert agent.run(RAN, number=3) == Decision(), "it is told once"


@pytest.mark.parametrize("words", ["./serve &", "nohup ./serve", "(./watch; ./test) & sleep 1"])
def test_what_a_command_leaves_running_is_looked_for_before_the_next_one(agent: Agent, words: str) -> None:
    hold(agent)
    assert agent.hook(BEFORE, 1, words).allowed
    assert agent.hook(AFTER, 1, words) == Decision()
    (agent.here / FILE).write_text("from the background")
    (agent.here / "new").write_text("of a person, perhaps")
    said = agent.hook(BEFORE, 2, RAN)
    assert said.allowed
    assert "Only if something that it left running did, restore them" in said.message
    assert "path:new" not in held(agent)
    agent.hook(AFTER, 2, RAN)
    assert agent.hook(BEFORE, 3, RAN) == Decision(), "each change is told once"


def test_a_command_that_its_agent_puts_into_the_background_lasts() -> None:
    told = '{"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": '
    assert read("claude", told + '{"command": "./serve", "run_in_background": true}}').lasts
    assert not read("claude", told + '{"command": "./serve", "run_in_background": false}}').lasts


def test_without_a_background_what_happens_between_calls_is_nobodys(agent: Agent) -> None:
    hold(agent)
    assert agent.run("./nothing || true").allowed
    (agent.here / FILE).write_text("bob works on")
    assert agent.hook(BEFORE, 2, RAN) == Decision()


# --------------------------------------------------------------------------------- who is believed


def test_the_agent_learns_that_its_accuser_has_no_hooks(agent: Agent) -> None:
    """A person who edits a file that they hold, while the agent's call runs, must not lose that work."""
    hold(agent)
    said = agent.run(f"echo x > {FILE}", agent.here)
    assert said.message.endswith("if bob changed it meanwhile, leave it as it is.")
    bob = agent._replace(name="bbbb")
    assert bob.hook(BEFORE, 1, path=FREE).allowed
    bob.hook(AFTER, 1, path=FREE)
    said = agent.run(f"echo x > {FREE}", agent.here, number=2)
    assert not said.allowed
    assert "meanwhile" not in said.message


def test_too_many_untracked_files_are_told_once(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.guard.effects.picture.UNTRACKED_MOST", 2)
    for name in "abc":
        (agent.here / name).write_text("x")
    assert "changes of the rest are not seen" in agent.hook(BEFORE, 1, RAN).message
    agent.hook(AFTER, 1, RAN)
    assert agent.hook(BEFORE, 2, RAN) == Decision()


@pytest.mark.parametrize("name", ["search_and_replace", "get_or_create", "find-replace", "write_file", "readAndFix"])
def test_a_tool_of_a_server_that_sounds_like_reading_may_write(name: str) -> None:
    assert local.writes_unseen(HookCall("claude", BEFORE, "s", mcp=name))


@pytest.mark.parametrize("name", ["read_file", "list_directory", "search", "get_file_info", "query"])
def test_a_tool_of_a_server_that_reads_costs_nothing(name: str) -> None:
    assert not local.writes_unseen(HookCall("claude", BEFORE, "s", mcp=name))


def test_a_shell_tool_without_a_command_may_write_anything() -> None:
    told = '{"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": {"script": "rm x"}}'
    assert local.writes_unseen(read("claude", told))

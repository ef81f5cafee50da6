"""Each agent and CI system that Leasehold recognises: by an id that is unique to one run, below its own process."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from leasehold.config.identity import DESCENDED, GIVEN, NAMED, CommandIdentity, agents
from leasehold.requests import checks
from tests.config.test_identity_descent import CONTAINER, Tree

A, B = "0f3c91d2-5e17-4aa2-8e0e-8a1a3bd0f3c9", "0f3c91d2-5e18-7aa2-9e0e-8a1a3bd0f3c9"
TRACKED = {"RUNNER_TRACKING_ID": f"github_{A}", "GITHUB_RUN_ID": "812", "GITHUB_JOB": "build"}
UNTRACKED = {
    "RUNNER_TRACKING_ID": "0",
    "GITHUB_RUN_ID": "812",
    "GITHUB_RUN_ATTEMPT": "1",
    "GITHUB_JOB": "build",
    "RUNNER_NAME": "box-1",
}
JENKINS = {"BUILD_TAG": "jenkins-app-12", "NODE_NAME": "linux", "EXECUTOR_NUMBER": "3"}
CIRCLE = {"CIRCLE_WORKFLOW_JOB_ID": A, "CIRCLE_NODE_INDEX": "0", "CIRCLE_JOB": "test", "CIRCLE_BUILD_NUM": "55"}
AZURE = {"BUILD_BUILDID": "99", "SYSTEM_JOBID": A, "SYSTEM_JOBATTEMPT": "1", "SYSTEM_JOBNAME": "build"}
GITLAB = {"CI_JOB_ID": "4711", "CI_SERVER_HOST": "gitlab.example", "CI_JOB_NAME": "test"}
BUILDKITE = {"BUILDKITE_JOB_ID": A, "BUILDKITE_PIPELINE_SLUG": "app", "BUILDKITE_BUILD_NUMBER": "31"}


class Row(NamedTuple):
    """A run of a system, another run, the process that it runs below, and how its name begins."""

    label: str
    env: dict[str, str]
    other: dict[str, str]
    process: str
    begins: str


ROWS = [
    Row("claude", {"CLAUDE_CODE_SESSION_ID": A}, {"CLAUDE_CODE_SESSION_ID": B}, "claude", "claude-0f3c91d2-"),
    Row("codex", {"CODEX_THREAD_ID": A}, {"CODEX_THREAD_ID": B}, "codex", "codex-0f3c91d2-"),
    Row("cursor", {"CURSOR_CONVERSATION_ID": A}, {"CURSOR_CONVERSATION_ID": B}, "cursor-agent", "cursor-0f3c91d2-"),
    Row("cursor", {"CURSOR_CONVERSATION_ID": A}, {"CURSOR_CONVERSATION_ID": B}, "cursor", "cursor-0f3c91d2-"),
    Row("copilot", {"COPILOT_AGENT_SESSION_ID": A}, {"COPILOT_AGENT_SESSION_ID": B}, "copilot", "copilot-0f3c91d2-"),
    Row(
        "GitHub", TRACKED, {**TRACKED, "RUNNER_TRACKING_ID": f"github_{B}"}, "Runner.Worker", "GitHub run 812 / build #"
    ),
    Row("GitHub", UNTRACKED, {**UNTRACKED, "RUNNER_NAME": "box-2"}, "Runner.Worker", "GitHub run 812 / build #"),
    Row("GitLab", GITLAB, {**GITLAB, "CI_JOB_ID": "4712"}, "gitlab-runner", "GitLab job 4711 / test #"),
    Row("Buildkite", BUILDKITE, {**BUILDKITE, "BUILDKITE_JOB_ID": B}, "buildkite-agent", "Buildkite app 31 #"),
    Row("Jenkins", JENKINS, {**JENKINS, "EXECUTOR_NUMBER": "4"}, "agent.jar", "Jenkins jenkins-app-12 on linux #"),
    Row("CircleCI", CIRCLE, {**CIRCLE, "CIRCLE_NODE_INDEX": "1"}, "circleci-agent", "CircleCI test 55 #"),
    Row("Azure", AZURE, {**AZURE, "BUILD_BUILDID": "100"}, "Agent.Worker", "Azure build 99 / build #"),
]
MARKS_ONLY = [
    ("claude", {"CLAUDECODE": "1"}),
    ("gemini", {"GEMINI_CLI": "1"}),
    ("opencode", {"OPENCODE": "1", "OPENCODE_PID": "12"}),
    ("cursor-agent", {"CURSOR_AGENT": "1", "CURSOR_TRACE_ID": A}),
    ("Runner.Worker", {"GITHUB_ACTIONS": "true", "GITHUB_JOB": "build", "RUNNER_TRACKING_ID": ""}),
]


def asker(env: dict[str, str], *processes: str, place: str = "") -> CommandIdentity:
    """A command below these processes, the outermost first, each call a session of its own."""
    tree = Tree(place) if place else Tree()
    parent = 1
    for number, name in enumerate(processes, 10):
        parent = tree.add(number, parent, name)
    call = tree.add(50, parent, "bash", "-c", "…", leads=True)
    return CommandIdentity(None, {"USER": "ada", **env}, tree.command(call))


def test_every_row_has_a_test() -> None:
    tested = {row.label for row in ROWS} | {system for system, _ in MARKS_ONLY}
    assert {system.label for system in agents.SYSTEMS} <= tested


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.label}-{row.process}")
def test_a_run_is_named_by_its_id_and_no_other_run_is(row: Row) -> None:
    one = asker(row.env, row.process)
    assert (one.layer, one.holder.startswith(row.begins)) == (NAMED, True), one.holder
    assert checks.text(one.holder, "holder", 256) == one.holder
    assert one.holder == asker(row.env, "bash", row.process, "bash").holder
    assert one.holder != asker(row.other, row.process).holder
    assert row.label in one.explain()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.label}-{row.process}")
def test_an_id_that_outlived_its_agent_names_nobody(row: Row) -> None:
    for above in (["tmux: server"], ["gnome-terminal-", "zsh"], ["sshd", "bash"], []):
        left = asker(row.env, *above)
        assert left.layer == DESCENDED
        assert left.holder.startswith("ada@")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.label}-{row.process}")
def test_where_the_agent_may_be_hidden_its_id_counts_unless_a_multiplexer_is_between(row: Row) -> None:
    inside = Tree(CONTAINER)
    inside.end(1)
    sh = inside.add(7, 0, "sh", leads=True)
    assert CommandIdentity(None, row.env, inside.command(sh)).holder.startswith(row.begins)
    for first in ("bwrap", "apply-seccomp", "tini"):
        init = inside.add(1, 0, first, leads=True)
        assert CommandIdentity(None, row.env, inside.command(inside.add(2, init, "bash"))).layer == NAMED, first
    tmux = inside.add(9, inside.add(8, 1, "tmux: server", leads=True), "zsh", leads=True)
    assert CommandIdentity(None, row.env, inside.command(tmux)).layer == DESCENDED


@pytest.mark.parametrize(("process", "env"), MARKS_ONLY)
def test_a_mark_names_nobody_and_the_agents_process_does(process: str, env: dict[str, str]) -> None:
    one = asker(env, process)
    assert one.layer == DESCENDED
    assert f", {process} 10" in one.holder
    assert one.is_agent


def test_of_nested_agents_the_nearest_one_counts() -> None:
    env = {"CLAUDE_CODE_SESSION_ID": A, "CODEX_THREAD_ID": B}
    assert asker(env, "claude", "codex").holder.startswith("codex-")
    assert asker(env, "codex", "claude").holder.startswith("claude-")
    assert asker(env, "Runner.Worker", "claude").holder.startswith("claude-")
    assert asker(env, "claude", "gemini").holder.startswith("ada@"), "its parent's id is not its own"


def test_nested_agents_that_are_hidden_are_told_apart_from_their_parent() -> None:
    tree = Tree(CONTAINER)
    tree.end(1)
    line = tree.command(tree.add(7, 0, "sh", leads=True))
    outer = CommandIdentity(None, {"CLAUDE_CODE_SESSION_ID": A}, line).holder
    assert outer != CommandIdentity(None, {"CLAUDE_CODE_SESSION_ID": A, "CODEX_THREAD_ID": B}, line).holder


def test_an_agent_that_is_the_first_process_of_a_container_hides_nobody() -> None:
    tree = Tree(CONTAINER)
    tree.add(1, 0, "gemini", leads=True)
    line = tree.command(tree.add(7, 1, "sh", leads=True))
    assert CommandIdentity(None, {"CLAUDE_CODE_SESSION_ID": A}, line).layer == DESCENDED, (
        "its parent's id is not its own"
    )


def test_a_name_that_was_given_comes_first() -> None:
    tree = Tree()
    line = tree.command(tree.add(10, 1, "claude"))
    given = CommandIdentity("coder-3", {"CLAUDE_CODE_SESSION_ID": A}, line)
    assert (given.layer, given.holder, given.explain()) == (GIVEN, "coder-3", "as it was given")


@pytest.mark.parametrize("process", sorted(agents.OF_ONE_RUN))
def test_an_agent_that_cleared_its_environment_is_one_by_its_process(process: str) -> None:
    assert asker({}, process).is_agent
    assert asker({}, process, "sudo", "bash").is_agent
    assert not asker({}, process, "tmux: server", "bash").is_agent


@pytest.mark.parametrize("system", agents.SYSTEMS, ids=lambda each: each.label)
def test_a_recognised_agent_is_one_whatever_its_name_unless_its_marks_are_stale(system: agents.System) -> None:
    for variable in system.marks:
        tree = Tree()
        line = tree.command(tree.add(10, 1, "bash", leads=True))
        assert CommandIdentity("ada", {variable: "1"}, line).is_agent
        assert not asker({variable: "1"}, "tmux: server").is_agent
    assert not asker({}, "bash").is_agent


def test_the_name_of_an_agent_is_the_one_that_its_hooks_have() -> None:
    from leasehold.guard.editors.hook import holder_of
    from leasehold.guard.editors.payloads import HookCall

    occasion = HookCall("claude", "before", A)
    assert asker({"CLAUDE_CODE_SESSION_ID": A}, "claude").holder == holder_of(occasion)


@pytest.mark.parametrize("bad", ["a\x1b[31m", "ü" * 200, "a b", "x" * 300])
def test_whatever_the_environment_says_the_name_is_valid(bad: str) -> None:
    for env in ({"CLAUDE_CODE_SESSION_ID": bad}, {**TRACKED, "GITHUB_JOB": bad}):
        holder = asker(env, "Runner.Worker" if "GITHUB_JOB" in env else "claude").holder
        assert checks.text(holder, "holder", 256) == holder
        assert holder.isprintable()


@pytest.mark.parametrize("mark", agents.MARKS_OF_OTHERS)
def test_an_agent_without_a_row_is_one_by_its_mark(mark: str) -> None:
    name, _, value = mark.partition("=")
    one = asker({name: value or "1"}, "harness")
    assert (one.is_agent, one.layer) == (True, DESCENDED)
    assert not asker({name: ""}, "harness").is_agent
    assert not asker({name: value or "1"}, "tmux: server", "bash").is_agent
    assert asker({name: "another"}, "harness").is_agent == (not value)

"""`leasehold doctor` runs each installed hook as its agent would, and says whether it refuses what it should."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from leasehold.guard.install.targets import TARGETS
from tests.guard.test_install import Project

if TYPE_CHECKING:
    from pathlib import Path


def found(project: Project, agent: str) -> tuple[bool | None, str]:
    told = json.loads(project.run("doctor", "--json", code=None).splitlines()[0])
    findings = told["data" if told["ok"] else "error"]["findings"]
    (finding,) = [each for each in findings if each["topic"] == f"{agent} hook"]
    return finding["ok"], finding["text"]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    tools = tmp_path / "bin"
    tools.mkdir()
    program = tools / "leasehold"
    program.write_text(f'#!/bin/sh\nexec {made.command} "$@"\n')
    program.chmod(0o755)
    made.env["PATH"] = f"{tools}:{made.env['PATH']}"
    return made


@pytest.mark.parametrize("agent", TARGETS)
def test_doctor_proves_that_the_hooks_of_each_agent_fire(project: Project, agent: str) -> None:
    project.run("install", agent)
    is_well, text = found(project, agent)
    assert is_well, text
    assert text.startswith("fires: ")
    assert "No live leases" in project.run("list"), "the probe is on a store of its own"


@pytest.mark.parametrize(
    ("agent", "event"), [("claude", "PostToolUse"), ("cursor", "postToolUse"), ("codex", "SessionEnd")]
)
def test_doctor_names_the_events_for_which_no_hook_is_installed(project: Project, agent: str, event: str) -> None:
    project.run("install", agent)
    path = project.root / TARGETS[agent].hooks.project
    settings = json.loads(path.read_text())
    del settings["hooks"][event]
    path.write_text(json.dumps(settings))
    assert found(project, agent) == (
        False,
        f"{path}: has no hook of ours for {event}, so some changes go unseen: leasehold install {agent}",
    )


def test_doctor_names_a_hook_that_is_called_for_fewer_tools(project: Project) -> None:
    project.run("install", "claude")
    path = project.root / TARGETS["claude"].hooks.project
    settings = json.loads(path.read_text())
    settings["hooks"]["PreToolUse"][0]["matcher"] = "Edit"
    path.write_text(json.dumps(settings))
    assert "no hook of ours for PreToolUse, so" in found(project, "claude")[1]


def test_doctor_says_whether_the_agent_itself_has_ever_called_its_hook(project: Project) -> None:
    project.run("install", "codex")
    assert "no session of Codex has called it on this machine yet: trust it in /hooks" in found(project, "codex")[1]
    told = {"session_id": "s", "cwd": str(project.root), "hook_event_name": "PreToolUse", "tool_name": "Bash"}
    project.run("hook", "codex", feed=json.dumps(told | {"tool_use_id": "1", "tool_input": {"command": "make"}}))
    assert "a session of Codex last began to call it at 20" in found(project, "codex")[1]


def test_doctor_says_that_a_hook_does_not_notice_what_a_command_changes(project: Project) -> None:
    project.run("install", "claude")
    program = project.root.parent / "bin" / "leasehold"
    deaf = 'told=$(cat)\ncase "$told" in *PostToolUse*) exit 0;; esac\nprintf %s "$told" |'
    program.write_text(f'#!/bin/sh\n{deaf} {project.command} "$@"\n')
    is_well, text = found(project, "claude")
    assert is_well is False
    assert text.endswith("refuses an edit, and does not notice what a command changes")


def test_doctor_says_what_the_hooks_of_a_server_do_not_see(project: Project) -> None:
    project.run("install", "claude", "--http", "http://127.0.0.1:7420")
    is_well, text = found(project, "claude")
    assert is_well is None
    assert "not what a command changes" in text


@pytest.mark.parametrize("agent", ["codex", "windsurf"])
def test_doctor_says_that_a_hook_cannot_be_called_or_refuses_nothing(project: Project, agent: str) -> None:
    project.run("install", agent, "--policy", "off")
    assert found(project, agent)[0] is None
    path = project.root / TARGETS[agent].hooks.project
    path.write_text(path.read_text().replace("leasehold hook", "leasehold-that-is-gone hook"))
    is_well, text = found(project, agent)
    assert is_well is False
    assert str(path) in text


@pytest.mark.parametrize("command", ["touch ran; leasehold hook cursor", "sh -c 'touch ran' leasehold hook", "'"])
def test_doctor_runs_no_other_program_that_a_checkout_names(project: Project, command: str) -> None:
    path = project.root / ".cursor" / "hooks.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"hooks": {"preToolUse": [{"command": f"{command} # leasehold hook x"}]}}))
    assert found(project, "cursor")[0] is False
    assert not (project.root / "ran").exists()

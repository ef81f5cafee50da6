"""Each agent's payloads, in tests/guard/adapters with their source and date, are read and answered as it documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasehold.guard.editors import answers, payloads
from leasehold.guard.editors.adapters import ADAPTERS, END_OF_AGENT, WINDSURF
from leasehold.guard.editors.decision import Decision
from tests.guard.test_editor_hooks import Project

if TYPE_CHECKING:
    from leasehold.guard.editors.payloads import HookCall

FIXTURES = {path.stem: json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "adapters").glob("*"))}
PAYLOADS = [(name, each) for name, fixture in FIXTURES.items() for each in fixture["payloads"]]
EACH = pytest.mark.parametrize(
    ("agent", "payload"), PAYLOADS, ids=[f"{name}: {each['what']}" for name, each in PAYLOADS]
)
NOTHING: dict[str, Any] = {"agent": "", "paths": (), "command": "", "lock_tool": "", "mcp": "", "is_heard": True}
SAID = ("denial", "feedback", "named")
"""What a fixture says of the answer; the rest is what is read."""


def call_of(agent: str, payload: dict[str, Any]) -> HookCall:
    return payloads.read(agent, json.dumps(payload["input"]))


def at(answer: Any, path: str) -> Any:  # noqa: ANN401 (any JSON)
    for name in path.split("."):
        answer = answer[name]
    return answer


def test_each_agent_has_payloads_of_each_of_its_events_with_source_and_date() -> None:
    assert set(FIXTURES) == set(ADAPTERS)
    for name, row in ADAPTERS.items():
        assert FIXTURES[name]["source"]
        assert FIXTURES[name]["date"]
        assert FIXTURES[name]["agent"] == row.title
        seen = {each["input"].get(row.event[0]) for each in FIXTURES[name]["payloads"]}
        assert set(row.moments) <= seen


@EACH
def test_a_payload_is_read_as_documented(agent: str, payload: dict[str, Any]) -> None:
    call = call_of(agent, payload)
    expected = NOTHING | {name: each for name, each in payload["reads"].items() if name not in SAID}
    for name, value in expected.items():
        found = getattr(call, name)
        assert (list(found) if isinstance(found, tuple) else found) == (list(value) if value == () else value), name
    assert call.moment != END_OF_AGENT


@EACH
def test_what_the_model_must_know_is_where_it_reads_it(agent: str, payload: dict[str, Any]) -> None:
    call, reads = call_of(agent, payload), payload["reads"]
    told = answers.answer(call, Decision(allowed=False, message="Not so."))
    if reads.get("denial"):
        denied = ADAPTERS[agent].answer == WINDSURF or "Not so." in json.dumps(told)
        assert denied
        assert told is None or any(word in json.dumps(told) for word in ('"deny"',))
    for path in reads.get("feedback", ()):
        assert at(told, path) == "Not so."
    if "named" in reads:
        named = answers.answer(call, Decision(agent_id="me"), {"resource": "issue:42"})
        assert at(named, reads["named"]) == "me"


@pytest.mark.parametrize("payload", [each for name, each in PAYLOADS if name in ("cursor", "copilot")])
def test_hooks_of_claude_code_that_another_agent_runs_take_nothing(payload: dict[str, Any]) -> None:
    """Cursor, Copilot and VS Code also run those in .claude/settings.json: an agent with two names is in its own way.

    Sources: cursor.com/docs/reference/third-party-hooks; herdrdev/herdr#2832 (what Cursor sends them); github/docs
    content/copilot/reference/hooks-reference.md; seen in November 2026.
    """
    call = call_of("claude", payload)
    assert (call.paths, call.command, call.mcp, call.lock_tool) == ((), "", "", "")


def _first(agent: str, moment: str, what: str) -> dict[str, Any]:
    found = next(
        each
        for each in FIXTURES[agent]["payloads"]
        if each["reads"]["moment"] == moment and each["reads"].get(what) and not each["reads"].get("agent")
    )
    told: dict[str, Any] = json.loads(json.dumps(found["input"]))
    return told


def _by(agent: str, given: dict[str, Any], session: str, root: Path) -> dict[str, Any]:
    """Return this payload as a session in this folder would send it."""
    text = json.dumps(given).replace("/repo", str(root))
    for field in ADAPTERS[agent].session:
        if field in given:
            text = text.replace(json.dumps(given[field]), json.dumps(session))
    told: dict[str, Any] = json.loads(text)
    return told


def _with(given: Any, old: str, new: str) -> Any:  # noqa: ANN401 (any JSON)
    return json.loads(json.dumps(given).replace(f".{old}", f".{new}"))


@pytest.mark.parametrize("agent", ADAPTERS)
def test_the_second_agent_that_edits_a_file_is_denied_until_the_first_has_ended(tmp_path: Path, agent: str) -> None:
    project = Project(tmp_path)
    edit = _first(agent, "before", "denial")
    code = 2 if ADAPTERS[agent].answer == WINDSURF else 0
    assert project.hook(agent, _by(agent, edit, "one", project.root)) is None
    denied = project.hook(agent, _by(agent, edit, "two", project.root), code=code)
    assert code == 2 or f"held by {agent}-one" in json.dumps(denied)
    ends = [each["input"] for each in FIXTURES[agent]["payloads"] if each["reads"]["moment"] == "end"]
    for end in ends[-1:]:
        assert project.hook(agent, _by(agent, end, "one", project.root)) is None
        assert project.hook(agent, _by(agent, edit, "two", project.root)) is None


@pytest.mark.parametrize("agent", ADAPTERS)
def test_a_command_that_changed_what_another_agent_holds_is_told_to_the_model(tmp_path: Path, agent: str) -> None:
    project = Project(tmp_path)
    held = project.root / "a.py"
    held.write_text("theirs\n")
    edit = _first(agent, "before", "denial")
    assert project.hook(agent, _by(agent, edit, "one", project.root)) is None
    (name,) = [name for name in project.holders() if name.endswith("a.py")]
    target = project.root / name.removeprefix("path:")
    target.write_text("theirs\n")
    done = json.loads(json.dumps(edit).replace("Pre", "Post").replace("pre", "post").replace("Before", "After"))
    assert project.hook(agent, _by(agent, _with(done, "before", "after"), "one", project.root)) is None
    before, after = (
        _by(agent, _first(agent, moment, "command"), "two", project.root) for moment in ("before", "after")
    )
    assert project.hook(agent, before) is None
    target.write_text("trespass\n")
    told = project.hook(agent, after)
    is_heard = call_of(agent, {"input": after}).is_heard
    assert (told is not None) == is_heard
    if told is None:  # it reads nothing after a tool: the next hook that it reads says it, once
        code = 2 if ADAPTERS[agent].answer == WINDSURF else 0
        told = project.hook(agent, before, code=code)
        assert project.hook(agent, before) is None
    if told is not None:
        assert "changed what others hold" in json.dumps(told)

"""Inputs of editors' hooks, written from their documented shapes, go through `leasehold hook`; answers are exact."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.guard.editors import occasions
from leasehold.guard.editors.occasions import AFTER, BEFORE, END, OTHER, START
from leasehold.guard.editors.shell import written
from tests.surfaces.serving import create_key, serving

if TYPE_CHECKING:
    from pathlib import Path


class Project:
    """A repository in which agents edit through their hooks, each call a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "app"
        (self.root / "src").mkdir(parents=True)
        subprocess.run(["git", "init", "--quiet", str(self.root)], check=True)
        self.home = folder / "home"
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.env = {**kept, "HOME": str(self.home), "LEASEHOLD_URL": f"sqlite:///{folder / 'locks.db'}"}

    def hook(self, editor: str, given: object, *words: str, code: int = 0) -> Any:  # noqa: ANN401 (whatever it says)
        text = given if isinstance(given, str) else json.dumps(given)
        done = subprocess.run(
            [sys.executable, "-m", "leasehold.cli", "hook", editor, *words],
            input=text,
            capture_output=True,
            text=True,
            env=self.env,
            cwd=self.root,
            check=False,
        )
        assert done.returncode == code, done
        assert "Traceback" not in done.stderr
        return json.loads(done.stdout) if done.stdout else None

    def claude(self, session: str, event: str, tool: str = "", agent: str = "", **tool_input: str) -> dict[str, Any]:
        given: dict[str, Any] = {
            "session_id": session,
            "transcript_path": "/nowhere/transcript.jsonl",
            "cwd": str(self.root),
            "permission_mode": "default",
            "hook_event_name": event,
        }
        if tool:
            given |= {"tool_name": tool, "tool_input": tool_input, "tool_use_id": "toolu_01"}
        return given | ({"agent_id": agent, "agent_type": "general"} if agent else {})

    def edit(self, session: str, path: str, agent: str = "") -> dict[str, Any]:
        return self.claude(
            session, "PreToolUse", "Edit", agent, file_path=str(self.root / path), old_string="a", new_string="b"
        )

    def locks(self) -> leasehold.Locks:
        return leasehold.connect(self.env["LEASEHOLD_URL"], holder="somebody")

    def holders(self) -> dict[str, str]:
        with self.locks() as locks:
            leases = locks.list()
            assert not isinstance(leases, leasehold.Refused)
            return {name: lease.holder for lease in leases for name in lease.resources}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def reason(answer: Any) -> str:  # noqa: ANN401 (what the editor was told)
    told = answer["hookSpecificOutput"]
    assert told["hookEventName"] == "PreToolUse"
    assert told["permissionDecision"] == "deny"
    return str(told["permissionDecisionReason"])


def test_the_first_edit_takes_the_lease_and_says_nothing(project: Project) -> None:
    assert project.hook("claude", project.edit("aaaa", "src/a.py")) is None
    assert project.hook("claude", project.edit("aaaa", "src/a.py")) is None
    assert project.holders() == {"path:src/a.py": "claude-aaaa"}


def test_a_second_agent_is_denied_and_allowed_after_the_first_has_ended(project: Project) -> None:
    project.hook("claude", project.edit("aaaa", "src/a.py"))
    denied = reason(project.hook("claude", project.edit("bbbb", "src/a.py")))
    assert denied.startswith("path:src/a.py is held by claude-aaaa (editing), for another ")
    assert "Do not change it" in denied
    assert project.hook("claude", project.edit("bbbb", "src/b.py")) is None
    assert project.hook("claude", project.claude("aaaa", "SessionEnd")) is None
    assert project.hook("claude", project.edit("bbbb", "src/a.py")) is None
    assert project.holders() == {"path:src/a.py": "claude-bbbb", "path:src/b.py": "claude-bbbb"}


def test_a_subagent_is_an_agent_of_its_own_and_releases_at_its_end(project: Project) -> None:
    project.hook("claude", project.edit("aaaa", "src/a.py", agent="sub1"))
    assert project.holders() == {"path:src/a.py": "claude-aaaa.sub1"}
    assert "held by claude-aaaa.sub1" in reason(project.hook("claude", project.edit("aaaa", "src/a.py", agent="sub2")))
    project.hook("claude", project.claude("aaaa", "SubagentStop", agent="sub1"))
    assert project.holders() == {}


def test_after_a_tool_the_leases_have_a_full_ttl_again(project: Project) -> None:
    project.hook("claude", project.edit("aaaa", "src/a.py"))
    with project.locks() as locks:
        before = locks.list()
        project.hook("claude", project.claude("aaaa", "PostToolUse", "Bash", command="ls"))
        after = locks.list()
    assert not isinstance(before, leasehold.Refused)
    assert not isinstance(after, leasehold.Refused)
    assert after[0].expires_at > before[0].expires_at
    assert after[0].fence == before[0].fence


@pytest.mark.parametrize(
    ("policy", "is_allowed", "is_told"),
    [("off", True, False), ("warn", True, True), ("require", False, True), ("require-own", False, True)],
)
def test_the_policy_says_how_strict_it_is(project: Project, policy: str, is_allowed: bool, is_told: bool) -> None:
    project.hook("claude", project.edit("aaaa", "src/a.py"))
    answer = project.hook("claude", project.edit("bbbb", "src/a.py"), "--policy", policy)
    assert (answer is not None) == is_told
    if answer is not None:
        assert ("permissionDecision" not in answer["hookSpecificOutput"]) == is_allowed
        assert ("systemMessage" in answer) == is_allowed


def test_who_only_looks_must_hold_it_where_the_policy_says_so(project: Project) -> None:
    words = ("--look-only", "--policy")
    assert project.hook("claude", project.edit("aaaa", "src/a.py"), *words, "require") is None
    assert "is not held by you" in reason(
        project.hook("claude", project.edit("aaaa", "src/a.py"), *words, "require-own")
    )
    assert project.holders() == {}


def test_the_policy_of_the_project_counts(project: Project) -> None:
    project.hook("claude", project.edit("aaaa", "src/a.py"))
    (project.root / "leasehold.toml").write_text('lock_policy = "off"\n')
    assert project.hook("claude", project.edit("bbbb", "src/a.py")) is None


def test_reads_and_files_outside_are_nobodys_concern(project: Project, tmp_path: Path) -> None:
    project.hook("claude", project.edit("aaaa", "src/a.py"))
    read = project.claude("bbbb", "PreToolUse", "Read", file_path=str(project.root / "src/a.py"))
    assert project.hook("claude", read) is None
    outside = project.claude("bbbb", "PreToolUse", "Write", file_path=str(tmp_path / "notes.txt"), content="x")
    assert project.hook("claude", outside) is None
    assert project.holders() == {"path:src/a.py": "claude-aaaa"}


def test_a_command_that_plainly_writes_is_checked_and_takes_nothing(project: Project) -> None:
    project.hook("claude", project.edit("aaaa", "src/a.py"))
    for command in ("echo x > src/a.py", "sed -i s/a/b/ src/a.py", "rm -rf src", "git checkout -- src/a.py"):
        assert "claude-aaaa" in reason(
            project.hook("claude", project.claude("bbbb", "PreToolUse", "Bash", command=command))
        )
    for command in ("cat src/a.py", "echo x > src/c.py", "sed s/a/b/ src/a.py"):
        assert project.hook("claude", project.claude("bbbb", "PreToolUse", "Bash", command=command)) is None
    own = project.claude("aaaa", "PreToolUse", "Bash", command="echo x > src/a.py")
    assert project.hook("claude", own) is None
    assert project.holders() == {"path:src/a.py": "claude-aaaa"}


def test_our_own_tools_are_told_who_calls(project: Project) -> None:
    given = project.claude("aaaa", "PreToolUse", "mcp__leasehold__acquire_lock", resource="path:src/a.py")
    told = project.hook("claude", given)["hookSpecificOutput"]
    assert told["updatedInput"] == {"resource": "path:src/a.py", "agent_id": "claude-aaaa"}
    with project.locks() as locks:  # as the tool then does
        assert isinstance(locks.acquire("path:src/a.py", ttl=60, holder="claude-aaaa"), leasehold.Granted)
    assert project.hook("claude", project.edit("aaaa", "src/a.py")) is None
    assert "held by claude-aaaa" in reason(project.hook("claude", project.edit("bbbb", "src/a.py")))
    named = project.claude("aaaa", "PreToolUse", "mcp__leasehold__acquire_lock", resource="x", agent_id="me")
    assert project.hook("claude", named) is None


def test_the_commands_of_an_agent_act_under_its_name(project: Project, tmp_path: Path) -> None:
    handed = tmp_path / "env.sh"
    project.env["CLAUDE_ENV_FILE"] = str(handed)
    assert project.hook("claude", project.claude("aaaa", "SessionStart") | {"source": "startup"}) is None
    assert handed.read_text() == "export LEASEHOLD_HOLDER=claude-aaaa\n"


PATCH = """*** Begin Patch
*** Update File: src/a.py
@@
-old
+new
*** Add File: src/new.py
+hello
*** End Patch
"""


def test_codex_edits_by_patches(project: Project) -> None:
    given = {"session_id": "cccc", "cwd": str(project.root), "hook_event_name": "PreToolUse", "model": "m"}
    given |= {"turn_id": "t", "tool_name": "apply_patch", "tool_input": {"command": PATCH}}  # type: ignore[dict-item]
    assert project.hook("codex", given) is None
    assert project.holders() == {"path:src/a.py": "codex-cccc", "path:src/new.py": "codex-cccc"}
    denied = project.hook("codex", {**given, "session_id": "dddd"})
    assert "held by codex-cccc" in reason(denied)
    assert set(denied) == {"hookSpecificOutput"}  # its schema allows nothing that it does not know
    assert project.hook("codex", {**given, "hook_event_name": "Stop"}) is None
    assert project.holders() == {}


def test_cursor_is_answered_in_its_own_words(project: Project) -> None:
    common = {"conversation_id": "eeee", "generation_id": "g", "workspace_roots": [str(project.root)]}
    write = {"tool_name": "Write", "tool_input": {"file_path": str(project.root / "src/a.py"), "content": "x"}}
    assert project.hook("cursor", {**common, "hook_event_name": "preToolUse", **write}) is None
    other = {**common, "conversation_id": "ffff"}
    denied = project.hook("cursor", {**other, "hook_event_name": "preToolUse", **write})
    assert set(denied) == {"permission", "user_message", "agent_message"}
    assert denied["permission"] == "deny"
    assert "held by cursor-eeee" in denied["agent_message"]
    shell = {"hook_event_name": "beforeShellExecution", "command": "rm src/a.py", "cwd": str(project.root)}
    assert project.hook("cursor", {**other, **shell})["permission"] == "deny"
    assert project.hook("cursor", {**common, "hook_event_name": "afterFileEdit"}) is None
    assert project.hook("cursor", {**common, "hook_event_name": "sessionEnd", "reason": "completed"}) is None
    assert project.holders() == {}


def test_locks_that_cannot_be_asked_open_or_close_as_set_and_say_so(project: Project) -> None:
    project.env["LEASEHOLD_URL"] = "sqlite:///dev/null/nothing.db"
    opened = project.hook("claude", project.edit("aaaa", "src/a.py"))
    assert "not protected" in opened["systemMessage"]
    closed = project.hook("claude", project.edit("aaaa", "src/a.py"), "--on-failure", "closed")
    assert "nothing may be changed" in reason(closed)


@pytest.mark.parametrize("text", ["", "null", "[]", "{", '"x"', "{}", '{"session_id": 5}', "\x00", "[" * 2000])
def test_input_that_is_no_hooks_changes_nothing(project: Project, text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "leasehold.cli", "hook", "claude"],
        input=text,
        capture_output=True,
        text=True,
        env=project.env,
        cwd=project.root,
        check=False,
    )
    assert done.returncode in (0, 2)
    assert "Traceback" not in done.stderr
    assert project.holders() == {}


def test_an_editor_that_nobody_knows_is_refused(project: Project) -> None:
    project.hook("emacs", {}, code=2)


# ------------------------------------------------------------------------------------------ over HTTP


def test_over_http_no_process_starts_and_the_answers_are_the_same(project: Project, tmp_path: Path) -> None:
    asked = f"/v1/hooks/claude?policy=require&root={project.root}"
    with serving(tmp_path) as server:
        assert server.ask("POST", asked, project.edit("aaaa", "src/a.py")).json == {}
        denied = server.ask("POST", asked, project.edit("bbbb", "src/a.py")).json
        assert "held by claude-aaaa" in reason(denied)
        assert server.ask("POST", asked, project.claude("aaaa", "PostToolUse", "Bash", command="ls")).json == {}
        assert server.ask("POST", asked, project.claude("aaaa", "SessionEnd")).json == {}
        assert server.ask("POST", asked, project.edit("bbbb", "src/a.py")).json == {}
        assert server.ask("POST", asked, b"null").code == "invalid"
        assert server.ask("POST", "/v1/hooks/claude?policy=maybe", project.edit("a", "b")).code == "invalid"


def test_over_http_a_viewer_is_not_let_through(project: Project, tmp_path: Path) -> None:
    key = create_key(tmp_path, "viewer")
    with serving(tmp_path) as server:
        assert server.ask("POST", "/v1/hooks/claude", project.edit("aaaa", "src/a.py")).code == "unauthenticated"
        assert server.ask("POST", "/v1/hooks/claude", project.edit("a", "b"), key=key).code == "not_allowed"


# -------------------------------------------------------------------------------------- what is plainly written

WRITES = {
    "echo hi > a.txt": ("a.txt",),
    "echo hi >> 'a b.txt'; ls": ("a b.txt",),
    "cat x | tee a.txt b.txt": ("a.txt", "b.txt"),
    "sed -i.bak -e s/a/b/ x y": ("x", "y"),
    "sed -i s/a/b/ x": ("x",),
    "sed -n p x": (),
    "mv a b && rm -f c": ("a", "b", "c"),
    "cp -r a b c": ("c",),
    "git checkout -- x y": ("x", "y"),
    "git checkout main": (),
    "git restore x": ("x",),
    "FOO=1 sudo rm x": ("x",),
    "make 2>&1 > /dev/null": (),
    "cat > out <<EOF\nrm x\nEOF": ("out", "x"),
    "rm $FILES *.o": (),
    "echo 'unclosed": (),
    "": (),
}


@pytest.mark.parametrize("command", WRITES)
def test_what_a_command_plainly_writes(command: str) -> None:
    assert written(command) == WRITES[command]


MOMENTS = [
    ("claude", {"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": {"file_path": "/x"}}, BEFORE),
    ("claude", {"hook_event_name": "PostToolUse"}, AFTER),
    ("claude", {"hook_event_name": "Stop"}, OTHER),
    ("claude", {"hook_event_name": "SessionEnd"}, END),
    ("claude", {"hook_event_name": "SubagentStop"}, OTHER),
    ("codex", {"hook_event_name": "Stop"}, END),
    ("codex", {"hook_event_name": "SessionStart"}, START),
    ("cursor", {"hook_event_name": "stop"}, OTHER),
    ("cursor", {"hook_event_name": "subagentStop", "subagent_id": "s"}, END),
]


@pytest.mark.parametrize(("editor", "given", "moment"), MOMENTS)
def test_when_a_hook_is_called(editor: str, given: dict[str, Any], moment: str) -> None:
    read = occasions.read(editor, json.dumps({"session_id": "s", **given}))
    assert read.moment == moment
    assert read == occasions.of(editor, occasions.flatten({"session_id": "s", **given}))

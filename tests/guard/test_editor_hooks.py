"""Inputs of editors' hooks, written from their documented shapes, go through `leasehold hook`; answers are exact."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.guard.checking import LONGEST, Below
from leasehold.guard.editors import payloads as occasions
from leasehold.guard.editors.adapters import AFTER, BEFORE, END, OTHER, START
from leasehold.guard.editors.shell import MOST, written
from leasehold.guard.editors.shell_words import TooMuch
from tests.kit.serving import create_key, serving
from tests.kit.shell import SOURCE

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
        ours = {"HOME": str(self.home), "PYTHONPATH": str(SOURCE)}
        self.env = {**kept, **ours, "LEASEHOLD_URL": f"sqlite:///{folder / 'locks.db'}"}

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

    def claude(self, session: str, event: str, tool: str = "", agent: str = "", **tool_input: Any) -> dict[str, Any]:
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

    def plans(self) -> list[tuple[str, tuple[str, ...]]]:
        with self.locks() as locks:
            plans = locks.plans()
            assert not isinstance(plans, leasehold.Refused)
            return [(plan.holder, plan.resources) for plan in plans]


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


def test_a_lease_that_a_session_renews_is_told_without_an_end(project: Project) -> None:
    with project.locks() as locks:
        begun = locks.start_session(ttl=600)
        assert isinstance(begun, leasehold.SessionStarted)
        assert locks.acquire("path:src/a.py", ttl=600, session=begun.secret)
        denied = reason(project.hook("claude", project.edit("bbbb", "src/a.py")))
    assert "path:src/a.py is held by somebody, renewed while its session lives" in denied
    assert "at most" not in denied


def test_a_second_agent_is_denied_and_allowed_after_the_first_has_ended(project: Project) -> None:
    project.hook("claude", project.edit("aaaa", "src/a.py"))
    denied = reason(project.hook("claude", project.edit("bbbb", "src/a.py")))
    assert denied.startswith("path:src/a.py is held by claude-aaaa (editing), renewed while its session lives")
    assert "Do not change it" in denied
    assert project.hook("claude", project.edit("bbbb", "src/b.py")) is None
    assert project.hook("claude", project.claude("aaaa", "SessionEnd")) is None
    assert project.hook("claude", project.edit("bbbb", "src/a.py")) is None
    assert project.holders() == {"path:src/a.py": "claude-bbbb", "path:src/b.py": "claude-bbbb"}


@pytest.mark.parametrize("how", ["variable", "checkout"])
def test_a_name_that_two_agents_share_gives_neither_what_the_other_edits(project: Project, how: str) -> None:
    if how == "variable":
        project.env["LEASEHOLD_HOLDER"] = "coder"
    else:
        (project.root / "leasehold.toml").write_text('holder = "coder"')
    assert project.hook("claude", project.edit("aaaa", "src/a.py")) is None
    assert project.hook("claude", project.edit("aaaa", "src/a.py")) is None
    assert "held by coder" in reason(project.hook("claude", project.edit("bbbb", "src/a.py")))
    shell = project.claude("bbbb", "PreToolUse", "Bash", command="echo > src/a.py")
    assert "held by coder" in reason(project.hook("claude", shell))
    assert project.hook("claude", {**shell, "session_id": "aaaa"}) is None
    with leasehold.connect(project.env["LEASEHOLD_URL"], holder="coder") as locks:
        assert locks.acquire("path:src/b.py", ttl=60)
    assert project.hook("claude", project.edit("aaaa", "src/b.py")) is None, "taken by other means in its name"


def test_a_name_that_two_agents_share_lets_neither_commit_the_others_edit(project: Project, tmp_path: Path) -> None:
    project.env["LEASEHOLD_HOLDER"] = "coder"
    assert project.hook("claude", project.edit("aaaa", "src/a.py")) is None
    agent = shutil.copy("/bin/bash", tmp_path / "claude")
    check = f"{shlex.quote(sys.executable)} -m leasehold.cli guard src/a.py --policy require; exit $?"
    codes = [
        subprocess.run(
            [agent, "-c", check], cwd=project.root, env={**project.env, "CLAUDE_CODE_SESSION_ID": id_}, check=False
        ).returncode
        for id_ in ("aaaa", "bbbb")
    ]
    assert codes == [0, 4]


def test_an_agent_that_holds_a_pattern_takes_nothing_new_within_it(project: Project) -> None:
    with project.locks() as locks:
        locks.acquire("path:src/**/*.py", ttl="10m", holder="claude-aaaa")
    assert project.hook("claude", project.edit("aaaa", "src/lib/a.py")) is None
    assert project.holders() == {"path:src/**/*.py": "claude-aaaa"}
    assert project.hook("claude", project.edit("aaaa", "src/a.rs")) is None
    assert set(project.holders()) == {"path:src/**/*.py", "path:src/a.rs"}


def test_another_agent_s_pattern_denies_what_it_matches_and_nothing_else(project: Project) -> None:
    with project.locks() as locks:
        locks.acquire("path:src/**/*.py", ttl="10m", holder="claude-aaaa", name="new parser")
    denied = reason(project.hook("claude", project.edit("bbbb", "src/a.py")))
    assert denied.startswith("path:src/a.py is held by claude-aaaa (new parser)")
    assert project.hook("claude", project.edit("bbbb", "src/Makefile")) is None  # no lease: it might be a directory
    assert project.hook("claude", project.edit("bbbb", "src/[id].tsx")) is None
    assert set(project.holders()) == {"path:src/**/*.py", r"path:src/\[id].tsx"}


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
    assert after[0].expires_us > before[0].expires_us
    assert after[0].fence == before[0].fence


def taken_from(project: Project, way: str, name: str = "path:src/a.py", url: str | None = None) -> None:
    with leasehold.connect(url or project.env["LEASEHOLD_URL"], holder="ops") as ops:
        (lease,) = [each for each in ops.list() if name in each.resources]  # type: ignore[union-attr]
        if way == "session":
            assert lease.session is not None
            assert ops.end_session(lease.session, admin="ops")
        else:
            assert ops.force_release(name, by="ops", reason="hotfix")


@pytest.mark.parametrize("way", ["force-release", "session"])
def test_after_a_loss_the_next_hook_tells_the_agent_once(project: Project, way: str) -> None:
    for path in ("src/a.py", "src/b.py"):
        assert project.hook("claude", project.edit("aaaa", path)) is None
    after = project.claude("aaaa", "PostToolUse", "Bash", command="make")
    assert project.hook("claude", after) is None
    taken_from(project, way)
    told = project.hook("claude", after)["hookSpecificOutput"]
    assert told["hookEventName"] == "PostToolUse"
    assert told["additionalContext"].startswith("LOST: path:src/a.py is no longer yours (")
    assert ("path:src/b.py" in told["additionalContext"]) == (way == "session")
    assert ("forced by ops: hotfix" in told["additionalContext"]) == (way == "force-release")
    assert project.hook("claude", after) is None
    assert project.hook("claude", project.edit("aaaa", "src/a.py")) is None, "it was told already"
    assert project.hook("claude", after) is None


def test_before_an_edit_an_agent_is_told_that_it_had_lost_the_file_meanwhile(project: Project) -> None:
    project.hook("claude", project.edit("aaaa", "src/a.py"))
    taken_from(project, "force-release")
    told = project.hook("claude", project.edit("aaaa", "src/a.py"))["hookSpecificOutput"]
    assert told["hookEventName"] == "PreToolUse"
    assert told["additionalContext"].startswith("LOST: path:src/a.py is no longer yours (forced by ops: hotfix)")
    assert told["additionalContext"].endswith("You hold path:src/a.py again: read it anew before you change it.")
    assert project.hook("claude", project.edit("aaaa", "src/a.py")) is None
    taken_from(project, "force-release")
    project.hook("claude", project.edit("bbbb", "src/a.py"))
    denied = reason(project.hook("claude", project.edit("aaaa", "src/a.py")))
    assert denied.startswith("LOST: path:src/a.py is no longer yours")
    assert "held by claude-bbbb" in denied


def test_cursor_tells_a_loss_where_its_agent_reads_it(project: Project) -> None:
    common = {"conversation_id": "dddd", "workspace_roots": [str(project.root)]}
    write = {"tool_name": "Write", "tool_input": {"file_path": str(project.root / "src/a.py")}}
    project.hook("cursor", {**common, "hook_event_name": "preToolUse", **write})
    taken_from(project, "force-release")
    assert project.hook("cursor", {**common, "hook_event_name": "afterFileEdit"}) is None
    told = project.hook("cursor", {**common, "hook_event_name": "postToolUse"})
    assert told["additional_context"].startswith("LOST: path:src/a.py is no longer yours (forced by ops")


def test_over_http_a_hook_tells_of_a_loss_too(project: Project, tmp_path: Path) -> None:
    asked = f"/v1/hooks/claude?root={project.root}"
    with serving(tmp_path) as server:
        assert server.ask("POST", asked, project.edit("aaaa", "src/a.py")).json == {}
        taken_from(project, "force-release", url=server.url)
        after = project.claude("aaaa", "PostToolUse", "Bash", command="make")
        told = server.ask("POST", asked, after).json["hookSpecificOutput"]["additionalContext"]
        assert told.startswith("LOST: path:src/a.py is no longer yours (forced by ops: hotfix)")
        assert server.ask("POST", asked, after).json == {}


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


def test_an_edit_within_the_own_plan_turns_into_a_lease(project: Project) -> None:
    """The agent announced it by a command of its own, whose token the hook finds."""
    cli = [sys.executable, "-m", "leasehold.cli", "plan", "path:src/a.py", "path:src/b.py"]
    subprocess.run(cli, env={**project.env, "LEASEHOLD_HOLDER": "claude-aaaa"}, cwd=project.root, check=True)
    assert project.hook("claude", project.edit("aaaa", "src/a.py"), "--policy", "require-plans") is None
    assert project.holders() == {"path:src/a.py": "claude-aaaa"}
    assert project.plans() == [("claude-aaaa", ("path:src/b.py",))]


@pytest.mark.parametrize(
    ("policy", "is_allowed", "is_told"),
    [("off", True, False), ("warn", True, True), ("require", True, True), ("require-plans", False, True)],
)
def test_an_edit_in_anothers_plan_is_told_or_refused(
    project: Project, policy: str, is_allowed: bool, is_told: bool
) -> None:
    with project.locks() as locks:
        assert locks.plan("path:src", ttl=600, name="parser", holder="bob")
    answer = project.hook("claude", project.edit("aaaa", "src/a.py"), "--policy", policy)
    assert ("planned by bob (parser)" in json.dumps(answer)) == is_told
    assert (answer is None or "permissionDecision" not in answer["hookSpecificOutput"]) == is_allowed
    assert project.holders() == ({"path:src/a.py": "claude-aaaa"} if is_allowed and policy != "off" else {})
    assert project.plans() == [("bob", ("path:src",))]
    again = project.hook("claude", project.edit("aaaa", "src/a.py"), "--policy", policy)
    assert (again is None) == is_allowed, "it is told once, and refused each time"


def test_a_command_that_writes_into_anothers_plan_is_refused_where_plans_count(project: Project) -> None:
    with project.locks() as locks:
        assert locks.plan("path:src", ttl=600, holder="bob")
    call = project.claude("aaaa", "PreToolUse", "Bash", command="echo x > src/a.py")
    assert project.hook("claude", call) is None
    assert "planned by bob" in reason(project.hook("claude", call, "--policy", "require-plans"))


def test_the_policy_of_the_project_counts(project: Project) -> None:
    project.hook("claude", project.edit("aaaa", "src/a.py"))
    (project.root / "leasehold.toml").write_text('lock_policy = "off"\n')
    assert project.hook("claude", project.edit("bbbb", "src/a.py")) is None


def test_the_policy_in_grite_s_own_file_counts(project: Project) -> None:
    project.hook("claude", project.edit("aaaa", "src/a.py"))
    config = project.root / ".git" / "grite" / "config.toml"
    config.parent.mkdir()
    config.write_text('lock_policy = "off"\n')
    assert project.hook("claude", project.edit("bbbb", "src/a.py")) is None
    (project.root / "leasehold.toml").write_text('lock_policy = "require"\n')
    assert "is held by" in reason(project.hook("claude", project.edit("bbbb", "src/a.py")))


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
    project.hook("claude", project.claude("aaaa", "SessionStart"), "--holder", "my $agent")
    assert handed.read_text().splitlines() == [
        "export LEASEHOLD_HOLDER=claude-aaaa",
        "export LEASEHOLD_HOLDER='my $agent'",
    ]


def test_a_name_that_commands_derive_themselves_is_not_handed_on_to_agents_that_they_start(
    project: Project, tmp_path: Path
) -> None:
    claude, handed = tmp_path / "claude", tmp_path / "env.sh"
    shutil.copy("/bin/bash", claude)
    given = json.dumps(project.claude("aaaa", "SessionStart"))
    script = f"printf %s '{given}' | {sys.executable} -m leasehold.cli hook claude; exit $?"
    for shown, is_derived in (({}, False), ({"CLAUDE_CODE_SESSION_ID": "aaaa"}, True)):
        handed.unlink(missing_ok=True)
        env = {**project.env, "CLAUDE_ENV_FILE": str(handed), **shown}
        subprocess.run([str(claude), "-c", script], env=env, cwd=project.root, check=True)
        assert handed.exists() != is_derived


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
    assert len(project.holders()) == 2, "a turn has ended, and the session goes on"
    assert project.hook("codex", {**given, "hook_event_name": "SessionEnd"}) is None
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


# ------------------------------------------------------------------------------------- ids, and odd names

TWINS = ("0198c5f0-1a2b-7aaa-8111-000000000001", "0198c5f0-1a2c-7bbb-9222-000000000002")
"""Of one time, so that they start alike (UUIDv7)."""


def test_agents_whose_ids_start_alike_are_two(project: Project) -> None:
    first, second = TWINS
    assert project.hook("claude", project.edit(first, "src/a.py")) is None
    assert project.hook("claude", project.edit(first, "src/a.py")) is None
    (holder,) = project.holders().values()
    assert holder.startswith("claude-0198c5f0-")
    assert f"held by {holder} " in reason(project.hook("claude", project.edit(second, "src/a.py")))
    removing = project.claude(second, "PreToolUse", "Bash", command="rm src/a.py")
    assert f"held by {holder} " in reason(project.hook("claude", removing))


def test_subagents_whose_ids_start_alike_are_two(project: Project) -> None:
    first, second = TWINS
    assert project.hook("claude", project.edit("aaaa", "src/a.py", agent=first)) is None
    assert "held by claude-aaaa.0198c5f0-" in reason(
        project.hook("claude", project.edit("aaaa", "src/a.py", agent=second))
    )


ODD = ["src/trail ", "src/a\tb", "src/" + "x" * 600, "src/\0", "src/\0/x", "src/\ud800", "src/" + "d/" * 5_000 + "x"]
"""Files that no lease can name."""


@pytest.mark.parametrize("path", ODD)
def test_a_file_that_no_lease_can_name_goes_with_its_folder(project: Project, path: str) -> None:
    project.hook("claude", project.edit("aaaa", "src/a.py"))
    edit = project.claude("bbbb", "PreToolUse", "Edit", file_path=f"{project.root}/{path}")
    told = project.hook("claude", edit, "--on-failure", "closed")
    assert "nobody can hold this file by itself: only its folder was checked, path:src" in told["systemMessage"]
    assert project.hook("claude", edit, "--policy", "off") is None
    assert "acquire it first. Do not change it before that:\n  leasehold acquire path:src" in reason(
        project.hook("claude", edit, "--policy", "require-own")
    )
    with project.locks() as locks:
        locks.force_release("path:src/a.py", by="ops", reason="done")
        assert isinstance(locks.acquire("path:src", ttl=600), leasehold.Granted)
    assert "is held by somebody" in reason(project.hook("claude", edit))
    assert "is held by somebody" in project.hook("claude", edit, "--policy", "warn")["systemMessage"]


def test_beside_a_file_that_no_lease_can_name_the_others_are_looked_at(project: Project) -> None:
    project.hook("claude", project.edit("aaaa", "src/a.py"))
    for command in ('rm "x " src/a.py', 'rm src/a.py "x "'):
        given = project.claude("bbbb", "PreToolUse", "Bash", command=command)
        assert "claude-aaaa" in reason(project.hook("claude", given, "--on-failure", "closed"))
    alone = project.claude("bbbb", "PreToolUse", "Bash", command=f'rm "x " {project.root}/../')
    assert project.hook("claude", alone) is None


def test_the_root_itself_is_looked_at_however_it_is_spelled(project: Project) -> None:
    project.hook("claude", project.edit("aaaa", "src/a.py"))
    for root in (".", "./", "src/..", str(project.root), f"{project.root}/"):
        given = project.claude("bbbb", "PreToolUse", "Bash", command=f"rm -rf {root}")
        assert "path:. is held by claude-aaaa" in reason(project.hook("claude", given))


@pytest.mark.parametrize("cwd", ["/\0", "/\ud800"])
def test_a_place_that_cannot_be_is_refused(project: Project, cwd: str) -> None:
    project.hook("claude", project.edit("aaaa", "src/a.py") | {"cwd": cwd}, code=2)


def test_with_the_policy_off_no_session_is_begun(project: Project) -> None:
    assert project.hook("claude", project.edit("aaaa", "src/a.py"), "--policy", "off") is None
    assert not list(project.home.rglob("hooks/*"))


def test_what_is_suggested_is_quoted_for_a_shell(project: Project) -> None:
    project.hook("claude", project.edit("aaaa", "src/b c.py"))
    assert "\n  leasehold inspect 'path:src/b c.py'" in reason(
        project.hook("claude", project.edit("bbbb", "src/b c.py"))
    )


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


def test_over_http_a_file_that_no_lease_can_name_goes_with_its_folder(project: Project, tmp_path: Path) -> None:
    asked = f"/v1/hooks/claude?policy=require&root={project.root}"
    with serving(tmp_path) as server:
        assert server.ask("POST", asked, project.edit("aaaa", "src/a.py")).json == {}
        for path in (each for each in ODD if each.isascii()):
            edit = project.claude("bbbb", "PreToolUse", "Edit", file_path=f"{project.root}/{path}")
            told = server.ask("POST", asked, edit).json["systemMessage"]
            assert "only its folder was checked, path:src" in told
        nowhere = project.edit("bbbb", "src/a.py") | {"cwd": "/\0"}
        assert server.ask("POST", "/v1/hooks/claude?root=%00", nowhere).json == {}


def test_over_http_a_command_that_writes_too_much_to_tell_is_checked_against_all(
    project: Project, tmp_path: Path
) -> None:
    asked = f"/v1/hooks/claude?policy=require&root={project.root}"
    many = project.claude("bbbb", "PreToolUse", "Bash", command="cd a;rm x;" * 1_200)
    with serving(tmp_path) as server:
        assert server.ask("POST", asked, many).json == {}
        assert server.ask("POST", asked, project.edit("aaaa", "src/a.py")).json == {}
        told = reason(server.ask("POST", asked, many).json)
        assert told.startswith(f"It writes more than {MOST} files, so all were checked: path:. is held by claude-aaaa")
        few = project.claude("bbbb", "PreToolUse", "Bash", command="cd src; touch b.py")
        assert server.ask("POST", asked, few).json == {}


UNENDING = (
    "$(",
    "`a",
    "((",
    "$((",
    "<(",
    "a;",
    "cd a && ",
    "{ ",
    "( ",
    "[[ x ",
    "case x in a) ",
    "> a ",
    "if x; then\n",
    '"$(',
    "`a`",
)


@pytest.mark.parametrize("piece", UNENDING)
def test_a_command_that_is_too_long_to_read_may_write_anything(piece: str) -> None:
    for end in ("", "'", "\n'"):
        with pytest.raises(TooMuch):
            written(piece * (250_000 // len(piece)) + end)


def test_a_long_script_and_a_long_document_are_read() -> None:
    assert written("rm a;" * 1_000) == ("a",)
    assert written(f"cat > a <<'END'\n{'$( ` (( rm b; ' * 10_000}\nEND\nrm c") == ("a", "c")
    with pytest.raises(TooMuch):
        written("x" * 300_000)


@pytest.mark.parametrize("piece", UNENDING)
def test_over_http_a_command_that_is_too_long_to_read_is_checked_against_all(
    project: Project, tmp_path: Path, piece: str
) -> None:
    asked = f"/v1/hooks/claude?policy=require&root={project.root}"
    long = project.claude("bbbb", "PreToolUse", "Bash", command=piece * (250_000 // len(piece)))
    with serving(tmp_path) as server:
        assert server.ask("POST", asked, long).json == {}
        assert server.ask("POST", asked, project.edit("aaaa", "src/a.py")).json == {}
        told = reason(server.ask("POST", asked, long).json)
        assert told.startswith("The command is too long to parse, so all paths were checked: path:. is held by")
        assert server.ask("POST", asked, {**long, "x": "$(" * 2_000_000}).code == "too_large"


def test_over_http_what_is_not_asked_for_is_skipped_whatever_it_is(project: Project, tmp_path: Path) -> None:
    asked = f"/v1/hooks/claude?policy=require&root={project.root}"
    with serving(tmp_path) as server:
        edit = project.edit("aaaa", "src/a.py")
        edit["tool_input"] |= {"edits": [{}] * 100, "content": "x" * 1_000_000, "command": 7}
        assert server.ask("POST", asked, {**edit, "tool_response": {"a": [[1, 2]]}, "agent_id": None}).json == {}
        assert server.holders("path:src/a.py") == ["claude-aaaa"]
        for wrong in (
            b"[]",
            b"{",
            b'{"session_id": "\\ud800"}',
            b'{"session_id": "\xff"}',
            b'{"tool_input": {"command": "\\ud800"}}',
        ):
            assert server.ask("POST", asked, wrong).code == "invalid", wrong


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
    "cat > out <<EOF\nrm x\nEOF": ("out",),
    "rm $FILES *.o": (),
    "echo 'unclosed": (),
    "": (),
    # Quotes: what is in them is no redirection, no keyword and no pattern.
    'grep -n ">" src/a.py': (),
    "grep -c '>' src/a.py; grep a\\>b src/a.py": (),
    'rm \'a[1]\' "it\'s" b\\ c "$X" \'d\'"e"': ("a[1]", "it's", "b c", "de"),
    "echo $'it\\'s' > x": ("x",),
    '"if" rm x': (),
    # Comments and here-documents.
    "echo hi >src/a.py # it's mine": ("src/a.py",),
    "echo a#b > c": ("c",),
    "cat <<'A' <<-B > out\nrm 1; it's\nA\n\trm 2\n\tB\nrm 3": ("out", "3"),
    "git commit -m \"$(cat <<'EOF'\nDon't > it\nEOF\n)\" && rm x": ("x",),
    # Where a command begins.
    "if true; then rm x; elif a; then rm y; else rm z; fi": ("x", "y", "z"),
    "for f in x; do rm y; done > log": ("y", "log"),
    "while ! rm x; do { touch y; }; done; ( mv a b )": ("x", "y", "a", "b"),
    "case $1 in a) rm x;; esac; f() { rm y; }": ("x", "y"),
    "x=1 \\\n rm \\\n x": ("x",),
    'echo $(rm x) `rm y` "$(rm "z z")" >(tee w) <(sort v)': ("x", "y", "z z", "w"),
    "bash -lc 'cd src && rm x'": ("src/x",),
    "command -v rm x": (),
    # Where output goes, and what only looks like that.
    "2>err make 3>&1 >&2 >&both &>>all <in <<<text >|forced": ("err", "both", "all", "forced"),
    "[[ a > b && c > d ]] && ((a > b)) && echo $((a > b)) ${a:->b}": (),
    # Where it is.
    "cd src && rm a.py": ("src/a.py",),
    "cd src; cat > a.py <<EOF\ntext\nEOF": ("src/a.py",),
    "cd src || exit 1\nrm x": ("src/x",),
    "cd src || rm x": ("x",),
    "(cd src && rm x); rm y": ("src/x", "y"),
    "cd src | rm x; rm y": ("x", "y"),
    "cd src && ls; cd - && rm x": ("x",),
    "cd /else/where && rm x /y": ("/else/where/x", "/y"),
    "cd; rm x; cd ~/y && rm z": (),
    'cd "$ROOT" && rm x': ("x",),
    "git -C src rm x": ("src/x",),
    "cd a/../b && cd ../c/./d; cd ..; rm x ../y": ("c/x", "c/../y"),
    "cd a; cd ..; cd ..; cd ..; rm x": ("../../x",),
    "cd /a; cd ../..; rm x; cd; cd ../b; rm y": ("/x",),
    "cd a &&\n rm x\nmake |\n cd b; rm y": ("a/x", "a/y"),
    "cd a || { echo no; exit 1; }; rm x": ("a/x",),
    "if ! cd a; then exit 1; fi; rm x": ("a/x",),
    "(cd a; exit); rm x": ("x",),
    "mkdir a && cd a && rm x": ("a/x",),
    # A shell of its own, or of its own folder, is left again.
    "cd a && make & rm x": ("x",),
    "if t; then cd a; fi & rm x": ("x",),
    "{ cd a; make; } | tee log; rm x": ("log", "x"),
    "cd a; (cd b && make); cd -; rm x": ("x",),
    "cd a; v=$(cd b && pwd); cd -; rm x": ("x",),
    "pushd a; pushd b; popd; popd; rm x": ("x",),
    "pushd a; pushd b; pushd; rm x; popd; rm y": ("a/x", "a/b/y"),
    # Where it cannot be told, it is looked at in each place.
    "f() { cd a; }; rm x": ("a/x", "x"),
    "function f { cd a; rm y; }; rm x": ("a/y", "a/x", "x"),
    "f()\n{\ncd a\n}\nrm x": ("a/x", "x"),
    "if t; then cd a; else cd b; fi; rm x": ("b/x", "a/x", "x"),
    "while t; do cd a; done; rm x": ("a/x", "x"),
    "(case $1 in (a) cd a;; cd|rm) cd b;; esac; rm x); rm y": ("x", "b/x", "a/x", "y"),
    "t && cd a; rm x": ("a/x", "x"),
    "t || cd a; rm x": ("x", "a/x"),
    "cd a || cd b; rm x": ("a/x", "b/x"),
    # What a shell cannot read either is looked at line by line.
    "rm x\necho 'it\nrm y": ("x", "y"),
    'cd src\necho "$(\nrm x': ("src/x",),
    "echo `\nrm x": ("x",),
}


@pytest.mark.parametrize("command", WRITES)
def test_what_a_command_plainly_writes(command: str) -> None:
    assert written(command) == WRITES[command]


@pytest.mark.parametrize(
    "part", ["((", '"$(', "$(`", "${", "<(", "[[ ", "'\"", "<<a\n", "\\", "! ", "-C ", "\0", "\ud800"]
)
def test_a_command_of_nothing_but_beginnings_is_looked_at(part: str) -> None:
    assert written("rm x\n" + part * 2_000)[0] == "x"


@pytest.mark.parametrize("step", ["cd a", "t&&cd a", "pushd a;pushd b", "cd a/../a", "{ cd a", "if cd a;then t"])
def test_where_a_command_goes_is_followed_only_so_far(step: str) -> None:
    step = step.replace(" a", f" {'a' * 40}")
    assert sum(map(len, written(f"{step};rm x;" * 800))) < (MOST + 1) * (LONGEST + 3)
    far = written(f"{step};" * 800 + "rm x")
    assert 0 < len(far) <= 8
    assert max(map(len, far)) <= LONGEST + len("/x")


def test_folders_that_are_links_are_followed_once_and_again(tmp_path: Path) -> None:
    (tmp_path / "root" / "real" / "deep").mkdir(parents=True)
    (tmp_path / "root" / "link").symlink_to("real")
    (tmp_path / "root" / "real" / "out").symlink_to(tmp_path)
    below = Below(str(tmp_path / "root"), str(tmp_path / "root"))
    paths = ["link/deep/x", "link/x", "link/deep/../y", "link/none/z/y", "link", "link/out/x", "link/out/root/x", "."]
    found = ["real/deep/x", "real/x", "real/y", "real/none/z/y", "link", None, "x", "."]
    assert [below.find(path) for path in paths] == found
    assert [below.find(path) for path in reversed(paths)] == found[::-1]


MOMENTS = [
    ("claude", {"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": {"file_path": "/x"}}, BEFORE),
    ("claude", {"hook_event_name": "PostToolUse"}, AFTER),
    ("claude", {"hook_event_name": "Stop"}, OTHER),
    ("claude", {"hook_event_name": "SessionEnd"}, END),
    ("claude", {"hook_event_name": "SubagentStop"}, OTHER),
    ("codex", {"hook_event_name": "Stop"}, OTHER),
    ("codex", {"hook_event_name": "SessionStart"}, START),
    ("cursor", {"hook_event_name": "stop"}, OTHER),
    ("cursor", {"hook_event_name": "subagentStop", "subagent_id": "s"}, END),
]


@pytest.mark.parametrize(("editor", "given", "moment"), MOMENTS)
def test_when_a_hook_is_called(editor: str, given: dict[str, Any], moment: str) -> None:
    read = occasions.read(editor, json.dumps({"session_id": "s", **given}))
    assert read.moment == moment
    assert read == occasions.of(editor, occasions.flatten({"session_id": "s", **given}))

"""Install, install again, uninstall: what others have written stays, byte for byte."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from leasehold.guard.install import editors, splice
from leasehold.guard.install.changes import Ledger
from leasehold.guard.install.targets import TARGETS

if TYPE_CHECKING:
    from pathlib import Path

EDITORS = editors.EDITORS
SETTINGS = {
    "four spaces": '{\n    "model": "x",\n    "hooks": {\n        "PreToolUse": [\n'
    '            { "matcher": "Bash", "hooks": [ { "type": "command", "command": "hi" } ] }\n        ]\n    }\n}\n',
    "one line": '{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "echo hi"}]}]}, "a": [1,2]}',
    "tabs": '{\n\t"permissions": {"allow": ["Bash(ls:*)"]},\n\t"hooks": {}\n}',
    "empty": "{}",
    "blank": "{ }\n",
    "other order": '{"hooks": {"Stop": []}, "ünïcode": "\\u00fc", "n": 1e5}\n',
}
SERVERS = '{\n  "mcpServers": {\n    "other": {"command": "other", "args": []}\n  }\n}\n'
TOML = 'model = "x"\n\n[mcp_servers.other]\ncommand = "other"'


class Project:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "app"
        self.root.mkdir()
        self.home = folder / "home"
        self.home.mkdir()
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.env = {**kept, "HOME": str(self.home)}
        self.command = f"{sys.executable} -m leasehold.cli"

    def run(self, *words: str, code: int | None = 0, feed: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "-m", "leasehold.cli", *words],
            capture_output=True,
            text=True,
            input=feed,
            env=self.env,
            cwd=self.root,
            check=False,
        )
        assert code is None or done.returncode == code, done
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def files(self, place: Path | None = None) -> dict[str, bytes]:
        top = place or self.root
        return {
            str(path.relative_to(top)): path.read_bytes()
            for path in sorted(top.rglob("*"))
            if path.is_file() and ".local" not in path.parts
        }


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def write_others(place: Path, settings: str) -> None:
    for name, text in {
        ".claude/settings.json": settings,
        ".mcp.json": SERVERS,
        ".claude.json": SERVERS,
        ".codex/hooks.json": settings,
        ".codex/config.toml": TOML,
        ".cursor/hooks.json": settings,
        ".cursor/mcp.json": SERVERS,
        ".gemini/settings.json": settings,
        ".vscode/mcp.json": SERVERS.replace("mcpServers", "servers"),
        "opencode.json": SERVERS.replace("mcpServers", "mcp"),
        ".windsurf/hooks.json": settings,
        "AGENTS.md": "# Agents\n\nBe kind.\n",
    }.items():
        path = place / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("style", SETTINGS)
@pytest.mark.parametrize("what", [*EDITORS, "skill"])
def test_there_and_back_again_is_byte_identical(project: Project, what: str, style: str) -> None:
    write_others(project.root, SETTINGS[style])
    before = project.files()
    project.run("install", what)
    once = project.files()
    assert once != before
    assert "Nothing to change" in project.run("install", what)
    assert project.files() == once
    for name, content in once.items():
        if name.endswith(".json"):
            json.loads(content)
    project.run("uninstall", what)
    assert project.files() == before
    assert "Nothing to change" in project.run("uninstall", what)


@pytest.mark.parametrize("style", ["four spaces", "one line"])
@pytest.mark.parametrize("what", EDITORS)
def test_without_the_notes_of_what_was_there_it_comes_back_all_the_same(
    project: Project, what: str, style: str
) -> None:
    write_others(project.root, SETTINGS[style])
    before = project.files()
    project.run("install", what)
    shutil.rmtree(project.home / ".local")
    project.run("uninstall", what)
    after = project.files()
    if what == "cursor":  # `version` may stay: it is no hook, and Cursor wants one
        assert (
            json.loads(after.pop(".cursor/hooks.json"))["hooks"]
            == json.loads(before.pop(".cursor/hooks.json"))["hooks"]
        )
    assert after == before


@pytest.mark.parametrize("what", ["claude", "codex", "cursor", "gemini", "windsurf"])
def test_what_others_changed_meanwhile_stays(project: Project, what: str) -> None:
    write_others(project.root, SETTINGS["four spaces"])
    project.run("install", what)
    path = project.root / TARGETS[what].hooks.project
    path.write_text(splice.add(path.read_text(), ("hooks", "Notification"), {"command": "theirs"}))
    project.run("uninstall", what)
    left = json.loads(path.read_text())["hooks"]
    assert left["Notification"] == [{"command": "theirs"}]
    assert "leasehold" not in path.read_text()


@pytest.mark.parametrize("what", [*EDITORS, "skill"])
def test_where_nothing_was_nothing_stays(project: Project, what: str) -> None:
    project.run("install", what)
    assert project.files()
    project.run("uninstall", what)
    assert list(project.root.iterdir()) == []


def test_for_the_user_the_files_are_in_the_home_directory(project: Project) -> None:
    project.run("install", "claude", "--user")
    assert set(project.files(project.home)) == {".claude.json", ".claude/settings.json"}
    assert project.files() == {}
    project.run("uninstall", "claude", "--user")
    assert project.files(project.home) == {}


def test_a_trial_shows_the_difference_and_changes_nothing(project: Project) -> None:
    write_others(project.root, SETTINGS["four spaces"])
    before = project.files()
    shown = project.run("install", "claude", "--dry-run")
    assert "+" in shown
    assert "hook claude --policy require" in shown
    assert project.files() == before


@pytest.mark.parametrize("file", ["leasehold.toml", ".git/grite/config.toml"])
def test_hooks_have_the_policy_of_the_project(project: Project, file: str) -> None:
    if file.startswith(".git"):
        subprocess.run(["git", "init", "--quiet", str(project.root)], check=True)
    config = project.root / file
    config.parent.mkdir(exist_ok=True)
    config.write_text('lock_policy = "warn"\n')
    before = project.files()
    project.run("install", "claude")
    assert "hook claude --policy warn" in (project.root / ".claude/settings.json").read_text()
    config.write_text('lock_policy = "require"\n')
    project.run("uninstall", "claude")
    assert project.files() == {**before, file: config.read_bytes()}
    project.run("install", "claude", "--policy", "require-own")
    assert "hook claude --policy require-own" in (project.root / ".claude/settings.json").read_text()


def test_closed_if_the_locks_cannot_be_asked(project: Project) -> None:
    project.run("install", "cursor", "--on-failure", "closed")
    assert "--policy require --on-failure closed" in (project.root / ".cursor/hooks.json").read_text()
    refused = project.run("install", "claude", "--http", "http://h", "--on-failure", "closed", code=2)
    assert "is open with --http" in refused


@pytest.mark.parametrize("url", ["http://ann:hunter2@h", "https://h/?password=hunter2"])
def test_no_password_of_a_url_is_written_where_others_read_it(project: Project, url: str) -> None:
    refused = project.run("install", "claude", "--http", url, code=2)
    assert "must hold no password" in refused
    assert "hunter2" not in refused
    assert project.files() == {}


def test_hooks_over_http_are_for_claude_alone(project: Project) -> None:
    project.run("install", "claude", "--http", "http://127.0.0.1:7420", "--policy", "warn")
    hooks = json.loads((project.root / ".claude/settings.local.json").read_text())["hooks"]
    hook = hooks["PreToolUse"][0]["hooks"][0]
    assert hook["type"] == "http"
    assert hook["url"].startswith("http://127.0.0.1:7420/v1/hooks/claude?policy=warn&root=")
    project.run("uninstall", "claude")
    assert project.files() == {}
    assert "no http hooks" in project.run("install", "cursor", "--http", "http://127.0.0.1:7420", code=2)


@pytest.mark.parametrize("broken", ["{", "[]", '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}', "// c\n{}"])
def test_a_file_that_is_not_what_it_should_be_is_left_alone(project: Project, broken: str) -> None:
    write_others(project.root, broken)
    before = project.files()
    assert "is left alone" in project.run("install", "claude", code=2)
    assert project.files() == before


@pytest.mark.parametrize(
    "words", [("install", "emacs"), ("install", "claude", "--policy", "maybe"), ("install", "skill", "--target", "x")]
)
def test_what_nobody_knows_is_refused(project: Project, words: tuple[str, ...]) -> None:
    assert "must be one of" in project.run(*words, code=2)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("git", "--policy", "require"), "git config leasehold.lockPolicy require"),
        (("git", "--user"), "user: is no option for git"),
        (("git", "--on-failure", "closed"), "on_failure: is no option for git"),
        (("skill", "--policy", "warn"), "policy: is no option for skill"),
        (("claude", "--server"), "server: is no option for claude"),
        (("cursor", "--target", "codex"), "target: is no option for cursor"),
        (("claude", "--http", "locks.example"), "http: must be the URL of a server"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(project: Project, words: tuple[str, ...], told: str) -> None:
    subprocess.run(["git", "init", "--quiet", str(project.root)], check=True, env=project.env)
    before = project.files()
    for verb in ("install", "uninstall"):
        assert told in project.run(verb, *words, code=2)
    assert project.files() == before


def test_the_skill_and_the_prompt_say_what_to_do(project: Project) -> None:
    project.run("install", "skill")
    skill = (project.root / ".claude/skills/leasehold/SKILL.md").read_text()
    assert skill.startswith("---\nname: leasehold\ndescription: ")
    told = project.run("prompt")
    for words in ("leasehold acquire", "Skip it", "Never proceed without the lock", "One lock at a time"):
        assert words in skill
        assert words in told
    assert told.strip() in (project.root / "AGENTS.md").read_text()


@pytest.mark.parametrize(("what", "restarts"), [("claude", True), ("cursor", True), ("skill", False)])
def test_only_an_editor_has_to_be_restarted(project: Project, what: str, restarts: bool) -> None:
    for verb, done in (("install", "set up"), ("uninstall", "uninstalled")):
        told = project.run(verb, what)
        assert f"Done: {what} is {done}." in told
        assert ("Restart the editor" in told) == restarts


@pytest.mark.parametrize("editor", EDITORS)
def test_a_program_in_a_directory_with_a_blank_can_be_called(tmp_path: Path, editor: str) -> None:
    program = tmp_path / "my tools" / "leasehold"
    ledger = Ledger({"HOME": str(tmp_path / "home")})
    for change in editors.changes(editor, editors.InstallOptions((str(program),)), tmp_path, ledger, remove=False):
        ledger.make(change)
    told = "".join(path.read_text() for path in tmp_path.rglob("*") if path.suffix in (".json", ".toml", ".ts"))
    words = f'"{program}", "hook", "opencode"' if editor == "opencode" else f"'{program}' hook {editor} --policy"
    assert words in told
    if TARGETS[editor].servers.project:
        assert re.search(rf'"?command"? ?[:=] \[?\s*"{re.escape(str(program))}"', told)  # of the tools


@pytest.mark.parametrize("editor", EDITORS)
def test_what_is_shared_names_no_place_of_this_machine(project: Project, editor: str) -> None:
    """And it is indented as the file around it, with a matcher where the agent has one."""
    write_others(project.root, SETTINGS["four spaces"])
    before = project.files()
    told = project.run("install", editor)
    for name, content in project.files().items():
        text = content.decode()
        assert str(project.root) not in text
        assert sys.executable not in text
        if before.get(name) == SETTINGS["four spaces"].encode():
            assert all((len(line) - len(line.lstrip(" "))) % 4 == 0 for line in text.splitlines())
    assert not TARGETS[editor].todo or f"Still to do: {TARGETS[editor].todo}" in told
    assert "leasehold doctor" in told

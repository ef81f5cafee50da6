"""What every command prints with --json, for a yes and for a no, is what the published schemas say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from leasehold.cli import schemas
from leasehold.cli.entry.table import VERBS
from tests.kit.shell import EAGER, ROOT, Shell, until

if TYPE_CHECKING:
    from pathlib import Path

PUBLISHED = ROOT / "docs" / "schemas"


def strict(schema: Any) -> Any:  # noqa: ANN401 (JSON)
    """The schema with nothing allowed that it does not name: what is published lets later versions add fields."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: strict(value) for key, value in schema.items()}
    is_record = schema.get("type") == "object" and "properties" in schema
    return {**inner, "additionalProperties": False} if is_record and "results" not in schema["properties"] else inner


def check(verb: str, said: object) -> None:
    published = json.loads((PUBLISHED / schemas.file_name(verb)).read_text())
    validator = Draft202012Validator(published, format_checker=Draft202012Validator.FORMAT_CHECKER)
    validator.validate(said)
    if not (isinstance(said, dict) and "results" in said.get("error", ())):
        Draft202012Validator(strict(published)).validate(said)


def test_the_published_files_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert schemas.main(["--check", str(PUBLISHED)]) == 0, "run: python -m leasehold.cli.schemas docs/schemas"
    assert capsys.readouterr().out == ""


def test_stale_and_missing_files_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "left-over.json").write_text("{}")
    assert schemas.main(["--check", str(tmp_path)]) == 1
    assert "not current: acquire.json\n" in capsys.readouterr().out
    schemas.main([str(tmp_path)])
    assert schemas.main(["--check", str(tmp_path)]) == 0
    assert not (tmp_path / "left-over.json").exists()


def test_all_commands_speak_json_but_those_that_speak_to_programs_of_others() -> None:
    assert set(VERBS) - set(schemas.speakers()) <= {"adopt", "git-hook", "hook", "mcp"}


@pytest.mark.parametrize("verb", schemas.speakers())
def test_each_command_has_a_schema_that_is_one(verb: str) -> None:
    schema = json.loads((PUBLISHED / schemas.file_name(verb)).read_text())
    Draft202012Validator.check_schema(schema)
    telling = {name for name, each in schema["$defs"].items() if "token" in each["properties"]}
    assert telling <= {"Acquired"}, "only the answer to its own acquire has a token"


class Asker:
    """Runs commands, checks each answer, and remembers which commands said yes and which said no."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.seen: set[tuple[str, bool]] = set()

    def __call__(self, line: str, *more: str, holder: str = "ada", env: dict[str, str] | None = None) -> Any:  # noqa: ANN401
        words = line.split()
        verb = next(name for name in VERBS if words[: len(name.split())] == name.split())
        done = self.shell.call(*words, *more, "--json", holder=holder, env=env)
        assert done.err == ""
        said = done.said
        check(verb, said)
        assert said["ok"] is (done.code == 0)
        self.seen.add((verb, said["ok"]))
        return said["data"] if said["ok"] else said["error"]


@pytest.fixture
def ask(shell: Shell) -> Asker:
    return Asker(shell)


def taking(ask: Asker) -> None:
    ask("acquire issue:42", "--name", "é\u202e", "--context", '{"a": [1, null]}', "--reason", "x y")
    assert ask("acquire issue:42", holder="bob")["code"] == "held"
    assert ask("acquire issue:42 --wait 20ms", holder="bob")["code"] == "timeout"
    assert ask("wait issue:42 --timeout 20ms", holder="bob")["code"] == "timeout"
    assert ask("wait nobody --timeout 1s")["resource"] == "nobody"
    assert ask("acquire x --ttl 0")["code"] == "invalid"
    ask("acquire a")
    ask("acquire b", holder="bob")
    ask("acquire b")
    assert ask("acquire a", holder="bob")["code"] == "deadlock"
    assert ask("renew a issue:42")["results"][1]["data"]["lease"]["name"] == "é\u202e"
    assert ask("renew a")["lease"]["holder"] == "ada"
    assert ask("renew a", holder="bob")["code"] == "not_allowed"
    assert ask("renew nobody")["code"] == "not_found"
    assert ask("renew a nobody")["results"][1]["ok"] is False
    ask("update a", "--context", "[1]")
    assert ask("update a")["code"] == "invalid"
    assert ask("update nobody --context 1")["code"] == "not_found"
    ask("release a")
    assert ask("release issue:42", holder="bob")["holders"][0]["holder"] == "ada"
    assert ask("release issue:42 b")["code"] == "not_allowed"
    ask("acquire short --ttl 10ms")
    until(lambda: not ask.shell.holders("short"))
    assert ask("renew short")["code"] == "lost"


def looking(ask: Asker) -> None:
    ask("acquire q --on-expiry quarantine --slots 3 --grace 1s")
    ask("force-release q --reason why", holder="ops")
    assert ask("inspect q")["closed"][0]["state"] == "quarantined"
    assert ask("acquire q", holder="bob")["holders"][0]["expires_at"] is None
    waiter = ask.shell.start("acquire", "y", "--wait", "10m", holder="bob")
    ask("acquire y")
    ask.shell.run("acquire", "y")
    until(lambda: waiter.poll() is not None or ask.shell.waiting("y"))
    for line in (
        "inspect y",
        "list",
        "list --mine",
        "history",
        "history --kind granted",
        "history --plot x.svg",
        "graph",
        "watch --count 1",
        "watch y --count 1",
    ):
        ask(line)
    waiter.kill()
    assert ask("plan path:planned issue:9 --name work")["plans"][0]["resources"] == ["path:planned", "issue:9"]
    assert ask("plan path:planned/a", holder="bob")["plans"][0]["overlaps"][0]["holder"] == "ada"
    assert len(ask("plan")["plans"]) == len(ask("list")["plans"]) == 2
    assert ask("plan --ttl 5m")["code"] == "invalid"
    assert ask("inspect path:/x")["code"] == "invalid"
    assert ask("list --of", " x ")["code"] == "invalid"
    assert ask("history --limit 0")["code"] == "invalid"
    assert ask("history --plot x.gif")["code"] == "invalid"
    assert ask("graph --space", " ")["code"] == "invalid"
    assert ask("watch --count 0")["code"] == "invalid"
    assert ask("watch path:/x --count 1")["code"] == "invalid"


def sessions(ask: Asker) -> None:
    env = {"LEASEHOLD_SESSION": ask("session start --ttl 5m", "--name", "x y")["credential"]}
    assert ask("session start --ttl 0")["code"] == "invalid"
    ask("acquire in-session", env=env)
    ask("session heartbeat", env=env)
    assert ask("session heartbeat")["code"] == "invalid"
    ask("session list")
    assert ask("session list --space", " ")["code"] == "invalid"
    ask("session end", env=env)
    ask("session end", env=env)
    assert ask("session heartbeat", env=env)["code"] == "lost"
    assert ask("session end s1")["code"] == "invalid"


def admin(ask: Asker) -> None:
    ask("acquire z")
    ask("steal z --reason why", holder="ops")
    assert ask("steal z")["code"] == "invalid"
    ask("force-release z --reason why")
    assert ask("force-release z --reason why")["code"] == "not_found"
    mine = ask("acquire slow")["lease"]["id"]
    ask(f"extend {mine} --ttl 2h --reason why", holder="ops")
    assert ask(f"extend {mine}")["code"] == "invalid"
    ask("note slow frozen")
    ask("pool gpu a b")
    assert ask("pool gpu")["members"] == ["a", "b"]
    assert ask("pool gpu a/b")["code"] == "invalid"
    assert ask("note path:../up")["code"] == "invalid"
    ask("clear q --reason why")
    assert ask("clear q --reason why")["code"] == "not_found"
    key = ask("keys create ci --role viewer --prefix path:")["key"]["id"]
    assert ask("keys create", " ")["code"] == "invalid"
    ask("keys list")
    ask("keys rotate", key, "--overlap", "1d")
    assert ask("keys rotate", "0" * 16)["code"] == "not_found"
    ask("keys revoke", key)
    assert ask("keys revoke", key)["code"] == "not_found"
    assert ask("serve --port x")["code"] in ("invalid", "error"), "the latter where the extra is not installed"
    ask("gc")
    ask("backup copy.db")
    assert ask("backup copy.db")["code"] == "invalid"
    ask("restore copy.db --check")
    assert ask("restore copy.db")["code"] == "invalid"
    ask("lanes")
    assert ask("lanes 4")["code"] == ask("lanes four")["code"] == "invalid"
    ask("doctor")
    ask("completion fish")
    assert ask("completion tcsh")["code"] == "invalid"
    nowhere = {"LEASEHOLD_URL": "sqlite:///proc/nowhere/x.db"}
    assert ask("keys list", env=nowhere)["code"] in ("store", "unreachable", "error")
    assert ask("gc", env=nowhere)["code"] in ("store", "unreachable", "error")
    (ask.shell.home / "damaged.db").write_bytes(b"no database" * 1_000)
    assert ask("doctor --url sqlite:damaged.db")["code"] == "unwell"


def runs(ask: Asker) -> None:
    run = ask("workflow create --name deploy --work-unit 7", "--context", '{"a": [1, null]}')["id"]
    assert ask("workflow create --name deploy --work-unit 7")["workflow"]["id"] == run
    assert ask("workflow create --name deploy")["code"] == "invalid"
    ask("workflow get", run)
    assert ask("workflow check --work-unit 7")["id"] == run
    ask("workflow check --task 7")
    assert ask("workflow check")["code"] == "invalid"
    ask("workflow list")
    assert ask("workflow list --limit 0")["code"] == "invalid"
    ask("workflow update", run, "--context", "[1]")
    ask("workflow heartbeat", run)
    ask("workflow release", run, "--status", "failed", "--error", "red")
    ask("workflow release", run)
    ask("workflow get", run)
    for verb in ("update", "heartbeat", "release", "get"):
        more = ("--context", "1") if verb == "update" else ()
        assert ask(f"workflow {verb} wf-00000000000000000000000000", *more)["code"] == "not_found"
    assert ask("workflow heartbeat", run)["code"] == "lost"
    assert ask("workflow update", run, "--context", "1")["code"] == "lost"


def locks(ask: Asker) -> None:
    ask("lock acquire --resource issue:lock --ttl 30m")
    ask("lock renew issue:lock")
    assert ask("lock acquire issue:lock", holder="bob")["code"] == "conflict"
    assert ask("lock renew issue:lock", holder="bob")["code"] == "conflict"
    assert ask("lock release issue:lock", holder="bob")["code"] == "conflict"
    assert ask("lock acquire")["code"] == "invalid"
    ask("lock status")
    assert ask("lock status path:/x")["code"] == "invalid"
    ask("lock release issue:lock")
    ask("lock gc")
    nowhere = {"LEASEHOLD_URL": "sqlite:///proc/nowhere/x.db"}
    assert ask("lock gc", env=nowhere)["code"] in ("store", "unreachable", "error")
    ask("acquire path:held.py")
    ask("guard held.py --policy require")
    assert ask("guard held.py --policy require", holder="bob")["code"] == "held"
    ask("release path:held.py")


def worktrees(ask: Asker) -> None:
    ask.shell.sh("git init -q && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m a")
    ask("worktree add coder --value PORT=pool://ports/1 --path tree")
    assert ask("worktree add other --value PORT=pool://ports/1")["code"] == "held"
    ask("worktree env coder")
    assert ask("worktree env other")["code"] == "not_found"
    ask("worktree list")
    assert ask("worktree list --space", " ")["code"] == "invalid"
    ask("worktree remove coder")
    assert ask("worktree remove coder")["code"] == "not_found"


def setting_up(ask: Asker) -> None:
    for verb in ("install", "uninstall"):
        assert len(ask(f"{verb} claude")["files"]) == 2
        assert ask(f"{verb} emacs")["code"] == "invalid"
    assert "acquire" in ask("prompt")["prompt"]
    assert ask("prompt emacs")["code"] == "usage"


def versions(ask: Asker) -> None:
    assert ask("version")["version"]
    assert ask("version x")["code"] == "usage"


def test_every_command_says_yes_and_no_as_published(ask: Asker) -> None:
    for part in (taking, looking, sessions, runs, locks, admin, setting_up, versions, worktrees):
        part(ask)
    missing = {(verb, ok) for verb in schemas.speakers() for ok in (True, False)} - ask.seen
    elsewhere = {("run", True), ("run", False), ("serve", True)}  # see below, and the tests of the server
    assert missing == elsewhere


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("run r -- true", 0),
        ("run r -- false", 1),
        ("run r -- /no/such/command", 127),
        ("run r --ttl 0 -- true", 2),
        ("run taken -- true", 4),
        ("run taken --wait 600ms -- true", 5),
    ],
)
def test_each_line_of_a_run_is_as_published(shell: Shell, line: str, code: int) -> None:
    shell.run("acquire", "taken", holder="bob")
    words = line.split()
    done = shell.run(*words[:2], "--json", *words[2:])
    assert done.code == code
    assert done.lines
    for said in done.lines:
        check("run", said)
    assert "ok" in done.lines[-1]
    assert all("event" in said for said in done.lines[:-1])


def test_a_lost_run_is_as_published(shell: Shell) -> None:
    process = shell.start("run", "x", "--ttl", "15s", "--json", "--", "sleep", "1000", command=EAGER)
    until(lambda: shell.holders("x"))
    shell.run("force-release", "x", "--reason", "why", holder="ops")
    out, _ = process.communicate()
    lines = [json.loads(line) for line in out.splitlines()]
    for said in lines:
        check("run", said)
    assert lines[-1]["error"]["code"] == "lost"

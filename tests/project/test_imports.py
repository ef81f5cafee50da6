"""A plain `acquire` and a plain `release` import what is listed here and nothing else: they must start quickly."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib

import pytest

from leasehold.domain import rules
from tests.kit.shell import PATIENCE, ROOT, Shell

SCRIPT = ROOT / "scripts" / "leasehold"
REPORT = """
import sys
before = set(sys.modules)
from leasehold.cli import main
code = main(sys.argv[1:])
sys.stderr.write(" ".join(sorted(set(sys.modules) - before)))
sys.exit(code)
"""

PYTHON = {"__future__", "_blake2", "fcntl", "gc", "pwd"}
"""Written in C, and small; `pwd` only where no variable says who the user is."""
BINDING = {"apsw", "itertools", "_operator", "_collections"}
"""SQLite's, and what of Python is written in C. It would import `collections`, with all that belongs to it."""
OURS = {
    f"leasehold{name}"
    for name in (
        *("", ".errors", ".light_apsw", ".steps"),
        *(".cli", ".cli.command_line", ".cli.context", ".cli.output", ".cli.tokens"),
        *(".cli.entry", ".cli.entry.quick", ".cli.commands", ".cli.commands.acquire"),
        *(".config", ".config.identity", ".config.identity.agents", ".config.identity.descent"),
        *(".config.paths", ".config.settings", ".config.urls"),
        *(".domain", ".domain.api_keys", ".domain.commands", ".domain.durations", ".domain.entries", ".domain.events"),
        *(
            ".domain.keys",
            ".domain.leases",
            ".domain.names",
            ".domain.outcomes",
            ".domain.sessions",
            ".domain.timestamps",
        ),
        *(".domain.nouns", ".domain.records"),
        *(f".domain.rules{name}" for name in ("", ".acquiring", ".ending", ".granting")),
        *(f".domain.rules.{name}" for name in ("conflicts", "leases", "limits", "owning")),
        *(".engine", ".engine.batch", ".engine.engine", ".engine.pending"),
        *(".locks", ".locks.connect", ".locks.local", ".locks.planning", ".locks.sync"),
        *(".requests", ".requests.calls", ".requests.checks", ".requests.to_command", ".requests.verbs"),
        *(".stores", ".stores.cache", ".stores.sqlite"),
        *(f".stores.sqlite.{name}" for name in ("clock", "database", "files", "gate")),
        *(".stores.sqlite.meta", ".stores.sqlite.wal"),
    )
}
COMPILED = {
    *("leasehold__mypyc", "importlib", "importlib._bootstrap", "importlib._bootstrap_external", "importlib.machinery"),
    "warnings",
}
"""What compiled modules share, and what it asks of Python to set them up; nothing of it where nothing is compiled."""
if rules.__file__.endswith(".py"):
    COMPILED.clear()
TO_ACQUIRE = PYTHON | BINDING | OURS | COMPILED
TO_RELEASE = TO_ACQUIRE | {"leasehold.cli.commands.own_leases"}
NEVER = {
    *("typing", "re", "json", "argparse", "dataclasses", "enum", "functools", "inspect", "threading", "logging"),
    *("collections", "heapq", "bisect", "operator", "keyword", "reprlib"),
    *("asyncio", "subprocess", "pathlib", "tomllib", "datetime", "hashlib", "contextlib", "signal", "socket", "random"),
}


def imported(shell: Shell, *words: str) -> set[str]:
    """What a fresh interpreter imports for this command, beyond what every interpreter starts with."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *words],
        cwd=shell.home,
        env=shell.env(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return set(done.stderr.split())


def test_a_plain_acquire_and_release_import_only_what_is_listed(shell: Shell) -> None:
    shell.run("acquire", "first")  # creates the database, which needs more than that
    assert imported(shell, "acquire", "x") - TO_ACQUIRE == set()
    assert imported(shell, "acquire", "x", "--ttl", "5m", "--name", "again", "--reentrant") - TO_ACQUIRE == set()
    assert imported(shell, "acquire", "z", "--json") - TO_ACQUIRE == {
        *("leasehold.wire", "leasehold.wire.answer_shapes", "leasehold.wire.noun_shapes", "leasehold.wire.shapes"),
        *("leasehold.wire.table", "_json"),
    }
    assert imported(shell, "release", "x") - TO_RELEASE == set()


def test_the_hook_of_an_edit_imports_no_slow_module(shell: Shell) -> None:
    (shell.home / "a.py").write_text("")
    subprocess.run(["git", "init", "-q", str(shell.home)], check=True)
    call = {"session_id": "one", "cwd": str(shell.home), "hook_event_name": "PreToolUse", "tool_name": "Edit"}
    text = json.dumps({**call, "tool_input": {"file_path": str(shell.home / "a.py")}})
    found = [_imported_by_hook(shell, text) for _ in range(2)]  # the first creates the database, and takes the lease
    denied = _imported_by_hook(shell, text.replace('"one"', '"two"'))
    slow = {"re", "json", "enum", "functools", "argparse", "subprocess", "shutil", "typing", "datetime", "pathlib"}
    slow |= {"collections", "types", "shlex"}
    assert (found[1] | denied) & slow == set()


def _imported_by_hook(shell: Shell, text: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", REPORT, "hook", "claude"],
        cwd=shell.home,
        env=shell.env(),
        input=text,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return set(done.stderr.split())


def test_nothing_slow_is_on_the_list() -> None:
    assert not TO_RELEASE & NEVER


def test_the_list_names_nothing_that_is_not_needed(shell: Shell) -> None:
    shell.run("acquire", "first")
    needed = imported(shell, "acquire", "x") | imported(shell, "release", "x")
    assert TO_RELEASE - needed - PYTHON - BINDING - COMPILED == set()


def test_a_project_that_only_speaks_of_us_costs_nothing_more(shell: Shell) -> None:
    (shell.home / "pyproject.toml").write_text(
        '[project]\ndependencies = ["leasehold>=0.1"]\n[project.scripts]\nleasehold = "leasehold.cli:main"\n'
        '[tool.ruff.lint.per-file-ignores]\n"leasehold.py" = ["T20"]\n'
    )
    shell.run("acquire", "first")
    assert imported(shell, "acquire", "x") - TO_ACQUIRE == set()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("leasehold.toml", '# ours\nspace = "acme/app"\nttl = "15m"  # enough\nhierarchical = ["s3"]\n'),
        ("pyproject.toml", '[project]\nname = "app"\n\n[tool.leasehold]\nspace = "acme/app"\n\n[tool.ruff]\n'),
    ],
)
def test_a_plain_configuration_is_read_without_more_ado(shell: Shell, file: str, text: str) -> None:
    shell.run("acquire", "first")
    (shell.home / file).write_text(text)
    assert imported(shell, "acquire", "x") - TO_ACQUIRE == {"leasehold.config.plain_toml"}
    assert "acme/app" in shell.run("list", "--json").out


AFTERWARDS = """
import sys
import leasehold.stores.sqlite
assert not {"collections", "collections.abc"} & set(sys.modules), "not even a trace"
import collections.abc, typing
assert collections.abc is sys.modules["collections.abc"]
assert collections.namedtuple and collections.abc.Mapping and typing.Mapping
"""


def test_modules_that_the_binding_skips_can_be_imported_later(shell: Shell) -> None:
    subprocess.run([sys.executable, "-c", AFTERWARDS], env=shell.env(), timeout=PATIENCE, check=True)


def test_the_script_that_is_installed_imports_nothing_more(shell: Shell) -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    scripts = told["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-scripts"]
    assert scripts[str(SCRIPT.relative_to(ROOT))] == "leasehold"
    assert "leasehold" not in told["project"].get("scripts", {})
    # What installers ask of a script: they put their interpreter into such a first line, and keep who may execute it.
    assert SCRIPT.read_text().startswith("#!python\n")
    assert SCRIPT.stat().st_mode & 0o111 == 0o111
    shell.run("acquire", "first")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(SCRIPT), "acquire", "x"],
        cwd=shell.home,
        env=shell.env(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout.startswith("Acquired x")
    seen = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "leasehold.cli" in seen
    assert seen & NEVER == set()

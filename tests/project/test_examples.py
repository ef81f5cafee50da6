"""Every example runs, from a folder of its own, as its first lines say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.kit.shell import PATIENCE, ROOT, Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EXAMPLES = ROOT / "examples"
JOBS = (
    ("github-actions/deploy.yml", ("jobs", "deploy", "steps")),
    ("gitlab/.gitlab-ci.yml", ("deploy", "script")),
)
CALLS = """
import sys
sys.path.insert(0, sys.argv[1])
import app
from fastapi.testclient import TestClient
client = TestClient(app.app)
print(client.post("/reports/june?version=1").status_code)
with app.locks.lock("report:june", ttl=600, name="a rival"):
    print(client.post("/reports/june?version=2").status_code)
app.Guard(app.os.environ["STATE"]).write("{}", fence=2**50)
print(client.post("/reports/june?version=3").status_code)
app.locks.close()
"""


def typed(shell: Shell, *words: str | Path, **more: str) -> subprocess.Popen[str]:
    """Start a program in the home of this shell."""
    return shell.start(
        *map(str, words), holder=None, env={**more, **_path(shell)}, command=(), stderr=subprocess.STDOUT
    )


def _path(shell: Shell) -> dict[str, str]:
    return {"PATH": shell.with_command(shell.env())["PATH"]}


def printed(process: subprocess.Popen[str]) -> str:
    out = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, out
    return out


def test_a_fleet_does_each_issue_once(shell: Shell) -> None:
    issues, done = shell.home / "issues.txt", shell.home / "done.txt"
    issues.write_text("\n".join(map(str, range(1, 21))))
    worker = EXAMPLES / "fleet" / "worker.py"
    fleet = [typed(shell, sys.executable, worker, issues, done, f"worker-{number}") for number in (1, 2, 3)]
    for process in fleet:
        printed(process)
    assert sorted(int(line.split()[0]) for line in done.read_text().splitlines()) == list(range(1, 21))


def test_five_agents_in_five_worktrees_take_turns(shell: Shell) -> None:
    said = printed(typed(shell, "bash", EXAMPLES / "worktrees" / "five-agents.sh"))
    notes = [(f"agent-{number}", str(2_999 + number)) for number in range(1, 6)]
    assert sorted(re.findall(r"^- from (\S+) on port (\d+)$", said, re.MULTILINE)) == notes, said
    assert said.rstrip().splitlines()[-6] == "# Notes"
    assert not list(shell.home.glob("project-*")), "they are removed"


@pytest.mark.parametrize("client", ["stand-in", "terraform"])
def test_terraform_applies_wait_for_their_turn(shell: Shell, client: str) -> None:
    env = _path(shell)
    if client == "stand-in":
        script = shell.home / "bin" / "terraform"
        alone = 'mkdir alone 2>/dev/null || exit 1\necho "$@" >> said.txt\nrmdir alone\n'
        script.write_text(f'#!/bin/sh\n[ "$1" = apply ] || exit 0\n{alone}')
        script.chmod(0o755)
    elif shutil.which("terraform") is None:
        pytest.skip("NOT RUN: terraform is not installed: https://developer.hashicorp.com/terraform/install")
    project = shell.home / "network"
    shutil.copytree(EXAMPLES / "terraform", project)
    words = ("sh", "-c", 'cd "$0" && exec ./apply.sh "$1"', project)
    both = [typed(shell, *words, change, CHECKPOINT_DISABLE="1", PATH=env["PATH"]) for change in ("one", "two")]
    said = "".join(map(printed, both))
    if client == "terraform":
        assert said.count("Apply complete!") == 2, said
    else:
        applied = [line for line in (project / "said.txt").read_text().splitlines() if line.startswith("apply")]
        assert sorted(applied) == [
            f"apply -auto-approve -input=false -lock=false -var change={n}" for n in ("one", "two")
        ]


def test_a_flow_acquires_and_releases_in_steps(shell: Shell) -> None:
    said = printed(typed(shell, sys.executable, EXAMPLES / "flow" / "flow.py"))
    assert said == "acquire done\ncharge done\nrelease done\n"


def test_a_job_is_guarded_by_its_lease_and_its_fence(shell: Shell) -> None:
    state = shell.home / "state.json"
    told = typed(shell, sys.executable, "-c", CALLS, EXAMPLES / "fastapi_job", STATE=str(state))
    assert printed(told).split() == ["200", "409", "409"]
    assert state.read_text() == "{}", "the late write was refused"


def commands(file: str, way: tuple[str, ...]) -> Iterator[str]:
    """Every command of a job's description, but for the installation of Leasehold."""
    found: Any = yaml.safe_load((EXAMPLES / file).read_text())
    for step in way:
        found = found[step]
    for each in found:
        command = each if isinstance(each, str) else each.get("run", "")
        if command and not command.startswith(("pip", "pipx")):
            yield command


@pytest.mark.parametrize(("file", "way"), JOBS, ids=[file for file, _ in JOBS])
def test_a_job_of_ci_deploys_under_the_lease(shell: Shell, file: str, way: tuple[str, ...]) -> None:
    deploy = shell.home / "deploy.sh"
    deploy.write_text("#!/bin/sh\necho deployed with fence $LEASEHOLD_FENCE\n")
    deploy.chmod(0o755)
    told = list(commands(file, way))
    assert told
    for command in told:
        assert "deployed with fence 1\n" in printed(typed(shell, "bash", "-e", "-c", command))
    deploy.write_text("#!/bin/sh\nexit 3\n")
    failed = typed(shell, "bash", "-e", "-c", told[-1])
    failed.communicate(timeout=PATIENCE)
    assert failed.returncode == 3


def test_the_files_of_a_claude_code_project_are_what_is_installed(shell: Shell) -> None:
    project, there = EXAMPLES / "claude-code", shell.home / "project"
    shutil.copytree(project, there)
    before = {path: path.read_text() for path in there.rglob("*") if path.is_file()}
    git = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "init", "--quiet", there], check=True, env=git)
    said = printed(typed(shell, "sh", "-c", "cd project && leasehold install claude --policy require"))
    assert {path: path.read_text() for path in before} == before, said
    taken = typed(shell, "sh", "-c", "cd project && leasehold acquire path:app.py --holder coder-1")
    assert printed(taken).startswith("Acquired path:app.py")
    refused = typed(shell, "sh", "-c", "cd project && leasehold guard app.py --holder coder-2")
    assert "by policy require (from " in refused.communicate(timeout=PATIENCE)[0]


def test_the_table_names_every_example() -> None:
    page = (EXAMPLES / "README.md").read_text()
    folders = [path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert [name for name in folders if f"| [{name}](" not in page] == []

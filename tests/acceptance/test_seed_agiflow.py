"""Every command and answer of Agiflow's page on workflow locks, without a server and with one."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.surfaces.serving import create_key, serving
from tests.surfaces.shell import Done, Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCOPE = {
    "AGIFLOW_ORGANIZATION_ID": "org-id",
    "AGIFLOW_PROJECT_ID": "project-id",
    "AGIFLOW_WORK_UNIT_ID": "work-unit-id",
}
ID = re.compile(r"wf-[0-7][0-9A-HJKMNP-TV-Z]{25}")


class Agiflow:
    """A shell in which the variables of the page are exported."""

    def __init__(self, shell: Shell, env: dict[str, str]) -> None:
        self.shell = shell
        self.env = {**SCOPE, **env}

    def __call__(self, *words: str, **env: str) -> Done:
        return self.shell.run("workflow", *words, env={**self.env, **env})

    def create(self, *words: str) -> str:
        done = self("create", "--name", "deploy-staging", *words)
        assert done.code == 0, done
        return str(json.loads(done.out)["id"])


@pytest.fixture(params=["embedded", "open server", "server with keys"])
def agiflow(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Agiflow]:
    with Shell(tmp_path / "home") as shell:
        if request.param == "embedded":
            yield Agiflow(shell, {})
            return
        key = create_key(tmp_path, "agent", space="org-id/project-id") if "keys" in request.param else ""
        with serving(tmp_path) as server:
            yield Agiflow(shell, {"LEASEHOLD_URL": server.url, **({"AGIFLOW_API_KEY": key} if key else {})})


def test_acquire_a_lock(agiflow: Agiflow) -> None:
    """On success, and the 409 with details of the existing lock."""
    done = agiflow("create", "--name", "deploy-staging")
    assert (done.code, done.err) == (0, "✓ Workflow lock acquired\n")
    said = json.loads(done.out)
    assert done.out == f'{{\n  "id": "{said["id"]}"\n}}\n'
    assert ID.fullmatch(said["id"])
    again = agiflow("create", "--name", "deploy-staging")
    assert again.code == 4
    assert again.err.startswith("✗ 409 conflict: work-unit:work-unit-id is held by ")
    told = json.loads(again.out)
    assert (told["error"], told["status"]) == ("conflict", 409)
    assert told["workflow"]["id"] == said["id"]
    assert told["workflow"]["name"] == "deploy-staging"
    assert told["workflow"]["status"] == "running"


def test_lock_a_task_instead_of_a_work_unit(agiflow: Agiflow) -> None:
    agiflow.create()
    assert agiflow("create", "--name", "run-tests", "--task", "task-1").code == 0
    assert agiflow("create", "--name", "run-tests", "--task", "task-1").code == 4
    assert agiflow("create", "--name", "run-tests", "--task", "task-2").code == 0


def test_pass_the_scope_explicitly(agiflow: Agiflow) -> None:
    unset = dict.fromkeys(SCOPE, "")
    scope = ("--org", "org-id", "--project", "project-id", "--work-unit", "work-unit-id")
    assert agiflow("create", "--name", "deploy-staging", *scope, **unset).code == 0
    assert agiflow("create", "--name", "deploy-staging").code == 4  # the same, by the variables
    assert agiflow("create", "--name", "deploy-staging", "--work-unit", "other").code == 0


def test_check_a_lock(agiflow: Agiflow) -> None:
    for words in (("check",), ("check", "--work-unit", "work-unit-id")):
        done = agiflow(*words)
        assert (done.code, done.out, done.err) == (0, "{}\n", "")
    run = agiflow.create()
    for words in (("check",), ("check", "--work-unit", "work-unit-id")):
        done = agiflow(*words)
        assert (done.code, done.err) == (0, "✓ Lock found\n")
        assert done.out == f'{{\n  "id": "{run}",\n  "status": "running"\n}}\n'


@pytest.mark.parametrize(("status", "more"), [("completed", ()), ("failed", ("--error", "Build failed on step 3"))])
def test_release_a_lock(agiflow: Agiflow, status: str, more: tuple[str, ...]) -> None:
    run = agiflow.create()
    done = agiflow("release", run, "--status", status, *more)
    assert (done.code, done.err) == (0, "✓ Workflow lock released\n")
    assert done.out == f'{{\n  "id": "{run}",\n  "status": "{status}"\n}}\n'
    assert agiflow("check").out == "{}\n"  # "the lock is removed and the resource is free"
    told = json.loads(agiflow("get", run).out)
    assert told["error"] == (more[1] if more else None)  # "so logs show why the run stopped"
    assert agiflow.create() != run


def test_list_and_update(agiflow: Agiflow) -> None:
    """The tips."""
    run = agiflow.create()
    over = agiflow.create("--task", "t")
    agiflow("release", over, "--status", "failed", "--error", "red")
    [active] = json.loads(agiflow("list", "--status", "running").out)
    assert (active["id"], active["status"]) == (run, "running")
    done = agiflow("update", run, "--context", '{"step": 3, "progress": 75}')
    assert (done.code, done.err) == (0, "✓ Workflow lock updated\n")
    assert json.loads(agiflow("get", run).out)["context"] == {"step": 3, "progress": 75}
    agiflow("release", run, "--status", "completed")
    listed = json.loads(agiflow("list").out)
    assert [(each["id"], each["status"]) for each in listed] == [(run, "completed"), (over, "failed")]
    done_run, failed_run = listed
    assert done_run["context"] == {"step": 3, "progress": 75}
    assert failed_run["error"] == "red"
    assert failed_run["started_at"] < failed_run["ended_at"]
    assert json.loads(agiflow("list", "--status", "running").out) == []

"""Every command and answer of Agiflow's page on workflow locks, without a server and with one."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.kit.serving import Running, create_key, serving, until
from tests.kit.shell import Done, Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCOPE = ("AGIFLOW_ORGANIZATION_ID", "AGIFLOW_PROJECT_ID", "AGIFLOW_WORK_UNIT_ID")
ID = re.compile(r"wf-[0-7][0-9A-HJKMNP-TV-Z]{25}")


class Agiflow:
    """A shell in which the variables of the page are exported."""

    def __init__(self, shell: Shell, org: str, env: dict[str, str]) -> None:
        self.shell = shell
        self.org = org
        self.env = {**dict(zip(SCOPE, (org, "project-id", "work-unit-id"), strict=True)), **env}

    def __call__(self, *words: str, **env: str) -> Done:
        return self.shell.run("workflow", *words, env={**self.env, **env})

    def create(self, *words: str) -> str:
        done = self("create", "--name", "deploy-staging", *words)
        assert done.code == 0, done
        return str(json.loads(done.out)["id"])


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("open")) as running:
        yield running


@pytest.fixture(scope="module")
def server_with_keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("keys")
    create_key(folder, "admin")
    with serving(folder) as running:
        yield running


@pytest.fixture(params=["embedded", "open_server", "server_with_keys"])
def agiflow(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Agiflow]:
    org = f"org-{tmp_path.name}"
    with Shell(tmp_path / "home") as shell:
        if request.param == "embedded":
            yield Agiflow(shell, org, {})
            return
        server: Running = request.getfixturevalue(request.param)
        env = {"LEASEHOLD_URL": server.url}
        if request.param == "server_with_keys":
            key = create_key(server.database.parent, "agent", space=f"{org}/project-id")
            until(lambda: server.ask("GET", "/locks/status", key=key).status == 200)
            env["AGIFLOW_API_KEY"] = key
        yield Agiflow(shell, org, env)


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
    scope = ("--org", agiflow.org, "--project", "project-id", "--work-unit", "work-unit-id")
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

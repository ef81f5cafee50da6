"""Runs at their edges: scopes, expiry, other people's runs, keys and where they are kept, and bad input."""

from __future__ import annotations

import json
import os
import shlex
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.client.messages import bases, token
from leasehold.compat import agiflow
from leasehold.config import credentials
from leasehold.errors import InvalidInput
from tests.kit import etcd, postgres
from tests.kit.remotes import bare
from tests.kit.serving import Running, check_shape, create_key, serving, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.shell import Shell

PROJECT = ("--org", "e", "--project", "p")
NOBODY = "wf-00000000000000000000000000"


def said(shell: Shell, *words: str, **env: str) -> Any:  # noqa: ANN401 (JSON)
    done = shell.call("workflow", *words, env=env)
    assert done.code == 0, done
    return json.loads(done.out)


# ------------------------------------------------------------------------------------------------- scope


def test_ids_are_ulids_in_the_order_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.compat.agiflow.time.time_ns", lambda: 1_469_918_176_385 * 1_000_000)
    early = agiflow.new_id()
    assert early.startswith("wf-01ARYZ6S41")  # the example of the ULID specification
    monkeypatch.undo()
    now = agiflow.new_id()
    assert early < now
    assert agiflow.run_id(now) == now
    assert len({agiflow.new_id() for _ in range(100)}) == 100


@pytest.mark.parametrize(
    "id_", ["", "wf-", "wf-1", "x", "wf-" + "a" * 26, NOBODY[:-1] + "U", "wf-8" + "0" * 25, NOBODY + "0"]
)
def test_what_is_no_id_is_refused(shell: Shell, id_: str) -> None:
    for verb in ("get", "heartbeat", "release"):
        assert shell.call("workflow", verb, id_).code == 2


def test_options_go_before_ours_and_ours_before_theirs(shell: Shell) -> None:
    env = {"LEASEHOLD_WORK_UNIT_ID": "ours", "AGIFLOW_WORK_UNIT_ID": "theirs"}
    run = said(shell, "create", "--name", "x", **env)["id"]
    assert said(shell, "get", run)["resource"] == "work-unit:ours"
    run = said(shell, "create", "--name", "x", "--work-unit", "given", **env)["id"]
    assert said(shell, "get", run)["resource"] == "work-unit:given"
    run = said(shell, "create", "--name", "x", AGIFLOW_TASK_ID="t", **env)["id"]
    assert said(shell, "get", run)["resource"] == "task:t"


def test_the_project_itself_can_be_locked(shell: Shell) -> None:
    env = {"AGIFLOW_ORGANIZATION_ID": "org", "AGIFLOW_PROJECT_ID": "app"}
    run = said(shell, "create", "--name", "x", **env)["id"]
    assert said(shell, "get", run, **env)["resource"] == "project:app"
    assert said(shell, "get", run, **env)["space"] == "org/app"
    assert said(shell, "check", **env)["id"] == run
    assert shell.call("workflow", "get", run).code == 3  # in another space there is no such run


def test_projects_do_not_meet(shell: Shell) -> None:
    for project in ("one", "two"):
        scope = ("--org", "o", "--project", project, "--work-unit", "7")
        assert shell.call("workflow", "create", "--name", "x", *scope).code == 0
    assert len(said(shell, "list", "--org", "o", "--project", "one")) == 1


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("create", "--work-unit", "7"), "name"),
        (("create", "--name", "x"), "work_unit"),
        (("create", "--name", "x", "--work-unit", "7", "--task", "8"), "task"),
        (("create", "--name", "x", "--work-unit", "7", "--org", "o"), "project"),
        (("create", "--name", "x", "--work-unit", "7", "--org", "a/b", "--project", "c"), "org"),
        (("create", "--name", "x", "--work-unit", "7", "--ttl", "abc"), "ttl"),
        (("create", "--name", "x", "--work-unit", "7", "--ttl", "0"), "ttl"),
        (("create", "--name", "x", "--work-unit", "7", "--ttl", "1000000000000"), "ttl"),
        (("create", "--name", "x", "--work-unit", "7", "--context", "{"), "context"),
        (("create", "--name", "x", "--work-unit", "a\nb"), "work_unit"),
        (("create", "--name", "x\x1b[31m", "--work-unit", "7"), "name"),
        (("update", NOBODY), "context"),
        (("list", "--limit", "0"), "limit"),
        (("list", "--limit", "501"), "limit"),
    ],
)
def test_what_cannot_be_understood_is_refused_by_both(
    shell: Shell, server: Running, words: tuple[str, ...], field: str
) -> None:
    for env in ({}, {"LEASEHOLD_URL": server.url}):
        done = shell.call("workflow", *words, "--json", env=env)
        assert done.code == 2, done
        assert done.said["error"]["field"] == field


def test_quotes_in_names_stay_quotes(shell: Shell) -> None:
    unit = """a"b'c; --"""
    run = said(shell, "create", "--name", unit, "--work-unit", unit)["id"]
    told = said(shell, "get", run)
    assert (told["name"], told["resource"]) == (unit, f"work-unit:{unit}")


# --------------------------------------------------------------------------------- lives, and other people's


def test_a_crashed_run_blocks_nobody_for_ever_and_stays_listed(shell: Shell) -> None:
    run = said(shell, "create", "--name", "x", "--work-unit", "7", "--ttl", "50ms", "--context", '{"step": 1}')["id"]
    until(lambda: said(shell, "check", "--work-unit", "7") == {})
    successor = said(shell, "create", "--name", "y", "--work-unit", "7")["id"]
    told = said(shell, "get", run)
    assert (told["status"], told["context"]) == ("expired", {"step": 1})
    for verb, more in (("release", ()), ("heartbeat", ()), ("update", ("--context", "1"))):
        assert shell.call("workflow", verb, run, *more).code == 7
    assert said(shell, "check", "--work-unit", "7")["id"] == successor  # nothing late has touched it
    assert [each["id"] for each in said(shell, "list", "--status", "expired")] == [run]


@contextmanager
def somewhere(kind: str, place: Path) -> Iterator[dict[str, str]]:
    """A store of this kind, as the environment names it."""
    if kind == "sqlite":
        yield {}
    elif kind == "git":
        yield {"LEASEHOLD_URL": f"git+file://{bare(place)}"}
    elif kind == "etcd":
        yield {"LEASEHOLD_URL": etcd.empty()}
    else:
        with postgres.schema() as url:
            yield {"LEASEHOLD_URL": url}


def run_out(shell: Shell, **env: str) -> dict[str, Any]:
    """A run that has just expired, and nobody has come by since."""
    words = ("create", "--name", "x", "--task", "t1", "--ttl", "50ms", "--context", '{"step": 1}', *PROJECT)
    made: dict[str, Any] = said(shell, *words, "--json", **env)["data"]
    until(lambda: said(shell, "check", "--task", "t1", *PROJECT, **env) == {})
    return made


@pytest.mark.parametrize("first", ["get", "heartbeat", "update", "release", "list"])
def test_an_expired_run_is_there_before_anybody_sweeps(shell: Shell, first: str) -> None:
    made = run_out(shell)
    words = {"list": (), "update": (made["id"], "--context", "1")}.get(first, (made["id"],))
    done = shell.call("workflow", first, *words, *PROJECT)
    assert done.code == (0 if first in ("get", "list") else 7), done
    if first == "get":
        assert json.loads(done.out)["status"] == "expired"
    if first == "list":
        assert [(each["id"], each["status"]) for each in json.loads(done.out)] == [(made["id"], "expired")]


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "etcd", "git"])
def test_an_expired_run_is_told_by_every_store(shell: Shell, tmp_path: Path, kind: str) -> None:
    with somewhere(kind, tmp_path / "remote.git") as env:
        made = run_out(shell, **env)
        listed = said(shell, "list", "--status", "expired", *PROJECT, **env)
        assert [each["id"] for each in listed] == [made["id"]]
        again = run_out(shell, **env)
        for verb, more in (("heartbeat", ()), ("update", ("--context", "1")), ("release", ())):
            assert shell.call("workflow", verb, again["id"], *more, *PROJECT, env=env).code == 7
        told = said(shell, "get", again["id"], *PROJECT, **env)
        assert (told["status"], told["resource"]) == ("expired", "task:t1")
        if kind != "git":  # which tells that it ended, and no more
            assert (told["name"], told["context"]) == ("x", {"step": 1})
            assert told["ended_at"] == again["expires_at"]  # not when somebody came by to write it down
        assert said(shell, "list", "--status", "running", *PROJECT, **env) == []
        assert said(shell, "list", "--status", "completed", *PROJECT, **env) == []
        assert len(said(shell, "list", *PROJECT, **env)) == 2


def test_an_expired_run_behind_a_long_history_is_found(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agiflow, "PAGE", 4)
    run = said(shell, "create", "--name", "x", "--task", "t1", "--ttl", "2s", *PROJECT)["id"]
    with shell.locks() as locks:  # while it lives: otherwise this would sweep it
        for _ in range(5):
            granted = locks.acquire("busy", ttl=60, space="e/p")
            assert isinstance(granted, leasehold.Granted)
            locks.release(granted.lease.id, granted.token)
    until(lambda: said(shell, "check", "--task", "t1", *PROJECT) == {})
    assert [each["id"] for each in said(shell, "list", "--status", "expired", "--limit", "4", *PROJECT)] == [run]


def test_a_run_that_was_forced_is_told_over_git_too(shell: Shell, tmp_path: Path) -> None:
    with somewhere("git", tmp_path / "remote.git") as env:
        run = said(shell, "create", "--name", "x", "--work-unit", "7", **env)["id"]
        shell.call("force-release", "work-unit:7", "--reason", "it hangs", holder="ops", env=env)
        told = said(shell, "get", run, **env)
        assert (told["status"], told["error"]) == ("cancelled", "forced by ops: it hangs")


def test_an_agents_key_is_enough_to_learn_that_a_run_expired(tmp_path: Path) -> None:
    agent, viewer = create_key(tmp_path, "agent", name="ci"), create_key(tmp_path, "viewer")
    with serving(tmp_path, "--rate", "0") as server:
        for number in range(5):  # the server sweeps by itself now and then, which may come first
            body = {"name": "x", "task": f"t{number}", "ttl_seconds": 0.05}
            made = server.post("workflows", body, key=agent).json["workflow"]
            check = f"workflows/check?task=t{number}"
            until(lambda check=check: server.get(check, key=agent).json["workflow"] is None)  # type: ignore[misc]
            if number % 2:
                told = server.get(f"workflows/run?id={made['id']}", key=viewer).json["workflow"]
                assert told["status"] == "expired"
            assert server.post("workflows/heartbeat", {"id": made["id"]}, key=agent).code == "lost"


@pytest.mark.parametrize("served", [False, True])
def test_who_lost_a_run_is_told_how_to_begin_another(shell: Shell, server: Running, served: bool) -> None:
    env = {"LEASEHOLD_URL": server.url} if served else {}
    words: list[str] = []
    for task in ("t 1", "t2"):
        run = said(shell, "create", "--name", "it's x", "--task", task, *PROJECT, **env)["id"]
        said(shell, "release", run, *PROJECT, **env)
        for verb, more in (("heartbeat", ()), ("update", ("--context", "1"))):
            lost = shell.call("workflow", verb, run, *more, *PROJECT, env=env)
            assert lost.code == 7
            assert lost.err.startswith("Lost: the run is over (completed)")
            _, _, command = lost.err.partition("Next: begin another run:\n  leasehold ")
            words = shlex.split(command)
            assert words == ["workflow", "create", "--name", "it's x", "--task", task, *PROJECT]
    assert shell.call(*words, env=env).code == 0


WORK = ("--name", "deploy", "--work-unit", "7")


@pytest.mark.parametrize("served", [False, True])
def test_create_waits_for_the_active_run_to_end(shell: Shell, server: Running, served: bool) -> None:
    env = {"LEASEHOLD_URL": server.url} if served else {}
    first = said(shell, "create", *WORK, **env)["id"]
    waiting = shell.start("workflow", "create", *WORK, "--wait", "1m", holder="bob", env=env)
    if not served:  # a server is asked again: there is no queue to be seen in
        until(lambda: [each["holder"] for each in shell.json("inspect", "work-unit:7")["data"]["waiting"]] == ["bob"])
    said(shell, "release", first, **env)
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    second = json.loads(out)["id"]
    assert second != first
    assert said(shell, "get", second, **env)["status"] == "running"
    said(shell, "release", second, **env)


@pytest.mark.parametrize("served", [False, True])
def test_a_wait_for_a_run_that_goes_on_times_out(shell: Shell, server: Running, served: bool) -> None:
    env = {"LEASEHOLD_URL": server.url} if served else {}
    first = said(shell, "create", *WORK, **env)["id"]
    done = shell.run("workflow", "create", *WORK, "--wait", "50ms", "--json", holder="bob", env=env)
    assert done.code == 5
    error = done.said["error"]
    assert (error["code"], error["workflow"]["id"]) == ("timeout", first)
    assert shell.run("workflow", "create", *WORK, "--wait", "soon", env=env).code == 2
    said(shell, "release", first, **env)
    assert said(shell, "check", "--work-unit", "7", **env) == {}, "who timed out left nothing behind"


def test_a_wait_that_is_interrupted_begins_no_run(shell: Shell) -> None:
    first = said(shell, "create", *WORK)["id"]
    waiting = shell.start("workflow", "create", *WORK, "--wait", "1m", holder="bob")
    until(lambda: shell.json("inspect", "work-unit:7")["data"]["waiting"])
    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=60)
    assert waiting.returncode == 130
    said(shell, "release", first)
    until(lambda: shell.json("inspect", "work-unit:7")["data"]["waiting"] == [])
    assert said(shell, "check", "--work-unit", "7") == {}


def test_heartbeats_and_updates_keep_a_run_alive(shell: Shell) -> None:
    run = said(shell, "create", "--name", "x", "--work-unit", "7", "--ttl", "1m")["id"]
    first = said(shell, "get", run)["expires_at"]
    beaten = said(shell, "heartbeat", run)["expires_at"]
    assert beaten > first
    said(shell, "update", run, "--context", "{}")
    assert said(shell, "get", run)["expires_at"] > beaten
    assert said(shell, "heartbeat", run, "--ttl", "2h")["expires_at"] > beaten
    assert said(shell, "get", run)["ttl_seconds"] == 7200


def test_a_run_that_an_admin_ended_says_so(shell: Shell) -> None:
    run = said(shell, "create", "--name", "x", "--work-unit", "7")["id"]
    shell.call("force-release", "work-unit:7", "--reason", "it hangs", holder="ops")
    told = said(shell, "get", run)
    assert (told["status"], told["error"]) == ("cancelled", "forced by ops: it hangs")


def test_merging_keeps_what_is_there(shell: Shell) -> None:
    run = said(shell, "create", "--name", "x", "--work-unit", "7", "--context", '{"a": 1}')["id"]
    said(shell, "update", run, "--context", '{"b": 2}', "--merge")
    assert said(shell, "get", run)["context"] == {"a": 1, "b": 2}
    said(shell, "update", run, "--context", '{"c": 3}')
    assert said(shell, "get", run)["context"] == {"c": 3}


def test_a_lease_that_is_no_run_is_in_the_way_but_not_listed(shell: Shell) -> None:
    shell.call("acquire", "work-unit:7", holder="bob")
    done = shell.call("workflow", "create", "--name", "x", "--work-unit", "7")
    assert done.code == 4
    assert json.loads(done.out)["workflow"] is None
    assert "held by bob" in json.loads(done.out)["message"]
    assert said(shell, "check", "--work-unit", "7") == {}
    assert said(shell, "list") == []


def test_a_long_history_is_looked_through_for_runs(shell: Shell) -> None:
    run = said(shell, "create", "--name", "x", "--work-unit", "7")["id"]
    said(shell, "release", run)
    with shell.locks() as locks:
        for _ in range(agiflow.PAGE + 5):
            granted = locks.acquire("busy", ttl=60)
            assert isinstance(granted, leasehold.Granted)
            locks.release(granted.lease.id, granted.token)
    done = shell.call("workflow", "list")
    assert [each["id"] for each in json.loads(done.out)] == [run]


def test_what_one_shell_began_another_ends_with_the_id_alone(shell: Shell) -> None:
    run = said(shell, "create", "--name", "x", "--work-unit", "7")["id"]
    done = shell.call("workflow", "release", run, holder="somebody-else")
    assert done.code == 0


# ------------------------------------------------------------------------------------------------- over HTTP


def fits(told: object, shape: str) -> Any:  # noqa: ANN401 (JSON)
    check_shape(told, shape)
    return told


def test_the_answers_are_what_openapi_says(server: Running) -> None:
    body = {"name": "n", "work_unit": "http", "context": [1]}
    made = fits(server.post("workflows", body).json, "OneWorkflow")["workflow"]
    held = server.post("workflows", body)
    assert (held.status, held.code) == (409, "held")
    assert fits(held.json, "Problem")["workflow"]["id"] == made["id"]
    assert fits(server.get(f"workflows/run?id={made['id']}").json, "OneWorkflow")["workflow"]["status"] == "running"
    assert fits(server.get("workflows/check?work_unit=http").json, "CheckedWorkflow")["workflow"]
    assert fits(server.get("workflows/check?task=http").json, "CheckedWorkflow") == {"workflow": None}
    assert made["id"] in str(fits(server.get("workflows?status=running").json, "Workflows"))
    fits(server.post("workflows/update", {"id": made["id"], "context": {}}).json, "OneWorkflow")
    fits(server.post("workflows/heartbeat", {"id": made["id"]}).json, "OneWorkflow")
    done = fits(server.post("workflows/release", {"id": made["id"]}).json, "ReleasedWorkflow")
    assert (done["released"], done["workflow"]["status"]) == (True, "completed")
    again = server.post("workflows/release", {"id": made["id"], "status": "failed"}).json
    assert (again["released"], again["workflow"]["status"]) == (False, "completed")
    assert server.post("workflows/heartbeat", {"id": made["id"]}).code == "lost"
    assert server.get(f"workflows/run?id={NOBODY}").code == "not_found"


@pytest.mark.parametrize(
    "body",
    [
        None,
        {"name": "x"},
        {"name": "x", "work_unit": "1", "task": "2"},
        {"work_unit": "1"},
        {"name": "", "work_unit": "1"},
        {"name": "x", "work_unit": "1", "ttl_seconds": "abc"},
        {"name": "x", "work_unit": "1", "ttl_seconds": 0},
        {"name": "x", "work_unit": "1", "ttl_seconds": -5},
        {"name": "x", "work_unit": "1", "ttl_seconds": 1e12},
        {"name": "x", "work_unit": "1", "id": "mine"},
        {"name": "x", "work_unit": "a\nb"},
        {"name": "x", "work_unit": "1", "nonsense": 1},
    ],
)
def test_a_bad_body_is_a_400_and_changes_nothing(server: Running, body: object) -> None:
    assert server.ask("POST", "/v1/workflows", json.dumps(body).encode()).code == "invalid"
    assert server.get("workflows/check?work_unit=1").json == {"workflow": None}


def test_a_retry_with_the_same_id_gets_the_same_run(server: Running) -> None:
    body = {"name": "x", "work_unit": "retried", "id": agiflow.new_id()}
    first, again = server.post("workflows", body), server.post("workflows", body)
    assert (first.status, again.status) == (200, 200)
    assert first.json["workflow"]["fence"] == again.json["workflow"]["fence"]


def test_a_restart_forgets_no_run(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        active = server.post("workflows", {"name": "x", "work_unit": "1", "context": {"step": 3}}).json["workflow"]
        over = server.post("workflows", {"name": "y", "work_unit": "2"}).json["workflow"]
        server.post("workflows/release", {"id": over["id"], "status": "failed", "error": "red"})
        server.process.kill()
    with serving(tmp_path) as server:
        told = {each["id"]: each for each in server.get("workflows").json["workflows"]}
        assert (told[active["id"]]["status"], told[active["id"]]["context"]) == ("running", {"step": 3})
        assert (told[over["id"]]["status"], told[over["id"]]["error"]) == ("failed", "red")
        assert server.post("workflows", {"name": "z", "work_unit": "1"}).code == "held"


def test_a_run_belongs_to_the_key_that_began_it(tmp_path: Path) -> None:
    mine, other = (create_key(tmp_path, "agent", name=name) for name in ("ci", "qa"))
    admin, viewer = create_key(tmp_path, "admin", name="ops"), create_key(tmp_path, "viewer")
    bounded = create_key(tmp_path, "agent", name="docs", prefixes=("task:",))
    with serving(tmp_path) as server:
        made = server.post("workflows", {"name": "x", "work_unit": "1", "holder": "qa"}, key=mine).json["workflow"]
        assert made["holder"] == "ci"  # no caller begins a run in another's name
        body = {"id": made["id"], "context": 1}
        for key, code in ((other, "not_allowed"), (viewer, "not_allowed")):
            assert server.post("workflows/update", body, key=key).code == code
            assert server.post("workflows/release", {"id": made["id"]}, key=key).code == code
            assert server.post("workflows/heartbeat", {"id": made["id"]}, key=key).code == code
        assert server.post("workflows/update", body, key=mine).status == 200
        assert server.post("workflows/heartbeat", {"id": made["id"]}, key=admin).status == 200
        assert server.get(f"workflows/run?id={made['id']}", key=viewer).status == 200
        assert server.post("workflows/release", {"id": made["id"]}, key=mine).json["released"]
        assert server.post("workflows", {"name": "x", "work_unit": "2"}, key=bounded).code == "not_allowed"
        assert server.post("workflows", {"name": "x", "task": "2"}, key=bounded).status == 200
        assert server.post("workflows", {"name": "x", "task": "3", "space": "else"}, key=mine).code == "not_allowed"
        assert server.post("workflows", {"name": "x", "task": "3"}).code == "unauthenticated"


def test_a_session_has_its_own_runs(tmp_path: Path) -> None:
    key = create_key(tmp_path, "agent", name="ci")
    with serving(tmp_path) as server:
        session = server.post("sessions", {"holder": "run-1"}, key=key).json["credential"]
        made = server.post("workflows", {"name": "x", "work_unit": "1"}, key=session).json["workflow"]
        assert made["holder"] == "run-1"
        assert server.post("workflows/release", {"id": made["id"]}, key=key).code == "not_allowed"
        assert server.post("sessions/end", {}, key=session).json["ended"]
        told = server.get(f"workflows/run?id={made['id']}", key=key).json["workflow"]
        assert (told["status"], told["error"]) == ("cancelled", "its session ended")


# ------------------------------------------------------------------------------------------- where keys are kept


def test_the_key_comes_from_the_environment_or_from_a_private_file(shell: Shell, tmp_path: Path) -> None:
    key = create_key(tmp_path, "agent")
    with serving(tmp_path) as server:
        env = {"LEASEHOLD_URL": server.url}
        words = ("create", "--name", "x", "--work-unit", "7")
        assert shell.call("workflow", *words, env=env).code == 8
        run = said(shell, *words, AGIFLOW_API_KEY=key, **env)["id"]
        wrong = {**env, "LEASEHOLD_API_KEY": "lh_0_0", "AGIFLOW_API_KEY": key}
        assert shell.call("workflow", "get", run, env=wrong).code == 8
        file = shell.home / "config" / "leasehold" / "credentials"
        file.parent.mkdir(parents=True)
        file.write_text(f"# mine\nhttp://other.example lh_no_no\n{server.url}/ {key}\n")
        file.chmod(0o640)
        done = shell.call("workflow", "get", run, "--json", env=env)
        assert done.said["error"]["field"] == "credentials"
        assert "not private" in done.said["error"]["message"]
        file.chmod(0o600)
        assert said(shell, "get", run, **env)["id"] == run
        assert shell.call("list", env=env).code == 0  # every other command finds it, too


def test_a_stored_key_goes_to_its_own_server_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEASEHOLD_API_KEY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert credentials.stored("http://a:1", os.environ) is None
    file = tmp_path / "leasehold" / "credentials"
    file.parent.mkdir()
    file.touch(0o600)
    file.write_text("http://a:1 lh_a\nhttp://b:1 lh_b\nhttp://c:1\n")
    assert token(None, "http://a:1/") == "lh_a"
    assert [base.token for base in bases("http://x:9,http://b:1/,http://a:1")] == [None, "lh_b", "lh_a"]
    assert {base.token for base in bases("http://x:9,http://b:1", "lh_given")} == {"lh_given"}
    file.write_text("http://a:1,http://b:1 lh_both\n")
    assert [base.token for base in bases("http://b:1,http://c:1,http://a:1")] == ["lh_both", None, "lh_both"]
    file.write_text("http://a:1 lh_a\nhttp://b:1 lh_b\nhttp://c:1\n")
    assert token("lh_given", "http://a:1") == "lh_given"
    for url in ("http://a:12", "http://c:1", "https://a:1", "http://evil.example"):
        assert token(None, url) is None
    file.unlink()
    file.mkdir()
    with pytest.raises(InvalidInput, match="cannot be read"):
        token(None, "http://a:1")

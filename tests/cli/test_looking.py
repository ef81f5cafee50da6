"""inspect, list, history, watch, doctor, gc: what they show to people and to programs."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

from leasehold.requests.lookups import EVENT_KINDS
from tests.kit.shell import PATIENCE, ROOT, Shell, until
from tests.testing.wander import Wanderer

if TYPE_CHECKING:
    from pathlib import Path


def test_nothing_is_there_at_first(shell: Shell) -> None:
    assert shell.call("list").out == "No live leases.\n"
    assert shell.call("history").out == "Nothing happened yet.\n"
    assert shell.call("history", "issue:42").out == "No event is like that.\n"
    assert shell.call("session", "list").out == "No live sessions.\n"
    assert shell.call("inspect", "x").out == "x: free\n"
    assert "No live leases." in shell.call("watch", "--count", "1").out


def test_inspect_shows_holder_work_context_and_queue(shell: Shell) -> None:
    shell.call("acquire", "x", "y", "--name", "fix it", "--reason", "it broke", "--context", '{"step": 1}')
    waiter = shell.start("acquire", "x", "--wait", "10m", holder="bob")
    until(lambda: shell.waiting("x"))
    seen = shell.call("inspect", "x").out
    for part in (
        "held by   ada (fix it), exclusive, fence 1",
        "as        x y",
        "reason    it broke",
        "since     20",
        "until     20",
        'context   {"step":1}',
        "waiting 1. bob, since 20",
    ):
        assert part in seen
    waiter.kill()


def test_wait_ends_when_the_resource_is_free_and_takes_nothing(shell: Shell) -> None:
    shell.call("acquire", "path:src/a.py")
    late = shell.call("wait", "path:src", "--timeout", "0.1", holder="bob")
    assert (late.code, late.err.splitlines()[0]) == (5, "Timed out: path:src")
    assert shell.call("wait", "path:src").out == "path:src is yours already\n"
    waiting = shell.start("wait", "path:src", "--json", holder="bob")
    assert shell.waiting("path:src") == []
    shell.call("release", "path:src/a.py")
    told = json.loads(waiting.communicate(timeout=PATIENCE)[0])
    assert (waiting.returncode, told["data"]["resource"]) == (0, "path:src")
    assert shell.call("list").out == "No live leases.\n"
    assert shell.call("wait", "path:src", "--timeout", "soon").code == 2


def test_inspect_shows_session_and_trace(shell: Shell) -> None:
    session = shell.call("session", "start", "--json").said["data"]["credential"]
    shell.call(
        "acquire", "x", env={"LEASEHOLD_SESSION": session, "TRACEPARENT": "00-" + "a" * 32 + "-" + "1" * 16 + "-01"}
    )
    seen = shell.call("inspect", "x").out
    assert f"  session   {session.partition('.')[0]}\n" in seen
    assert f"  trace     00-{'a' * 32}-" in seen


def test_inspect_shows_what_overlaps(shell: Shell) -> None:
    shell.call("acquire", "path:src/a.py")
    for name in ("path:src", "path:src/a.py", "repo:deploy"):
        assert "held by   ada" in shell.call("inspect", name).out
    assert shell.call("inspect", "path:docs").out == "path:docs: free\n"
    assert "path:src/a.py" in shell.call("watch", "path:src", "--count", "1").out


def test_lists_can_be_narrowed(shell: Shell) -> None:
    shell.call("acquire", "a")
    shell.call("acquire", "b", holder="bob")
    shell.call("acquire", "c", "--space", "team")
    shell.call("acquire", "d", "--slots", "3")

    def listed(*words: str) -> list[str]:
        said = shell.call("list", *words, "--json").said
        return [name for lease in said["data"]["leases"] for name in lease["resources"]]

    assert listed() == ["a", "b", "d"]
    assert listed("--mine") == ["a", "d"]
    assert listed("--of", "bob") == ["b"]
    assert listed("--resource", "a") == ["a"]
    assert listed("--space", "team") == ["c"]
    assert listed("--all-spaces") == ["a", "b", "c", "d"]
    assert "slots 3" in shell.call("list").out


def test_history_can_be_narrowed(shell: Shell) -> None:
    lease = shell.call("acquire", "a", "--json").said["data"]["lease"]["id"]
    shell.call("acquire", "a", holder="bob")
    shell.call("release", "a")
    shell.call("acquire", "b", "--space", "team")

    def kinds(*words: str) -> list[str]:
        return [event["kind"] for event in shell.call("history", *words, "--json").said["data"]["events"]]

    assert kinds() == ["released", "refused", "granted"]
    assert kinds("--limit", "1") == ["released"]
    assert kinds("--kind", "granted", "--kind", "refused") == ["refused", "granted"]
    assert kinds("--of", "bob") == ["refused"]
    assert kinds("--lease", lease) == ["released", "granted"]
    assert kinds("nothing") == []
    assert kinds("--since", "1h") == ["released", "refused", "granted"]
    assert len(kinds("--all-spaces")) == 4


def test_history_tells_who_was_forced_and_which_cycle_it_was(shell: Shell) -> None:
    shell.call("acquire", "a")
    shell.call("acquire", "b", holder="bob")
    shell.call("acquire", "b")
    shell.call("acquire", "a", holder="bob")
    shell.call("force-release", "a", "--reason", "enough", "--by", "ops")
    seen = shell.call("history").out
    assert "by ops: enough" in seen
    assert " → " in seen


def test_history_tells_who_opened_what_was_closed_and_behind_whom_a_waiter_was(shell: Shell) -> None:
    shell.call("acquire", "a", "--on-expiry", "quarantine")
    assert shell.call("acquire", "a", holder="bob").code == 4
    shell.call("force-release", "a", "--reason", "enough", "--by", "ops")
    shell.call("clear", "a", "--reason", "looked at it", "--by", "eve")
    lines = {line.split()[2]: line for line in shell.call("history").out.splitlines()[1:]}
    assert lines["cleared"].endswith("by eve: looked at it")
    assert lines["refused"].endswith("behind ada")


def test_the_doctor_is_content_or_says_what_is_wrong(shell: Shell) -> None:
    well = shell.call("doctor")
    assert well.code == 0
    assert well.out.endswith("All is well.\n")
    shell.call("acquire", "x")
    assert shell.call("doctor", "--json").said["data"]["well"] is True
    for end in ("-wal", "-shm"):
        shell.database.with_name(shell.database.name + end).unlink()
    shell.database.write_bytes(b"this is no database, whatever it may be" * 200)
    sick = shell.call("doctor")
    assert sick.code == 1
    assert "WRONG" in sick.out
    assert "check failed: " in sick.err
    said = shell.call("doctor", "--json").said
    assert said["ok"] is False
    assert said["error"]["code"] == "unwell"
    assert any(finding["ok"] is False for finding in said["error"]["findings"])


def test_a_store_that_cannot_be_reached_is_another_exit_code(shell: Shell) -> None:
    env = {"LEASEHOLD_URL": "sqlite:///proc/nowhere/locks.db"}
    for words in (["acquire", "x"], ["list"], ["release", "x"], ["run", "x", "--", "true"]):
        done = shell.call(*words, env=env)
        assert done.code == 9, done
        assert done.err.startswith("Failed: ")
        assert "Next: see what is wrong:\n  leasehold doctor" in done.err
    assert shell.call("list", "--json", env=env).said["ok"] is False


def test_gc_says_what_it_found(shell: Shell) -> None:
    shell.call("acquire", "x", "--ttl", "10ms")
    until(lambda: not shell.holders("x"))
    done = shell.call("gc")
    assert done.code == 0
    assert done.out.startswith("Swept ")
    assert "old token files" in done.out


# ------------------------------------------------------------------------------------------- who asks


def test_the_holder_is_the_process_that_the_commands_come_from(shell: Shell) -> None:
    first = shell.run("acquire", "x", "--json", holder=None).said["data"]["lease"]["holder"]
    assert first.startswith("ada@")
    assert f" {os.getpid()}" in first
    refused = shell.json("acquire", "x", holder=None)["error"]
    assert (refused["code"], refused["yours"]) == ("held", True)
    assert "yours" not in shell.json("acquire", "x", "--holder", "bob")["error"]
    assert [lease["holder"] for lease in shell.json("list", "--mine", holder=None)["data"]["leases"]] == [first]
    assert shell.run("release", "x", holder=None).code == 0


def test_spaces_are_kept_apart(shell: Shell) -> None:
    assert shell.call("acquire", "x", "--space", "one").code == 0
    assert shell.call("acquire", "x", "--space", "two", holder="bob").code == 0
    assert shell.call("release", "x").code == 3
    assert shell.call("release", "x", "--space", "one").code == 0
    assert shell.call("release", "x", holder="bob", env={"LEASEHOLD_SPACE": "two"}).code == 0


def test_settings_come_from_the_projects_file(shell: Shell) -> None:
    (shell.home / "leasehold.toml").write_text('url = "sqlite:locks.db"\nholder = "from-file"\nttl = "7m"\n')
    lease = shell.call("acquire", "x", "--json", holder=None).said["data"]["lease"]
    assert (lease["holder"], lease["ttl_seconds"]) == ("from-file", 420)
    assert (shell.home / "locks.db").exists()
    assert shell.call("release", "x", holder=None).code == 0


# ------------------------------------------------------------------------------------ sessions, admins


def test_a_session_from_start_to_end(shell: Shell) -> None:
    started = shell.call("session", "start", "--ttl", "5m", "--name", "nightly")
    assert started.out.startswith("export LEASEHOLD_SESSION=s")
    env = {"LEASEHOLD_SESSION": started.out.partition("=")[2].strip()}
    shell.call("acquire", "a", env=env)
    assert ", with 1 lease\n" in shell.call("session", "heartbeat", env=env).out
    listed = shell.call("session", "list").out
    assert "nightly" in listed
    assert env["LEASEHOLD_SESSION"].partition(".")[2] not in listed
    assert shell.call("session", "end", env=env).out == "Session ended; released: a\n"
    assert shell.call("session", "end", env=env).out == "That session had ended before.\n"
    lost = shell.call("session", "heartbeat", env=env)
    assert lost.code == 7
    assert "Next: begin another session:\n  leasehold session start" in lost.err
    assert shell.call("acquire", "a", env=env).code != 0


def test_an_admin_ends_the_session_of_another_holder(shell: Shell) -> None:
    credential = shell.call("session", "start", "--json").said["data"]["credential"]
    id_ = credential.rpartition(".")[0]
    refused = shell.call("session", "end", id_)
    assert "is for people" in refused.err
    assert "--by" not in refused.err
    assert shell.call("session", "end", id_, "--by", "ops").code == 0
    assert shell.call("session", "list").out == "No live sessions.\n"


def test_a_session_releases_what_it_took_without_a_token(shell: Shell, tmp_path: Path) -> None:
    credential = shell.call("session", "start", "--json").said["data"]["credential"]
    env = {"LEASEHOLD_SESSION": credential}
    shell.call("acquire", "a", "b", env=env)
    url = f"sqlite://{shell.database}"
    elsewhere = {**env, "XDG_STATE_HOME": str(tmp_path / "other"), "LEASEHOLD_URL": url}
    assert shell.call("renew", "a", env=elsewhere).code == 0
    assert shell.call("release", "b", "a", env=elsewhere).code == 0
    assert shell.holders("a") == []


def test_what_is_a_sessions_is_its_own_whatever_the_caller_is_called(shell: Shell, tmp_path: Path) -> None:
    credential = shell.call("session", "start", "--json", holder="nightly").said["data"]["credential"]
    env = {"LEASEHOLD_SESSION": credential}
    shell.call("acquire", "a", env=env)
    shell.call("acquire", "b", holder="bob")
    assert shell.holders("a") == ["nightly"]
    mine = shell.call("list", "--mine", "--json", env=env).said["data"]["leases"]
    assert [lease["resources"] for lease in mine] == [["a"]]
    assert shell.call("list", "--mine", holder="bob").out.count("\n") == 2
    url = f"sqlite://{shell.database}"
    elsewhere = {**env, "XDG_STATE_HOME": str(tmp_path / "other"), "LEASEHOLD_URL": url}
    assert shell.call("lock", "release", "a", env=elsewhere).code == 0
    assert shell.holders("a") == []


def test_a_sessions_wait_is_shown_with_its_place(shell: Shell) -> None:
    credential = shell.call("session", "start", "--json", holder="nightly").said["data"]["credential"]
    shell.call("acquire", "x", holder="bob")
    done = shell.run("run", "x", "--wait", "3s", "--json", "--", "true", env={"LEASEHOLD_SESSION": credential})
    assert 1 in [line.get("position") for line in done.lines]


def test_stealing_is_one_step_and_is_told(shell: Shell) -> None:
    shell.call("acquire", "x")
    taken = shell.call("steal", "x", "--reason", "hotfix", holder="ops")
    assert taken.out.startswith("Taken over: x\n")
    assert shell.call("renew", "x").code == 7
    assert shell.call("release", "x", holder="ops").code == 0


def test_clearing_opens_what_was_closed(shell: Shell) -> None:
    shell.call("acquire", "x", "--on-expiry", "quarantine")
    shell.call("force-release", "x", "--reason", "gone", holder="ops")
    assert shell.call("acquire", "x", holder="bob").code == 4
    assert shell.call("clear", "x", "--reason", "looked at it", holder="ops").out == "x is open again\n"
    assert shell.call("clear", "x", "--reason", "looked at it", holder="ops").code == 3
    assert shell.call("acquire", "x", holder="bob").code == 0


def test_a_kind_of_event_that_there_is_not_is_refused(shell: Shell) -> None:
    done = shell.call("history", "--kind", "grented")
    assert (done.code, done.out) == (2, "")
    assert "there is no kind of event 'grented'; there are granted, queued, " in done.err


def test_the_kinds_of_events_are_those_that_happen() -> None:
    wanderer = Wanderer(7)
    wanderer.walk(3_000)
    assert {event.kind for event in wanderer.world.events} <= set(EVENT_KINDS)
    page = (ROOT / "src" / "leasehold" / "server" / "dashboard" / "static" / "live.js").read_text(encoding="utf-8")
    assert re.findall(r'"(\w+)"', page.partition("const KINDS")[2].partition("];")[0]) == list(EVENT_KINDS)


def test_a_new_session_replaces_one_that_is_lost(shell: Shell) -> None:
    credential = shell.json("session", "start")["data"]["credential"]
    mine = {"LEASEHOLD_SESSION": credential}
    begin = ["Next: begin a session:", "  leasehold session start"]
    wrong = shell.call("acquire", "x", env={"LEASEHOLD_SESSION": f"{credential[:-1]}!"})
    assert (wrong.code, wrong.err.splitlines()[-2:]) == (8, begin)
    assert shell.call("session", "end", env=mine).code == 0
    gone = shell.call("acquire", "x", env=mine)
    assert (gone.code, gone.err.splitlines()[-2:]) == (7, begin)
    lost = shell.call("session", "heartbeat", env=mine)
    assert lost.code == 7
    assert lost.err.startswith("Lost: the session is gone (")

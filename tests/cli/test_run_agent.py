"""A run is an agent of its own: its session, its short TTL, and what becomes of its lease if it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest

from leasehold import Refused
from leasehold.domain.timestamps import SECOND
from tests.kit.processes import is_there
from tests.kit.serving import serving
from tests.kit.shell import PATIENCE, Done, Shell, until

if TYPE_CHECKING:
    from pathlib import Path

    from leasehold import Session


def within(shell: Shell, script: str, *words: str) -> Done:
    """A script as the command of a run that holds x, with nothing configured."""
    command = " ".join(words)
    return shell.sh(f"leasehold run x {command} -- sh -c '{script}'", holder=None)


def events(shell: Shell, kind: str) -> list[dict[str, object]]:
    with shell.locks() as locks:
        found = locks.history(kinds=[kind])
    assert not isinstance(found, Refused)
    return [{**event.detail, "resources": event.resources} for event in found]


def ttl(shell: Shell, **env: str) -> float:
    done = shell.sh("leasehold run x -- leasehold inspect x --json", holder=None, env=env)
    (lease,) = done.said["data"]["leases"]
    return float(lease["ttl_seconds"])


# -------------------------------------------------------------------------------------------- its session


def test_the_command_takes_part_in_the_session_and_what_it_takes_ends_with_the_run(shell: Shell) -> None:
    done = within(shell, "leasehold acquire y > out; leasehold list --json")
    sessions = {lease["session"] for lease in done.said["data"]["leases"]}
    assert [lease["yours"] for lease in done.said["data"]["leases"]] == [True, True]
    assert len(sessions) == 1
    assert None not in sessions
    assert shell.holders("x") == shell.holders("y") == []
    with shell.locks() as locks:
        assert locks.sessions() == ()


def test_what_the_run_holds_is_refused_to_its_command_and_nothing_offers_to_release_it(shell: Shell) -> None:
    for verb in ("acquire x", "acquire x --wait 10m", "acquire x z", "run x -- true"):
        done = within(shell, f"leasehold {verb}")
        assert done.code == 4, verb
        assert "the `leasehold run` that this command is part of holds x: go on under that" in done.err
        assert not [word for word in ("leasehold release", "leasehold renew", "--reentrant") if word in done.err]
    assert within(shell, "leasehold acquire x --json").said["error"]["yours"] is True
    assert within(shell, "leasehold acquire x --reentrant > out").code == 0


def test_nobody_else_is_offered_to_release_what_a_run_holds(shell: Shell) -> None:
    script = "leasehold run x -- sleep 100 & trap 'kill $!' EXIT; until leasehold inspect x | grep -q held; do :; done"
    done = shell.sh(f"{script}; leasehold acquire x; leasehold release x; leasehold list --mine", holder=None)
    assert "leasehold release x" not in done.err
    assert done.err.count("leasehold acquire x --wait 10m") == 2
    assert "is yours" not in done.err
    assert done.out == "No live leases.\n"


def test_side_by_side_commands_of_a_run_get_one_yes_and_end_no_lease_of_each_other(shell: Shell) -> None:
    one = "(leasehold acquire y > out; echo $? > 1; until test -e 2; do :; done)"
    two = "until test -e 1; do :; done; leasehold acquire y --wait 10m; echo $?; leasehold release y; echo $?"
    done = within(shell, f"{one} & {two}; touch 2; wait; leasehold release y")
    assert done.out.split("\n")[:2] == ["4", "8"]
    assert "Released y (completed)" in done.out
    assert "leasehold run y --wait 10m -- …" in done.err


def test_no_command_of_a_run_releases_what_the_run_or_a_neighbour_holds(shell: Shell) -> None:
    """As a script does whose trap releases what it asked for and was refused."""
    neighbour = "(leasehold acquire y --token-file t > out; touch 1; until test -e 2; do :; done) & "
    script = (
        'echo "$LEASEHOLD_LEASE" > id; until test -e 1; do :; done; for name in x "$(cat id)" y; do'
        " leasehold release $name; echo $?; done; leasehold session end; echo $?;"
        " leasehold list --json > held; touch 2; wait"
    )
    done = within(shell, f"{neighbour} {script}")
    assert (done.code, done.out.split()) == (0, ["8"] * 4), done
    assert "that this command is part of releases it at its end" in done.err
    held = json.loads((shell.home / "held").read_text())["data"]["leases"]
    assert sorted(lease["resources"] for lease in held) == [["x"], ["y"]]


def test_a_command_of_a_run_that_extends_the_lease_of_the_run_does_not_release_it(shell: Shell) -> None:
    script = (
        "leasehold acquire x --reentrant; leasehold renew x; leasehold release x; echo $?; leasehold inspect x --json"
    )
    done = within(shell, script)
    assert "Extended x" in done.out
    assert "leasehold release" not in done.out
    assert done.out.splitlines()[-2] == "8"
    assert len(json.loads(done.out.splitlines()[-1])["data"]["leases"]) == 1


def test_side_by_side_commands_of_a_run_get_one_yes_although_both_ask_for_a_reentrant_one(shell: Shell) -> None:
    """They share the session, whose secret would be proof for each of them."""
    one = (
        "leasehold acquire $how > out; echo $? > 1; until test -e 2; do :; done; leasehold renew $y > out; echo $? > 3"
    )
    two = (
        "until test -e 1; do :; done; leasehold acquire $y --reentrant; echo $?; leasehold release $y; echo $?; touch 2"
    )
    for name, how in (("a", ""), ("b", "--reentrant"), ("c", "--token-file t")):
        done = within(shell, f'y={name}; how="{name} {how}"; ({one}) & {two}; wait; cat 1 3; rm 1 2 3')
        codes = done.out.split()
        assert codes[:3] == ["4", "8", "0"], (how, done)
        assert codes[3] == "0" or "file" in how, (how, done)
    done = within(
        shell, "leasehold acquire y > out; leasehold acquire y --reentrant > out; echo $?; leasehold release y"
    )
    assert done.out.split()[0] == "0"
    assert "Released y" in done.out


def test_a_command_of_a_run_may_update_and_renew_the_lease_of_the_run(shell: Shell) -> None:
    script = 'leasehold update x --context "{\\"step\\": 3}" > out && leasehold renew $LEASEHOLD_LEASE > out'
    done = within(shell, f"{script} && leasehold inspect x --json")
    assert (done.code, done.said["data"]["leases"][0]["context"]) == (0, {"step": 3}), done


def test_a_run_within_a_run_is_another_agent_and_waits_for_its_turn(shell: Shell) -> None:
    turn = 'leasehold run y --wait 10m -- sh -c "test ! -e busy && touch busy && rm busy"'
    assert within(shell, f"{turn} & {turn} & {turn}; a=$?; wait; exit $a").code == 0
    assert len(events(shell, "session_started")) == 4
    assert [each["status"] for each in events(shell, "released") if each["resources"] == ("y",)] == ["completed"] * 3


def test_the_session_of_a_run_that_waits_is_kept_alive(shell: Shell) -> None:
    (shell.home / "leasehold.toml").write_text("ttl_max = '6s'\n")
    holding, _ = started(shell, "until test -e go; do sleep 0.02; done")
    waiting = shell.start("run", "x", "--wait", "5m", "--", "true", holder="bob")
    with shell.locks() as locks:
        until(lambda: locks.history(kinds=["renewed"], holder="bob"))
    assert shell.waiting("x") == ["bob"]
    (shell.home / "go").touch()
    assert (holding.wait(PATIENCE), waiting.wait(PATIENCE)) == (0, 0)


@pytest.mark.parametrize("kind", ["git", "server"])
def test_it_is_the_same_on_other_stores(shell: Shell, tmp_path: Path, kind: str) -> None:
    with ExitStack() as stack:
        if kind == "git":
            subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "hub.git")], check=True)
            url = f"git+file://{tmp_path}/hub.git"
        else:
            url = stack.enter_context(serving(tmp_path)).url
        env = {"LEASEHOLD_URL": url}
        done = shell.sh("leasehold run x -- sh -c 'leasehold acquire y > out; leasehold list --json'", None, env)
        assert [lease["yours"] for lease in done.said["data"]["leases"]] == [True, True]
        path = shell.home / "pid"
        process = shell.start("run", "x", "--ttl", "10m", "--", "/bin/sh", "-c", f"echo $$ > pid; {FOR_EVER}", env=env)
        until(lambda: path.exists() and path.read_text().strip())
        process.kill()
        assert shell.run("acquire", "x", "--wait", "5m", holder="bob", env=env).code == 0


def test_a_session_that_was_given_is_used_and_outlives_the_run(shell: Shell) -> None:
    shell.run("session", "start", "--session-file", "s")
    given = (shell.home / "s").read_text().strip()
    done = shell.sh("leasehold run x --session-file s -- sh -c 'echo $LEASEHOLD_SESSION'")
    assert done.out.strip() == given
    assert shell.run("session", "heartbeat", "--session-file", "s").code == 0


def test_a_shell_that_outlives_its_run_is_told_to_leave_the_session(shell: Shell) -> None:
    """As in a terminal multiplexer that was started within a run: its panes keep the variables."""
    within(shell, "env > left")
    left = dict(line.partition("=")[::2] for line in (shell.home / "left").read_text().splitlines())
    marks = {name: left[name] for name in ("LEASEHOLD_SESSION", "LEASEHOLD_RUN", "LEASEHOLD_LEASE")}
    refused = shell.run("acquire", "y", holder=None, env=marks)
    assert refused.code == 7
    assert refused.err.endswith("act without it:\n  unset LEASEHOLD_SESSION\n")
    assert shell.run("run", "y", "--", "true", holder=None, env=marks).code == 0


def test_on_other_locks_the_session_is_left_aside(shell: Shell) -> None:
    for elsewhere in ("--space other", f"--url sqlite://{shell.home}/other.db"):
        done = within(shell, f"leasehold acquire y {elsewhere} > out; leasehold list {elsewhere} --json")
        (lease,) = done.said["data"]["leases"]
        assert lease["session"] is None


def test_a_refused_or_mistaken_run_leaves_no_session_behind(shell: Shell) -> None:
    shell.run("acquire", "x")
    for words in (("x",), ("x", "--wait", "10ms"), ("y", "--ttl", "0"), ("y", "--mode", "some"), ("y", "--ttl", "abc")):
        assert shell.run("run", *words, "--", "true", holder="bob").code in (2, 4, 5)
    with shell.locks() as locks:
        assert locks.sessions() == ()


def test_the_secret_of_a_gateways_run_comes_before_the_session_of_a_run(shell: Shell) -> None:
    env = {"SHUTDOWN_SECRET": "0123456789abcdef0123456789abcdef"}
    script = (
        "import os, sys, leasehold.cli.commands.rlock as it; sys.exit(it.main(sys.argv[1], sys.argv[2:], os.environ))"
    )
    (shell.home / "rlock.py").write_text(script)
    for command in ("rlock", "runlock"):
        done = shell.sh(f"leasehold run x -- {sys.executable} rlock.py {command} a://b", env=env)
        assert done.code == 0, done
        if command == "rlock":
            assert len(shell.holders("a://b")) == 1, "it did not end with the run"


# ------------------------------------------------------------------------------------------------ its TTL


def test_its_lease_is_short_by_default_whatever_is_configured_for_others(shell: Shell) -> None:
    assert ttl(shell) == 60
    assert ttl(shell, LEASEHOLD_TTL="2h") == 60
    assert ttl(shell, LEASEHOLD_TTL="20s") == 20
    assert (
        shell.sh("leasehold run x --ttl 5m -- leasehold inspect x --json").said["data"]["leases"][0]["ttl_seconds"]
        == 300
    )


# --------------------------------------------------------------------------------------- when it is killed


PROVES = bool(os.environ.get("LEASEHOLD_PROVE"))
NEXT_WITHIN = 5.0
"""Seconds until the next waiter has the lease: a promise, judged where the machine is left alone."""
FOR_EVER = "while :; do sleep 0.02; done"


def started(shell: Shell, script: str, *words: str, trap: str = "exit 1") -> tuple[subprocess.Popen[str], int]:
    path = shell.home / "pid"
    ready = f"trap '{trap}' TERM; echo $$ > pid.new; mv pid.new pid; {script}"
    process = shell.start("run", "x", *words, "--", "/bin/sh", "-c", ready, holder=None)
    until(lambda: path.exists() and path.read_text().strip())
    return process, int(path.read_text())


@pytest.mark.parametrize("also", [True, False], ids=["with-its-command", "alone"])
def test_when_a_run_is_killed_its_watchdog_releases_the_lease_as_failed(shell: Shell, also: bool) -> None:
    process, pid = started(shell, FOR_EVER, "--ttl", "10m")
    waiting = shell.start("acquire", "x", "--wait", "5m", holder="bob")
    until(lambda: shell.waiting("x") == ["bob"])
    struck_at = time.monotonic()
    process.kill()
    if also:
        os.killpg(pid, signal.SIGKILL)
    assert waiting.wait(PATIENCE) == 0
    assert not PROVES or time.monotonic() - struck_at < NEXT_WITHIN
    assert not is_there(pid)
    (ended,) = events(shell, "released")
    assert (ended["status"], ended["error"]) == ("failed", "leasehold run was killed")
    with shell.locks() as locks:
        until(lambda: locks.sessions() == ())


@pytest.mark.parametrize("life", [("--ttl", "2s"), ()], ids=["short", "default"])
def test_where_nothing_of_a_run_survives_its_lease_expires_within_its_ttl(shell: Shell, life: tuple[str, ...]) -> None:
    """As when the machine is switched off: neither the run nor its watchdog nor its command is left to release it."""
    process, pid = started(shell, FOR_EVER, *life)
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:  # noqa: PTH123
        family = [process.pid, *map(int, file.read().split())]
    assert len(family) == 3, "the run, its watchdog and its command"
    for each in family:
        os.kill(each, signal.SIGSTOP)  # so that none of them notices the end of another
    for each in reversed(family):
        os.kill(each, signal.SIGKILL)
    until(lambda: not any(map(is_there, family)))
    assert pid in family
    if life:
        assert shell.run("acquire", "x", "--wait", "5m", holder="bob").code == 0
        assert events(shell, "expired")
        return
    (held,) = shell.inspect("x").leases
    (session,) = _sessions(shell)
    assert max(held.ttl_us, session.ttl_us) <= 60 * SECOND


def _sessions(shell: Shell) -> tuple[Session, ...]:
    with shell.locks() as locks:
        found = locks.sessions()
    assert not isinstance(found, Refused)
    return found


def test_a_command_that_ignores_its_end_is_killed_before_the_lease_is_released(shell: Shell) -> None:
    process, pid = started(shell, FOR_EVER, "--ttl", "10m", "--kill-after", "100ms", trap="")
    process.kill()
    until(lambda: shell.holders("x") == [])
    assert not is_there(pid)


def test_a_command_that_is_only_warned_keeps_the_lease_until_it_expires(shell: Shell) -> None:
    process, pid = started(shell, FOR_EVER, "--on-lost", "warn", "--ttl", "2s")
    process.kill()
    until(lambda: shell.holders("x") == [])
    assert is_there(pid)
    assert [each["resources"] for each in events(shell, "released")] == []
    os.killpg(pid, signal.SIGKILL)


def test_after_a_suspend_the_command_is_ended_and_the_lease_is_not_said_to_be_held(shell: Shell) -> None:
    process, pid = started(shell, FOR_EVER, "--ttl", "2s", "--json")
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:  # noqa: PTH123
        asleep = [process.pid, *map(int, file.read().split())]
    for each in asleep:
        os.kill(each, signal.SIGSTOP)
    assert shell.run("acquire", "x", "--wait", "1m", holder="bob").code == 0
    for each in asleep:
        with suppress(ProcessLookupError):  # the run, which goes on first, has ended its command already
            os.kill(each, signal.SIGCONT)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 7
    assert [each.get("event") for each in Done(7, out, "").lines] == ["acquired", "lost", None]
    assert not is_there(pid)
    assert shell.holders("x") == ["bob"]

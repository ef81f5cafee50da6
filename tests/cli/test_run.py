"""leasehold run: its process group, its signals, its exit code, and what becomes of the lease."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from leasehold import Refused
from leasehold.cli.supervisor.lease import times
from leasehold.testing.conformance.asking import expect
from tests.kit.processes import is_there
from tests.kit.shell import EAGER, PATIENCE, Done, Shell, until

if TYPE_CHECKING:
    import subprocess


def ended(process: subprocess.Popen[str]) -> Done:
    out, err = process.communicate(timeout=PATIENCE)
    return Done(process.returncode, out, err)


def started(shell: Shell, script: str, *words: str, holder: str = "ada") -> tuple[subprocess.Popen[str], int]:
    """A run whose command says its pid in a file once it is ready, and that pid."""
    path = shell.home / "pid"
    path.unlink(missing_ok=True)
    process = shell.start("run", "x", *words, "--", "/bin/sh", "-c", script, holder=holder, command=EAGER)
    until(lambda: path.exists() and path.read_text().strip())
    return process, int(path.read_text())


READY = "echo $$ > pid.new; mv pid.new pid;"
FOR_EVER = f"{READY} while :; do sleep 0.02; done"
STUBBORN = f"trap '' TERM; {FOR_EVER}"


def last(shell: Shell, kind: str) -> dict[str, object]:
    with shell.locks() as locks:
        found = locks.history(kinds=[kind])
    assert not isinstance(found, Refused)
    return dict(found[0].detail)


# ------------------------------------------------------------------------------------------- a plain run


def test_the_command_sees_its_lease_and_its_output_is_its_own(shell: Shell) -> None:
    script = "echo $LEASEHOLD_LEASE $LEASEHOLD_FENCE $LEASEHOLD_RESOURCE; leasehold_home=$HOME; echo err >&2; cat"
    done = shell.run("run", "x", "--", "/bin/sh", "-c", script, give="input\n")
    assert done.code == 0
    lease, fence, resource = done.out.splitlines()[0].split()
    assert lease.startswith("l1-")
    assert (fence, resource) == ("1", "x")
    assert done.out.splitlines()[1:] == ["input"]
    assert done.err == "err\n"
    assert shell.holders("x") == []


@pytest.mark.parametrize("code", [0, 1, 3, 7, 126, 255])
def test_the_exit_code_is_passed_through_and_told_to_the_history(shell: Shell, code: int) -> None:
    assert shell.run("run", "x", "--", "/bin/sh", "-c", f"exit {code}").code == code
    end = last(shell, "released")
    assert end["status"] == ("completed" if code == 0 else "failed")
    assert end.get("error") == (None if code == 0 else f"exit code {code}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGABRT])
def test_a_signal_that_ends_the_command_is_128_more(shell: Shell, number: signal.Signals) -> None:
    assert shell.run("run", "x", "--", "/bin/sh", "-c", f"kill -{number.value} $$").code == 128 + number


def test_what_cannot_be_run_is_said_like_a_shell_would(shell: Shell) -> None:
    missing = shell.run("run", "x", "--", "/no/such/command")
    assert missing.code == 127
    assert "cannot run /no/such/command: No such file or directory" in missing.err
    (shell.home / "plain").write_text("x")
    assert shell.run("run", "x", "--", "./plain").code == 126
    assert shell.run("run", "x", "--json", "--", "/no/such/command").lines[-1]["error"]["code"] == "not_started"
    assert shell.holders("x") == []


def test_what_is_held_is_not_run(shell: Shell) -> None:
    shell.run("acquire", "x")
    for holder in ("bob", "ada"):
        done = shell.run("run", "x", "--", "/bin/sh", "-c", "touch ran", holder=holder)
        assert done.code == 4
        assert "Held: x" in done.err
    assert shell.run("run", "x", "--wait", "20ms", "--", "touch", "ran", holder="bob").code == 5
    assert not (shell.home / "ran").exists()


def test_json_lines_end_in_the_answer_and_the_output_of_the_command_is_elsewhere(shell: Shell) -> None:
    done = shell.run("run", "x", "--json", "--", "/bin/sh", "-c", "echo hello; exit 3")
    assert done.code == 3
    assert done.err == "hello\n"
    assert [line.get("event") for line in done.lines] == ["acquired", None]
    assert done.lines[-1]["ok"] is True
    data = done.lines[-1]["data"]
    assert (data["exit_code"], data["status"], data["released"]) == (3, "failed", True)


def test_the_lease_is_renewed_meanwhile(shell: Shell) -> None:
    process, _ = started(shell, f"{READY} until [ -e stop ]; do sleep 0.02; done", "--ttl", "15s")
    with shell.locks() as locks:
        until(lambda: len(expect(tuple, locks.history(kinds=["renewed"]))) >= 2)
    (shell.home / "stop").touch()
    assert ended(process).code == 0


# ----------------------------------------------------------------------------------------------- signals


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2]
)
def test_signals_are_passed_on_to_the_whole_group(shell: Shell, number: signal.Signals) -> None:
    script = (
        f"import os, signal; signal.signal({number.value}, lambda *_: (os.write(1, b'got it\\n'), os._exit(5)));"
        "os.write(1, b'ready\\n')\nwhile True: signal.pause()"
    )
    process = shell.start("run", "x", "--", sys.executable, "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    done = ended(process)
    assert (done.code, done.out) == (5, "got it\n")


def test_a_command_that_does_not_handle_it_ends_by_it(shell: Shell) -> None:
    process, pid = started(shell, FOR_EVER)
    process.terminate()
    assert ended(process).code == 143
    assert not is_there(pid)
    assert shell.holders("x") == []


def test_the_command_is_in_a_group_of_its_own(shell: Shell) -> None:
    process, pid = started(shell, FOR_EVER)
    assert os.getpgid(pid) == pid
    assert os.getpgid(process.pid) != pid
    process.terminate()
    ended(process)


def test_what_the_command_leaves_behind_in_its_group_does_not_outlive_the_lease(shell: Shell) -> None:
    process, pid = started(
        shell, "sh -c 'echo $$ > pid.new; mv pid.new pid; exec sleep 1000' & until [ -e pid ]; do :; done"
    )
    assert ended(process).code == 0
    assert not is_there(pid)
    assert shell.holders("x") == []


def test_a_stopped_command_is_woken_to_hear_of_its_end(shell: Shell) -> None:
    process, pid = started(shell, FOR_EVER)
    os.kill(pid, signal.SIGSTOP)
    process.terminate()
    assert ended(process).code == 143


# ---------------------------------------------------------------------------------------- when it is lost


def test_a_lease_taken_by_force_ends_the_command(shell: Shell) -> None:
    process, pid = started(shell, FOR_EVER, "--ttl", "24h")
    shell.run("force-release", "x", "--reason", "stop it", holder="ops")
    done = ended(process)
    assert done.code == 7
    assert "the lease is lost: forced by ops: stop it" in done.err
    assert not is_there(pid)


def test_a_command_that_will_not_end_is_killed(shell: Shell) -> None:
    process, pid = started(shell, STUBBORN, "--ttl", "24h", "--kill-after", "50ms")
    shell.run("force-release", "x", "--reason", "stop it", holder="ops")
    assert ended(process).code == 7
    assert not is_there(pid)


def test_the_command_may_tidy_up_unless_it_is_killed_at_once(shell: Shell) -> None:
    tidy = f"trap 'touch tidied; exit 0' TERM; {FOR_EVER}"
    for how, is_tidied in (("term", True), ("kill", False)):
        (shell.home / "tidied").unlink(missing_ok=True)
        process, _ = started(shell, tidy, "--ttl", "24h", "--on-lost", how)
        shell.run("force-release", "x", "--reason", "stop it", holder="ops")
        assert ended(process).code == 7
        assert (shell.home / "tidied").exists() is is_tidied


def test_with_warn_the_command_goes_on_and_its_exit_code_counts(shell: Shell) -> None:
    script = f"{READY} until [ -e stop ]; do sleep 0.02; done; exit 5"
    process, pid = started(shell, script, "--ttl", "24h", "--on-lost", "warn")
    shell.run("steal", "x", "--reason", "mine now", holder="ops")
    assert process.stderr is not None
    assert "the lease is lost" in process.stderr.readline()
    assert is_there(pid)
    (shell.home / "stop").touch()
    assert ended(process).code == 5
    assert shell.holders("x") == ["ops"]


def test_lost_is_told_in_json(shell: Shell) -> None:
    process, _ = started(shell, FOR_EVER, "--ttl", "24h", "--json")
    shell.run("force-release", "x", "--reason", "stop it", holder="ops")
    lines = ended(process).lines
    assert [line.get("event") for line in lines] == ["acquired", "lost", None]
    assert lines[-1]["error"]["code"] == "lost"
    assert lines[-1]["error"]["exit_code"] == 143


def test_a_lease_in_a_session_lives_no_longer_than_the_session(shell: Shell) -> None:
    shell.run("session", "start", "--ttl", "4s", "--session-file", "s")
    process, pid = started(shell, FOR_EVER, "--ttl", "10m", "--session-file", "s")
    assert ended(process).code == 7
    assert not is_there(pid)


def test_a_watchdog_that_was_killed_is_replaced(shell: Shell) -> None:
    process, pid = started(shell, FOR_EVER, "--ttl", "30s")
    for _ in range(2):
        before = children(process.pid)
        (watchdog,) = before - {pid}
        os.kill(watchdog, signal.SIGKILL)
        until(partial(is_replaced, process.pid, before))
    process.kill()
    ended(process)
    until(lambda: not is_there(pid))


def is_replaced(parent: int, before: set[int]) -> bool:
    return bool(children(parent) - before)


def children(pid: int) -> set[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123
        return {int(each) for each in file.read().split() if is_there(int(each))}


@pytest.mark.parametrize("life", [0.01, 0.05, 0.1, 1.0, 60.0, 86_400.0])
def test_however_short_its_life_it_is_renewed_before_the_command_is_ended(life: float) -> None:
    found = times(0.0, life, kill_after=10.0)
    assert 0 < found.renew_at < found.term_at < found.kill_at < found.gone_at == life


# ------------------------------------------------------------------------------------------------ --lead


def test_a_candidate_waits_until_the_leader_resigns(shell: Shell) -> None:
    leader, pid = started(shell, FOR_EVER, "--lead")
    candidate = shell.start("run", "x", "--lead", "--", "/bin/sh", "-c", "echo $LEASEHOLD_FENCE", holder="bob")
    until(lambda: shell.waiting("x"))
    assert [each.name for each in shell.inspect("x").leases] == ["leader"]
    os.kill(pid, signal.SIGTERM)
    assert ended(leader).code == 128 + signal.SIGTERM
    done = ended(candidate)
    assert done.code == 0
    assert int(done.out) > 1, "the number of the term grows"
    assert shell.holders("x") == []


def test_a_deposed_leader_ends_its_command_and_leads_again(shell: Shell) -> None:
    script = f"echo $LEASEHOLD_FENCE >> terms; {FOR_EVER}"
    leader, pid = started(shell, script, "--lead")
    assert shell.run("force-release", "x", "--reason", "drill", "--by", "ops", holder="ops").code == 0
    terms = shell.home / "terms"
    until(lambda: len(terms.read_text().split()) == 2)
    assert not is_there(pid)
    leader.terminate()
    done = ended(leader)
    assert "the lease is lost: forced by ops: drill" in done.err
    assert "deposed; waiting to be elected again" in done.err
    first, second = map(int, terms.read_text().split())
    assert first < second


def test_a_leader_whose_command_ends_resigns_with_its_exit_code(shell: Shell) -> None:
    assert shell.run("run", "x", "--lead", "--", "/bin/sh", "-c", "exit 7").code == 7
    assert last(shell, "released")["error"] == "exit code 7"


@pytest.mark.parametrize("option", [("--wait", "3"), ("--on-lost", "warn")])
def test_options_that_contradict_leading_are_refused(shell: Shell, option: tuple[str, str]) -> None:
    done = shell.run("run", "x", "--lead", *option, "--", "true")
    assert done.code == 2
    assert option[0].removeprefix("--").replace("-", "_") in done.err

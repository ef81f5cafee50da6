"""Waiting in a queue on the command line: served in turn, and a way out that leaves nothing behind."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.kit.shell import PATIENCE, Done, Shell, until

if TYPE_CHECKING:
    import subprocess

WAYS = [
    ["acquire", "x", "--wait", "10m"],
    ["acquire", "x", "--wait", "10m", "--json"],
    ["run", "x", "--wait", "10m", "--", "true"],
]


def ended(process: subprocess.Popen[str]) -> Done:
    out, err = process.communicate(timeout=PATIENCE)
    return Done(process.returncode, out, err)


def queued(shell: Shell, *words: str) -> subprocess.Popen[str]:
    """A command that waits for `x`."""
    process = shell.start(*words, holder="bob")
    until(lambda: shell.waiting("x") == ["bob"])
    return process


def test_who_waits_is_served_when_it_is_free(shell: Shell) -> None:
    shell.run("acquire", "x")
    process = queued(shell, "acquire", "x", "--wait", "10m")
    shell.run("release", "x")
    done = ended(process)
    assert done.code == 0
    assert done.out.startswith("Acquired x\n")
    assert done.err == "", "a live line is for terminals"
    assert shell.run("release", "x", holder="bob").code == 0


@pytest.mark.parametrize("words", WAYS)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_during_a_wait_leaves_the_queue(
    shell: Shell, words: list[str], number: signal.Signals, code: int
) -> None:
    shell.run("acquire", "x")
    process = queued(shell, *words)
    process.send_signal(number)
    done = ended(process)
    assert done.code == code
    assert "Traceback" not in done.err
    assert shell.waiting("x") == [], "at once, not when its heartbeat is missed"
    if "--json" in words:
        assert done.said["error"]["code"] == "interrupted"
    shell.run("release", "x")
    assert shell.holders("x") == []


def test_a_signal_that_is_ignored_from_the_start_stays_ignored(shell: Shell) -> None:
    shell.run("acquire", "x")
    process = shell.start(
        "acquire", "x", "--wait", "10m", holder="bob", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )
    until(lambda: shell.waiting("x") == ["bob"])
    process.send_signal(signal.SIGHUP)
    shell.run("release", "x")
    assert ended(process).code == 0


def test_who_is_interrupted_ends_even_if_the_store_hangs(shell: Shell) -> None:
    shell.run("acquire", "x")
    process = queued(shell, "acquire", "x", "--wait", "10m")
    gate = os.open(f"{shell.database}.gate", os.O_RDWR)
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        process.send_signal(signal.SIGTERM)
        assert ended(process).code == 143
    finally:
        os.close(gate)
    shell.run("release", "x")
    assert shell.run("acquire", "x", "--wait", "1m", holder="eve").code == 0


def test_who_is_interrupted_when_it_is_served_holds_nothing(shell: Shell) -> None:
    for _ in range(10):
        shell.run("acquire", "x")
        process = queued(shell, "acquire", "x", "--wait", "10m")
        releasing = shell.start("release", "x")
        process.send_signal(signal.SIGINT)
        done = ended(process)
        assert ended(releasing).code == 0
        assert done.code in (0, 130)
        if done.code == 130:  # what was promised to it in that very moment is nobody's within two seconds
            until(lambda: shell.holders("x") == [])
        assert shell.holders("x") == (["bob"] if done.code == 0 else [])
        # It finds nothing to release, or the note of a lease that it had before the signal, and released itself.
        assert shell.run("release", "x", holder="bob").code in ((0,) if done.code == 0 else (0, 3))


def test_who_is_killed_in_the_queue_is_never_served(shell: Shell) -> None:
    shell.run("acquire", "x")
    process = queued(shell, "acquire", "x", "--wait", "10m")
    process.kill()
    ended(process)
    shell.run("release", "x")
    assert shell.run("acquire", "x", "--wait", "1m", holder="eve").code == 0


@pytest.mark.parametrize("words", WAYS)
@pytest.mark.parametrize(("held", "asked"), [("path:x", "path:x/a.py"), ("x", "x"), ("path:x/a.py", "repo:x")])
def test_a_wait_on_oneself_is_refused_at_once(shell: Shell, words: tuple[str, ...], held: str, asked: str) -> None:
    shell.run("acquire", held)
    done = shell.run(*(asked if word == "x" else word for word in words))
    assert done.code == 4, done
    assert "yours since" in done.err + done.out
    assert shell.waiting(asked) == []


def test_a_wait_ends_with_its_session_under_a_code_of_its_own(shell: Shell) -> None:
    shell.run("acquire", "x")
    credential = shell.run("session", "start", holder="bob").out.partition("=")[2].strip()
    with_session = {"LEASEHOLD_SESSION": credential}
    process = shell.start("acquire", "x", "--wait", "10m", "--json", holder="bob", env=with_session)
    until(lambda: shell.waiting("x") == ["bob"])
    assert shell.run("session", "end", holder="bob", env=with_session).code == 0
    done = ended(process)
    assert (done.code, done.said["error"]["code"]) == (7, "session_over")
    after = shell.run("acquire", "y", holder="bob", env=with_session)
    assert after.code == 7
    assert after.err.endswith("begin a session:\n  leasehold session start\n")


def test_a_run_that_waits_tells_its_place_as_json_lines(shell: Shell) -> None:
    shell.run("acquire", "x", "--name", "fix the parser")
    process = shell.start("run", "x", "--wait", "10m", "--json", "--", "true", holder="bob")
    assert process.stdout is not None
    first = process.stdout.readline()
    assert '"event": "waiting"' in first
    assert '"position": 1' in first
    assert '"fix the parser"' in first
    shell.run("release", "x")
    done = ended(process)
    assert done.code == 0
    assert [line.get("event") for line in done.lines] == ["acquired", None]


def test_a_wait_for_several_names_tells_who_holds_any_of_them(shell: Shell) -> None:
    shell.run("acquire", "x", "--name", "fix the parser")
    process = shell.start("run", "free", "x", "--wait", "10m", "--json", "--", "true", holder="bob")
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    assert (first["event"], first["position"]) == ("waiting", 1)
    assert [(lease["holder"], lease["name"]) for lease in first["holders"]] == [("ada", "fix the parser")]
    shell.run("release", "x")
    assert ended(process).code == 0

"""leasehold run on a terminal: the command has it while it runs, and stops and goes on like any job."""

from __future__ import annotations

import os
import signal
import sys

from tests.kit.processes import state
from tests.kit.shell import Shell, until
from tests.kit.terminals import Terminal

FOR_EVER = """
import os, pathlib, signal, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
pathlib.Path("pid.new").write_text(str(os.getpid()))
os.rename("pid.new", "pid")
while not os.path.exists("stop"):
    time.sleep(0.02)
"""
"""It starts no process of its own: a process that is stopped between vfork and exec cannot be seen to be stopped."""


def command(shell: Shell) -> int:
    path = shell.home / "pid"
    until(path.exists)
    return int(path.read_text())


def test_the_command_reads_what_is_typed(shell: Shell) -> None:
    with Terminal(shell, "run", "x", "--", "/bin/sh", "-c", 'echo ready; read line; echo "got <$line>"') as terminal:
        terminal.until("ready")
        terminal.type("hello\n")
        terminal.until("got <hello>")
        assert terminal.end() == 0


def test_ctrl_c_ends_the_command_and_not_before_it_the_run(shell: Shell) -> None:
    with Terminal(shell, "run", "x", "--", sys.executable, "-c", FOR_EVER) as terminal:
        pid = command(shell)
        terminal.type(chr(3))
        assert terminal.end() == 130
    assert state(pid) in ("", "Z")
    assert shell.holders("x") == []
    assert "Traceback" not in terminal.shown


def test_ctrl_z_stops_both_and_both_go_on(shell: Shell) -> None:
    with Terminal(shell, "run", "x", "--", sys.executable, "-c", FOR_EVER) as terminal:
        pid = command(shell)
        terminal.type(chr(26))
        until(lambda: state(pid) == "T" and state(terminal.pid) == "T")
        os.kill(terminal.pid, signal.SIGCONT)
        until(lambda: state(pid) not in ("", "T", "Z"))
        (shell.home / "stop").touch()
        assert terminal.end() == 0


def test_who_is_stopped_for_too_long_loses_the_command(shell: Shell) -> None:
    with Terminal(shell, "run", "x", "--ttl", "4s", "--", sys.executable, "-c", FOR_EVER) as terminal:
        pid = command(shell)
        terminal.type(chr(26))
        until(lambda: state(pid) in ("", "Z"))
        os.kill(terminal.pid, signal.SIGCONT)
        assert terminal.end() == 7
    assert "the lease is lost" in terminal.shown


def test_the_terminal_comes_back_when_the_command_has_ended(shell: Shell) -> None:
    script = 'leasehold run x -- true && read line && echo "got <$line>"'
    with Terminal(shell, "-c", script, command=["/bin/bash"]) as terminal:
        terminal.type("hello\n")
        terminal.until("got <hello>")
        assert terminal.end() == 0


def test_a_job_in_the_background_leaves_the_terminal_alone(shell: Shell) -> None:
    script = 'set -m; leasehold run x -- sh -c "echo done > done" & read line; wait; cat done; echo "got <$line>"'
    with Terminal(shell, "-c", script, command=["/bin/bash"]) as terminal:
        terminal.type("hello\n")
        terminal.until("got <hello>")
        assert terminal.end() == 0

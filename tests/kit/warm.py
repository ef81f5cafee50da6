"""Processes forked from one that has loaded all they need: for tests that want one each, hundreds of times.

Each is a process of its own. It runs `leasehold serve`, as those of `serving`, or carries out calls, as those of
`in_a_process`; only that it need not load anything. `python -m tests.kit.warm` is the process that they are forked
from. No tests in here.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from leasehold.testing.processes import ProcessAnswers, ProcessLocks, carry_out
from tests.kit.shell import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leasehold.locks.sync import Locks

_DEATH_SIGNAL = 1
_prctl = getattr(ctypes.CDLL(None), "prctl", None)
"""Linux has it."""
NEEDED = (
    *("leasehold.cli.context", "leasehold.cli.output", "leasehold.cli.commands.serve", "leasehold.cli.entry.table"),
    *("leasehold.locks.hosted", "leasehold.server.serve", "leasehold.server.webhooks.settings"),
    *("leasehold.stores.sqlite.opening", "uvicorn.lifespan.off", "uvicorn.logging", "uvloop"),
)


NEEDED_FOR_CALLS = (
    *("leasehold.locks.connect", "leasehold.locks.local", "leasehold.locks.queries", "leasehold.requests.lookups"),
    *("leasehold.stores.sqlite.opening", "leasehold.stores.sqlite.reader"),
    *("leasehold.stores.sqlite.file_modes", "leasehold.stores.sqlite.event_rows", "leasehold.stores.sqlite.wal"),
)


class Nursery:
    """The process that all of them come from; it is asked in lines of JSON, and answers in such lines."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        settings = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kit.warm"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**settings, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def ask(self, **told: object) -> Any:  # noqa: ANN401 (whatever it says)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._asking:
            self._process.stdin.write(json.dumps(told) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        assert line, "the process that servers are forked from has ended"
        return json.loads(line)

    def close(self) -> None:
        """It ends, and so do its servers."""
        self._process.communicate()


@cache
def nursery() -> Nursery:
    """One for a whole run of the tests."""
    started = Nursery()
    atexit.register(started.close)
    return started


@contextmanager
def warm_serving(folder: Path, *words: str) -> Iterator[str]:
    """A server in this folder, until the end of the block; its URL."""
    log = folder / "log"
    told = nursery().ask(folder=str(folder), log=str(log), words=["serve", "--port", "0", *words])
    assert told["said"].startswith("Serving "), (told, log.read_text())
    try:
        yield told["said"].split()[1]
    finally:
        nursery().ask(end=told["pid"])


class Forked:
    """A process that carries out calls, seen from outside as a `Popen` is."""

    def __init__(self) -> None:
        self._code: int | None = None
        with tempfile.TemporaryDirectory() as folder:
            calls, answers = f"{folder}/calls", f"{folder}/answers"
            os.mkfifo(calls)
            os.mkfifo(answers)
            told = nursery().ask(calls=calls, answers=answers, folder=str(Path.cwd()), env=dict(os.environ))
            self.pid: int = told["pid"]
            self.stdin: IO[bytes] | None = Path(calls).open("wb")  # noqa: SIM115 (as long as the process)
            self.stdout: IO[bytes] | None = Path(answers).open("rb")  # noqa: SIM115

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, as soon as it has ended."""
        give_up = None if timeout is None else time.monotonic() + timeout
        while self._code is None:
            self._code = nursery().ask(ended=self.pid)["code"]
            if give_up is not None and time.monotonic() > give_up and self._code is None:
                raise subprocess.TimeoutExpired("a forked process", timeout or 0)
            time.sleep(0.001)
        return self._code

    def kill(self) -> None:
        """End it at once, unless it has ended."""
        if self._code is None:
            self._code = nursery().ask(end=self.pid)["code"]


def in_a_forked_process(connect: Callable[..., Locks], *arguments: object, **options: Any) -> ProcessLocks:
    """Return the same as `in_a_process`."""
    return ProcessLocks(ProcessAnswers(Forked(), connect, arguments, options))


# ------------------------------------------------------------------------------------- in that process


def _begin_to_carry_out(calls: str, answers: str, folder: str, env: dict[str, str]) -> dict[str, object]:
    for name in NEEDED_FOR_CALLS:
        import_module(name)
    pid = os.fork()
    if pid == 0:
        _end_with_the_nursery()
        os.environ.clear()
        os.environ.update(env)
        os.chdir(folder)
        os.dup2(os.open(calls, os.O_RDONLY), 0)
        os.dup2(os.open(answers, os.O_WRONLY), 1)
        os.closerange(3, 64)
        carry_out()
        os._exit(0)
    return {"pid": pid}


def _begin(folder: str, log: str, words: list[str]) -> dict[str, object]:
    for name in NEEDED:
        import_module(name)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_a_server(folder, log, words, writing)
    os.close(writing)
    with os.fdopen(reading) as said:
        return {"pid": pid, "said": said.readline()}


def _be_a_server(folder: str, log: str, words: list[str], announcing: int) -> None:
    from leasehold.cli import main

    _end_with_the_nursery()
    os.chdir(folder)
    nothing = os.open(os.devnull, os.O_RDONLY)
    logging = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number, stream in enumerate((nothing, announcing, logging)):
        os.dup2(stream, number)
    os.closerange(3, 64)
    sys.argv = ["leasehold", *words]
    main()
    os._exit(1)  # it never comes back


def _end_with_the_nursery() -> None:
    if _prctl is not None:
        _prctl(_DEATH_SIGNAL, signal.SIGKILL)


def _ended(pid: int) -> dict[str, object]:
    found, status = os.waitpid(pid, os.WNOHANG)
    return {"code": os.waitstatus_to_exitcode(status) if found else None}


def _end(pid: int) -> dict[str, object]:
    os.kill(pid, signal.SIGKILL)
    return {"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}


def _answer(told: dict[str, Any]) -> dict[str, object]:
    if "ended" in told:
        return _ended(told["ended"])
    if "end" in told:
        return _end(told["end"])
    return _begin_to_carry_out(**told) if "calls" in told else _begin(**told)


def _main() -> None:
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    _main()

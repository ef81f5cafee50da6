"""Servers forked from a process that has loaded all they need: for tests that want one each, hundreds of times.

Each is a process of its own and runs `leasehold serve`, as those of `serving`; only that it need not load anything.
`python -m tests.kit.warm` is the process that they are forked from. No tests in here.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tests.kit.shell import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DEATH_SIGNAL = 1
_prctl = getattr(ctypes.CDLL(None), "prctl", None)
"""Linux has it."""
NEEDED = (
    *("leasehold.cli.context", "leasehold.cli.output", "leasehold.cli.commands.serve", "leasehold.cli.entry.table"),
    *("leasehold.locks.hosted", "leasehold.server.serve", "leasehold.server.webhooks.settings"),
    *("leasehold.stores.sqlite.opening", "uvicorn.lifespan.off", "uvicorn.logging", "uvloop"),
)


class Nursery:
    """The process that all of them come from; it is asked by lines of JSON, and answers likewise."""

    def __init__(self) -> None:
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


# ------------------------------------------------------------------------------------- in that process


def _begin(folder: str, log: str, words: list[str]) -> dict[str, object]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_a_server(folder, log, words, writing)
    os.close(writing)
    with os.fdopen(reading) as said:
        return {"pid": pid, "said": said.readline()}


def _be_a_server(folder: str, log: str, words: list[str], announcing: int) -> None:
    from leasehold.cli import main

    if _prctl is not None:
        _prctl(_DEATH_SIGNAL, signal.SIGKILL)
    os.chdir(folder)
    nothing = os.open(os.devnull, os.O_RDONLY)
    logging = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number, stream in enumerate((nothing, announcing, logging)):
        os.dup2(stream, number)
    os.closerange(3, 64)
    sys.argv = ["leasehold", *words]
    main()
    os._exit(1)  # it never comes back


def _end(pid: int) -> dict[str, object]:
    os.kill(pid, signal.SIGKILL)
    return {"pid": os.waitpid(pid, 0)[0]}


def _main() -> None:
    for name in NEEDED:
        import_module(name)
    for line in sys.stdin:
        told = json.loads(line)
        print(json.dumps(_end(told["end"]) if "end" in told else _begin(**told)), flush=True)


if __name__ == "__main__":
    _main()

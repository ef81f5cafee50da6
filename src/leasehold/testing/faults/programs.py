"""Programs of a run: started, killed, stopped and continued by their ids, and ended with the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO

    from leasehold.testing.faults.namespaces import Host

PATIENCE = 90.0


class Program:
    """One process of ours, and what it takes to start it again."""

    def __init__(
        self, words: Sequence[str], log: Path, environment: dict[str, str] | None = None, host: Host | None = None
    ) -> None:
        self._words = words
        self._log = log
        self._environment = environment
        self._host = host
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it."""
        settings = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
        paths = os.pathsep.join(filter(None, sys.path))
        with self._log.open("a") as log, self._host.inside() if self._host else nullcontext():
            self.process = subprocess.Popen(  # noqa: S603 (our own interpreter, our own modules)
                [sys.executable, "-m", *self._words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**settings, "PYTHONPATH": paths, **(self._environment or {})},
            )

    @property
    def running(self) -> subprocess.Popen[str]:
        """The process; it must have been started."""
        assert self.process is not None, "not started"
        return self.process

    def announced(self) -> str:
        """Return its first line."""
        out: IO[str] | None = self.running.stdout
        assert out is not None
        line = out.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self._words)} did not start: {self._log.read_text()[-2000:]}")
        return line

    def kill(self) -> None:
        """End it at once, and close its pipes."""
        if self.process is not None:
            self.process.kill()
            self._wait()

    def stop(self) -> None:
        """Stop it: it neither answers nor closes its connections."""
        self.running.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue it."""
        self.running.send_signal(signal.SIGCONT)

    def finish(self) -> int:
        """Let it end by the end of its standard input, and return its exit code."""
        with suppress(OSError):  # it has ended already
            assert self.running.stdin is not None
            self.running.stdin.close()
        return self._wait()

    def _wait(self) -> int:
        process = self.running
        try:
            return process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):  # it was killed with something unread
                        stream.close()
            self.process = None


def family(pid: int) -> Iterator[int]:
    """Yield this process and all that descend from it. On Linux only."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from family(int(child))


def signal_family(pid: int, number: signal.Signals) -> None:
    """Send a signal to this process and all that descend from it, the oldest first."""
    for each in [*family(pid)]:
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(each, number)

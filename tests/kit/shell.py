"""Real `leasehold` commands, each a process of its own, by a user who has configured nothing. No tests in here."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from unittest.mock import patch

import leasehold
from leasehold.cli import main
from leasehold.cli.entry import help as cli_help
from leasehold.domain.leases import Inspection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from leasehold import Locks

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(leasehold.__file__).resolve().parents[1]
"""Of the package under test: src, or where a compiled one lies (see ``tests.compiled``)."""
PATIENCE = 60.0
"""Far longer than anything here takes, however busy the machine is."""
COMMAND = [sys.executable, "-m", "leasehold.cli"]
EAGER = [
    *(sys.executable, "-c"),
    "import sys, leasehold.cli as c, leasehold.cli.supervisor.lease as it; it.RENEWALS = 30; sys.exit(c.main())",
]
"""A shell whose runs renew ten times as often, so that a loss is noticed soon although the TTL is long."""


parser_built_once = cache(cli_help.build)
"""The parser of all commands takes 15 ms to build, and `Shell.call` would build it for every command."""


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> Any:  # noqa: ANN401 (whatever it is)
        """The one JSON object on standard output."""
        lines = self.out.splitlines()
        assert len(lines) == 1, self
        return json.loads(lines[0])

    @property
    def lines(self) -> list[Any]:
        """The JSON lines on standard output."""
        return [json.loads(line) for line in self.out.splitlines()]


def until(condition: Callable[[], object]) -> None:
    """Wait for this instead of sleeping for a fixed time."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, "it never came true"
        time.sleep(0.005)


IGNORED = tuple(
    number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT) if signal.getsignal(number) is signal.SIG_IGN
)
"""By the starter of the tests, such as `nohup`, or a shell in the background; commands inherit that, and honour it."""


def heed_signals() -> None:
    """In a command before it begins: as a terminal would have started it."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)


class Shell:
    """A home directory, the commands that run there, and an eye on their store from outside."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.state = home / "state"
        self.database = self.state / "leasehold" / "leasehold.db"
        self.processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        self.home.mkdir(exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()

    def env(self, holder: str | None = "ada", more: Mapping[str, str] | None = None) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        ours = {
            "HOME": str(self.home),
            "USER": "ada",
            "XDG_STATE_HOME": str(self.state),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "PYTHONPATH": str(SOURCE),
            "PYTHONWARNINGS": "error",
        }
        who = {} if holder is None else {"LEASEHOLD_HOLDER": holder}
        return {**kept, **ours, **who, **(more or {})}

    def run(
        self, *words: str, holder: str | None = "ada", give: str | None = None, env: Mapping[str, str] | None = None
    ) -> Done:
        """Run a command to its end."""
        process = self.start(*words, holder=holder, env=env)
        out, err = process.communicate(give, PATIENCE)
        self.processes.remove(process)
        return Done(process.returncode, out, err)

    def start(
        self,
        *words: str,
        holder: str | None = "ada",
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = COMMAND,
        **settings: Any,
    ) -> subprocess.Popen[str]:
        """Start a command; it is ended with the test, if it has not ended by then."""
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        if IGNORED:
            settings.setdefault("preexec_fn", heed_signals)
        process = subprocess.Popen(
            [*command, *words],
            cwd=self.home,
            env=self.env(holder, env),
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
            **{**streams, **settings},
        )
        self.processes.append(process)
        return process

    def json(
        self, *words: str, holder: str | None = "ada", give: str | None = None, env: Mapping[str, str] | None = None
    ) -> Any:  # noqa: ANN401 (whatever it is)
        """The one object that a command prints with --json. Without a holder, the process is its name."""
        words = (*words, "--json")
        alone = give is not None or holder is None
        done = (
            self.run(*words, holder=holder, give=give, env=env) if alone else self.call(*words, holder=holder, env=env)
        )
        assert done.said["ok"] == (done.code == 0), done
        return done.said

    def call(self, *words: str, holder: str | None = "ada", env: Mapping[str, str] | None = None) -> Done:
        """The same as `run` without a process: for many commands whose streams and signals do not matter."""
        out, err = io.StringIO(), io.StringIO()
        with (
            patch.dict(os.environ, self.env(holder, env), clear=True),
            patch.object(cli_help, "build", parser_built_once),
            chdir(self.home),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                code = main(words)
            except SystemExit as end:
                code = int(end.code or 0)
        return Done(code, out.getvalue(), err.getvalue())

    def sh(self, script: str, holder: str | None = "ada", env: Mapping[str, str] | None = None) -> Done:
        """Run a shell script in which `leasehold` is our command line."""
        done = subprocess.run(
            ["/bin/sh", "-c", script],
            cwd=self.home,
            env=self.with_command(self.env(holder, env)),
            text=True,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def with_command(self, env: dict[str, str]) -> dict[str, str]:
        """An environment in which `leasehold` is our command line."""
        command = self.home / "bin" / "leasehold"
        command.parent.mkdir(exist_ok=True)
        if not command.exists():  # the kernel starts no file that is open for writing: an earlier process may run it
            command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m leasehold.cli "$@"\n')
            command.chmod(0o755)
        return {**env, "PATH": f"{command.parent}:{env['PATH']}"}

    # ------------------------------------------------------------------------------------- from outside

    @contextmanager
    def locks(self, holder: str = "outside") -> Iterator[Locks]:
        """The same store, through the Python API."""
        self.database.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        locks = leasehold.connect(f"sqlite://{self.database}", holder=holder)
        try:
            yield locks
        finally:
            locks.close()

    def waiting(self, resource: str) -> list[str]:
        """Who waits for this."""
        return [each.holder for each in self.inspect(resource).waiting]

    def holders(self, resource: str) -> list[str]:
        """Who holds this."""
        return [each.holder for each in self.inspect(resource).leases]

    def inspect(self, resource: str) -> Inspection:
        with self.locks() as locks:
            seen = locks.inspect(resource)
        assert isinstance(seen, Inspection)
        return seen

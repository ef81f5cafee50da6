"""A store for the length of a command: what the modules that start real stores share."""

from __future__ import annotations

import random
import socket
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Protocol

    class Lent(Protocol):
        """A store that is running."""

        @property
        def url(self) -> str:
            """The URL of the store."""


PORTS = (16_000, 32_000)
"""Below those that the system hands out: a server that is restarted must find its port free."""
_chance = random.SystemRandom()
"""Several runs of the tests at a time must not draw the same ports, whatever has been seeded."""


def free_port() -> int:
    """Return a port of the loopback interface that is free, and that the system gives to no client."""
    while True:
        port = _chance.randrange(*PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Leash:
    """Ends a process of ours, if one is given, and removes a folder, once we are gone, for whatever reason."""

    def __init__(self, pid: int | None, folder: Path) -> None:
        # The shell waits for a line that never comes: its standard input ends with us, and with nothing else.
        script = 'read -r _; [ -z "$1" ] || kill -9 "$1"; rm -rf -- "$2"'
        words = ["/bin/sh", "-c", script, "sh", str(pid or ""), str(folder)]
        quiet = subprocess.DEVNULL
        self._shell = subprocess.Popen(  # noqa: S603 (our own words)
            words, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True
        )

    def end(self) -> None:
        """Remove the leash: the process has ended by other means, or is about to."""
        self._shell.kill()
        self._shell.communicate()


def run_with(store: AbstractContextManager[Lent], words: list[str]) -> int:
    """Run a command with this store; `{url}` in its words is where that is."""
    with (
        store as lent,
        subprocess.Popen([word.replace("{url}", lent.url) for word in words]) as command,  # noqa: S603 (the caller's)
    ):
        while True:
            try:
                return command.wait()
            except KeyboardInterrupt:
                continue  # the command got the signal as well: it ends when it is ready

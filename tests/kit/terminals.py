"""A terminal of a given size, with a command in its foreground. No tests in here."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from tests.kit.shell import COMMAND, PATIENCE, heed_signals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from tests.kit.shell import Shell


class Terminal:
    """Runs one command on a terminal of its own; what it shows is collected."""

    def __init__(
        self,
        shell: Shell,
        *words: str,
        columns: int = 80,
        rows: int = 24,
        holder: str = "ada",
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.shown = ""
        self._code: int | None = None
        environment = shell.with_command(shell.env(holder, {"TERM": "xterm", **(env or {})}))
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            try:
                heed_signals()
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
                os.chdir(shell.home)
                os.execvpe(command[0], [*command, *words], environment)
            finally:
                os._exit(127)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)

    def type(self, keys: str) -> None:
        """What somebody types; ^C is chr(3), ^Z is chr(26)."""
        os.write(self._fd, keys.encode())

    def _read(self) -> bool:
        """Take in what was shown meanwhile; False at the end."""
        if not select.select([self._fd], [], [], 0.02)[0]:
            return True
        try:
            data = os.read(self._fd, 65_536)
        except OSError:
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)

    def until(self, text: str) -> None:
        """Wait until this was shown."""
        give_up = time.monotonic() + PATIENCE
        while text not in self.shown:
            assert self._read(), f"it ended with {self.shown!r}"
            assert time.monotonic() < give_up, f"{text!r} was never shown: {self.shown!r}"

    def end(self) -> int:
        """Wait until the command has ended; its exit code."""
        give_up = time.monotonic() + PATIENCE
        while self._code is None:
            self._read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
            assert time.monotonic() < give_up, f"it never ended: {self.shown!r}"
        while select.select([self._fd], [], [], 0)[0] and self._read():
            pass
        return self._code

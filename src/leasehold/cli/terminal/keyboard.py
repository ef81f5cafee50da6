"""The keyboard of `watch`: single keys from a terminal, without waiting for a whole line."""

from __future__ import annotations

import os
import select
import sys
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

ESCAPES = {
    **dict.fromkeys(("[A", "OA"), "up"),
    **dict.fromkeys(("[B", "OB"), "down"),
    **dict.fromkeys(("[H", "[1~", "OH"), "home"),
    **dict.fromkeys(("[F", "[4~", "OF"), "end"),
    "[5~": "page-up",
    "[6~": "page-down",
}
NAMES = {"\r": "enter", "\n": "enter", "\x7f": "back", "\b": "back", "\x1b": "escape"}
ESCAPE_WAIT = 0.05
"""Seconds that the rest of an escape sequence may take: over a slow line, it arrives in pieces."""


class Keyboard:
    """Standard input, key by key, until the end of the block. Ctrl-C still interrupts."""

    def __init__(self) -> None:
        self._fd: int | None = None
        self._before: list[object] | None = None

    def __enter__(self) -> Self:
        if sys.stdin is None or not sys.stdin.isatty():
            return self
        import termios  # noqa: PLC0415 (only on a terminal)

        try:
            fd = sys.stdin.fileno()
            if os.tcgetpgrp(fd) != os.getpgrp():  # in the background, changing the terminal would stop this process
                return self
            self._before = termios.tcgetattr(fd)
            mode = termios.tcgetattr(fd)
            mode[3] &= ~(termios.ICANON | termios.ECHO)
            termios.tcsetattr(fd, termios.TCSANOW, mode)
        except (OSError, termios.error):
            return self  # a terminal without this mode gets no keys
        self._fd = fd
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd is not None and self._before is not None:
            import termios  # noqa: PLC0415

            termios.tcsetattr(self._fd, termios.TCSANOW, self._before)  # type: ignore[arg-type] # as tcgetattr returned it

    def wait(self, seconds: float) -> str | None:
        """Return the next key, by its name or as it is; None if none comes in time."""
        if self._fd is None:
            time.sleep(seconds)
            return None
        if not select.select([self._fd], [], [], seconds)[0]:
            return None
        one = self._read()
        if one is None:
            self._fd = None  # the terminal is gone
            return None
        if one != "\x1b":
            return NAMES.get(one, one)
        return self._escape()

    def _read(self) -> str | None:
        if self._fd is None:
            return None
        first = os.read(self._fd, 1)
        if not first:
            return None
        more = {0xC0: 1, 0xE0: 2, 0xF0: 3}.get(first[0] & 0xF0 if first[0] < 0xF8 else 0, 1 if first[0] >= 0xC0 else 0)
        rest = os.read(self._fd, more) if more else b""
        return (first + rest).decode(errors="replace")

    def _escape(self) -> str:
        found = ""
        while self._fd is not None and len(found) < 6 and select.select([self._fd], [], [], ESCAPE_WAIT)[0]:
            found += self._read() or ""
            if found in ESCAPES:
                return ESCAPES[found]
            if found[-1:].isalpha() and found[:1] == "[":
                return "unknown"
        return "escape" if not found else "unknown"

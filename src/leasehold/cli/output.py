"""How a command answers: its exit code, and text for people or one JSON object. Nothing else writes to standard output.

Names, holders and reasons are printed inert: no terminal escape gets through.
"""

from __future__ import annotations

import os
import sys

from leasehold.domain.names import shown
from leasehold.domain.outcomes import Deadlock, Held, Lost, Refused, TimedOut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TextIO

    from leasehold.errors import LeaseholdError

DONE, FAILURE, USAGE, NOT_FOUND, HELD, TIMED_OUT, DEADLOCK, LOST, NOT_ALLOWED, UNREACHABLE = range(10)
INTERRUPTED = 130

MEANINGS = {
    DONE: "done",
    FAILURE: "failure",
    USAGE: "usage",
    NOT_FOUND: "not found",
    HELD: "held",
    TIMED_OUT: "wait timed out",
    DEADLOCK: "deadlock",
    LOST: "lost",
    NOT_ALLOWED: "not allowed",
    UNREACHABLE: "unreachable",
}

_BY_TYPE = {Held: HELD, TimedOut: TIMED_OUT, Deadlock: DEADLOCK, Lost: LOST}
_BY_CODE = {
    "invalid": USAGE,
    "not_found": NOT_FOUND,
    "not_allowed": NOT_ALLOWED,
    "unauthenticated": NOT_ALLOWED,
    "slots_mismatch": HELD,
    "session_over": LOST,
    # errors
    "unreachable": UNREACHABLE,
    "store": UNREACHABLE,
    "outcome_unknown": UNREACHABLE,
}


def exit_code(outcome: object) -> int:
    """Return the exit code of an outcome."""
    if isinstance(outcome, Refused):
        return _BY_CODE.get(outcome.code, FAILURE)
    return _BY_TYPE.get(type(outcome), DONE)


def exit_code_of_error(error: LeaseholdError) -> int:
    """Return the exit code of an error."""
    return _BY_CODE.get(error.code, FAILURE)


_COLOURS = {"green": "32", "red": "31", "yellow": "33", "dim": "2"}
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_")

LIVE: list[Callable[[], None]] = []
"""Functions that erase a live line, called before anything else is written."""


class Output:
    """Standard output and standard error, as one command uses them."""

    __slots__ = ("_colour", "hints", "is_over", "json", "trouble")

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self.is_over = False
        """True once the reader of standard output has closed it."""
        self.trouble: OSError | None = None
        """Why an answer could not be written."""
        self.hints: list[dict[str, str]] = []
        """Hints, each with a `message` and a `command`, printed with the answer."""
        self._colour = not json and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def say(self, text: str) -> None:
        """Print a line for people on standard output; nothing with --json."""
        if not self.json:
            self._write(text + "\n")

    def warn(self, text: str) -> None:
        """Print a line for people on standard error; nothing with --json."""
        if not self.json:
            complain(text)

    def give(self, envelope: dict[str, Any]) -> None:
        """Print a JSON object in one line. An answer carries the hints; an event of `run` does not."""
        if self.hints and "ok" in envelope:
            envelope = {**envelope, "hints": self.hints}
        self._write(dumps(envelope) + "\n")

    def _write(self, text: str) -> None:
        try:
            self.is_over = not write(sys.stdout, text)
        except OSError as error:
            self.trouble = error
            forget(sys.stdout)

    def paint(self, text: str, colour: str, stream: TextIO | None = None) -> str:
        """Return the text in this colour if the stream is a terminal."""
        target = sys.stdout if stream is None else stream
        if not self._colour or target is None or not target.isatty():
            return text
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def complain(text: str) -> None:
    """Print a line on standard error. A failure to write it is ignored: there is nowhere else to report it."""
    try:
        write(sys.stderr, text + "\n")
    except OSError:
        forget(sys.stderr)


def dumps(value: object) -> str:
    """Return JSON in one line of ASCII, which every terminal, pipe and locale can carry.

    It does what `json.dumps` does, without importing `json` and `re`: those take half as long as a whole acquire.
    """
    try:
        from _json import encode_basestring_ascii  # noqa: PLC0415 (what `json` itself uses)
    except ImportError:  # a Python without it
        import json  # noqa: PLC0415

        return json.dumps(value)
    return _dumped(value, encode_basestring_ascii)


def _dumped(value: object, quote: Callable[[str], str]) -> str:
    if isinstance(value, str):
        return quote(value)
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and value - value == 0):  # any but `inf` and `nan`
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_dumped(each, quote) for each in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{quote(key)}: {_dumped(each, quote)}' for key, each in value.items())}}}"
    raise TypeError(f"{type(value).__name__} is no JSON")


def write(stream: TextIO | None, text: str) -> bool:
    """Write and flush; False if the reader has closed the stream, which is no failure of the command."""
    if stream is None:
        return True  # it was closed before the command began, on purpose
    while LIVE:
        LIVE.pop()()
    try:
        stream.write(text)
        stream.flush()
    except UnicodeEncodeError:
        # A terminal that does not speak UTF-8: what it cannot show is escaped rather than lost.
        encoding = stream.encoding or "ascii"
        return write(stream, text.encode(encoding, "backslashreplace").decode(encoding))
    except BrokenPipeError:
        forget(stream)
        return False
    return True


def forget(stream: TextIO) -> None:
    """Redirect the stream to /dev/null, so that the interpreter's flush at exit does not fail once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def fill_gaps() -> None:
    """Open /dev/null for each closed standard stream: a file opened later would get its number, and its output."""
    for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        if stream is None:
            nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            if nowhere != number:
                os.close(nowhere)


def step(what: str, command: str) -> str:
    """Return the next step: what to do, and the command on a line of its own, so that it can be copied whole."""
    return f"Next: {what}:\n  {command}"


def clock(us: int, as_of: int) -> str:
    """Format a time for people, with its distance from `as_of`."""
    from leasehold.domain import durations  # noqa: PLC0415

    left = abs(us - as_of)
    precision = 1_000_000 if left >= 10_000_000 else 100_000
    away = durations.format(left // precision * precision)
    return f"{moment(us)} (in {away})" if us >= as_of else f"{moment(us)} ({away} ago)"


def moment(us: int) -> str:
    """Format a time for people."""
    import time  # noqa: PLC0415

    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(us // 1_000_000))


def quoted(words: Iterable[str]) -> str:
    """Quote these words for a shell, inert on a terminal."""
    return " ".join(_quote(word) for word in words)


def _quote(word: str) -> str:
    if word and _PLAIN.issuperset(word):
        return word
    if shown(word) == word and _can_show(word, sys.stdout) and _can_show(word, sys.stderr):
        return "'" + word.replace("'", "'\"'\"'") + "'"
    # Invisible or unencodable characters are spelled out as bytes, which bash and zsh read back in any locale.
    octets = word.replace("\\", "\\\\").replace("'", "\\'").encode("utf-8", "surrogateescape")
    return "$'" + "".join(chr(one) if 32 <= one < 127 else f"\\x{one:02x}" for one in octets) + "'"


def _can_show(word: str, stream: TextIO | None) -> bool:
    try:
        word.encode((stream and stream.encoding) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True

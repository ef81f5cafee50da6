"""The command line: it parses, calls one verb of `Locks`, shows the outcome. It imports what it needs, late."""

from __future__ import annotations

import gc
import os
import sys

from leasehold.cli.entry.parsing import parse
from leasehold.cli.entry.quick import HOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.cli.entry.parsing import Line


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code says how it ended (see `outcomes`). Without words: as the program itself."""
    if argv is not None:
        return _run(list(argv))
    # A command that lives for some milliseconds makes no garbage worth looking for (see `settle_down`), and need not
    # take itself to pieces at the end: all is written and closed by then.
    gc.disable()
    code = _run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


def settle_down() -> None:
    """This command stays for a while."""
    gc.enable()


def _run(given: list[str]) -> int:
    words = [word if word.isascii() else _as_utf8(word) for word in given]
    line = parse(words, HOT) or _read(words)
    from leasehold.cli.context import run  # noqa: PLC0415

    return run(line, handler_of(line))


def _read(words: list[str]) -> Line:
    from leasehold.cli.entry.table import VERBS  # noqa: PLC0415 (a plain acquire does without all the others)

    line = parse(words, VERBS)
    if line is None and words[:1] == ["__complete"]:
        from leasehold.cli.commands.held_names import NAME, VERB  # noqa: PLC0415 (only completion scripts ask this)

        line = parse(words, {NAME: VERB})
    if line is None:
        from leasehold.cli.entry.help import parse_or_explain  # noqa: PLC0415 (not for a plain command line)

        line = parse_or_explain(words)
    return line


def _as_utf8(word: str) -> str:
    """What the locale could not read, read as UTF-8; if that fails too, it is refused where it is used."""
    try:
        return os.fsencode(word).decode() if any("\udc80" <= one <= "\udcff" for one in word) else word
    except UnicodeError:
        return word


def handler_of(line: Line) -> Callable[..., int]:
    """The function behind a verb, imported now."""
    module, _, name = line.verb.handler.partition(":")
    __import__(f"leasehold.cli.commands.{module}")
    handler: Callable[..., int] = getattr(sys.modules[f"leasehold.cli.commands.{module}"], name)
    return handler

"""The command line: it parses, calls one verb of `Locks`, shows the outcome. It imports what it needs, late."""

from __future__ import annotations

import sys

from leasehold.cli.parsing import parse
from leasehold.cli.table import VERBS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.cli.parsing import Line


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code says how it ended (see `outcomes`)."""
    words = sys.argv[1:] if argv is None else list(argv)
    line = parse(words, VERBS)
    if line is None:
        from leasehold.cli.help import parse_or_explain  # noqa: PLC0415 (not for a plain command line)

        line = parse_or_explain(words)
    from leasehold.cli.context import run  # noqa: PLC0415

    return run(line, handler_of(line))


def handler_of(line: Line) -> Callable[..., int]:
    """The function behind a verb, imported now."""
    module, _, name = line.verb.handler.partition(":")
    __import__(f"leasehold.cli.{module}")
    handler: Callable[..., int] = getattr(sys.modules[f"leasehold.cli.{module}"], name)
    return handler

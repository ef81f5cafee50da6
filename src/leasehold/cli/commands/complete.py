"""The hidden command that completion scripts call while you type: it prints the names that are held.

It fails like any command, with a sentence and an exit code; the scripts hide both from the terminal.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from leasehold.cli.command_line import CliArgument, CliVerb
from leasehold.cli.context import accepted
from leasehold.cli.output import DONE, UNREACHABLE, complain

if TYPE_CHECKING:
    from types import FrameType

    from leasehold.cli.context import Context

NAME = "__complete"
VERB = CliVerb(NAME, "the names that are held", "complete:held", (CliArgument("line", "what was typed so far", "--"),))
WITHIN = 2.0
"""Seconds to wait for a server, since a person who pressed Tab waits."""
PLACES = ("url", "space", "holder")
"""The options that select leases."""


def held(context: Context) -> int:
    """Print the names that are held in the store and space of the typed command, a line each."""
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, WITHIN)
    context.values = {**context.values, **_typed(" ".join(context.values["line"]))}
    scheme, _, rest = context.choice.url.partition("://")
    if scheme == "sqlite" and not os.path.exists(rest.partition("?")[0]):  # noqa: PTH110 (pathlib is slow to import)
        return DONE  # completing a name creates no database
    found = accepted(context.locks.list(space=context.space))
    names = {name for lease in found for name in lease.resources if name.isprintable()}
    return context.end(None, "\n".join(sorted(names))) if names else DONE


def _typed(line: str) -> dict[str, str]:
    """Return the options that select leases, from a line that is still being typed."""
    from shlex import split  # noqa: PLC0415 (slow to import)

    try:
        words = split(line)
    except ValueError:  # within quotes
        words = line.split()
    given: dict[str, str] = {}
    for word, after in zip(words, [*words[1:], ""], strict=True):
        flag, equals, value = word.partition("=")
        if flag.startswith("--") and flag[2:] in PLACES and (value or after):
            given[flag[2:]] = value if equals else after
    return given


def _give_up(_number: int, _frame: FrameType | None) -> None:
    complain(f"leasehold {NAME}: the locks did not answer within {WITHIN:g} s")
    os._exit(UNREACHABLE)

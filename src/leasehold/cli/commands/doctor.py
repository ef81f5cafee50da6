"""doctor: print which store is used and why, and whether it works. version: print the version."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, cast

from leasehold.config.settings import ARGUMENT
from leasehold.doctor import Finding, examine
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Refused
from leasehold.guard.install.probing import probed

if TYPE_CHECKING:
    from leasehold.cli.context import Context
    from leasehold.config.settings import Choice, SettingValues

_SIGNS = {True: ("ok", "green"), False: ("WRONG", "red"), None: ("note", "yellow")}


def doctor(context: Context) -> int:
    """Print the findings; a problem is a failure."""
    if context.values["accept_restore"]:
        from leasehold.locks.connect import open_store  # noqa: PLC0415

        open_store(context.choice.store_url, accept_restore=True, why=context.choice.why).close()
    repair = "put leasehold on the PATH that the agent has, then install its hooks again"
    # An agent that Leasehold does not recognise reads a pipe.
    is_read_by_person = not context.out.json and sys.stdout is not None and sys.stdout.isatty()
    findings = [
        *examine(_asked_about(context), is_read_by_person=is_read_by_person),
        *(
            Finding(f"{each.agent} hook", each.ok, each.text, repair if each.ok is False else "")
            for each in probed(os.environ)
        ),
    ]
    wrong = [finding.topic for finding in findings if finding.ok is False]
    data = {"well": not wrong, "findings": [finding._asdict() for finding in findings]}
    context.out.say("\n".join(_told(context, finding) for finding in findings))
    if not wrong:
        return context.end(findings, "All is well.", data)
    return context.end(Refused("unwell", "", f"check failed: {', '.join(wrong)}"), "", data)


def version(context: Context) -> int:
    """Print the version of Leasehold; with --json, of Python, too."""
    from platform import python_version  # noqa: PLC0415 (rare)

    from leasehold import __version__  # noqa: PLC0415

    data = {"version": __version__, "python": python_version()}
    return context.end(None, f"leasehold {__version__}", data)


def _asked_about(context: Context) -> Choice:
    """Return the choice with the --space and --holder of this command."""
    given = {name: context.values[name] for name in ("space", "holder") if context.values.get(name) is not None}
    choice = context.choice
    origins = {**choice.origins, **dict.fromkeys(given, ARGUMENT)}
    return (
        choice._replace(settings=cast("SettingValues", {**choice.settings, **given}), origins=origins)
        if given
        else choice
    )


def _told(context: Context, finding: Finding) -> str:
    sign, colour = _SIGNS[finding.ok]
    line = f"{context.out.paint(f'{sign:<5}', colour)}  {finding.topic:<12} {shown(finding.text)}"
    lines = [line, *([f"{'':<20} → {shown(finding.advice)}"] if finding.advice else [])]
    return "\n".join([*lines, f"  {shown(finding.command)}"] if finding.command else lines)

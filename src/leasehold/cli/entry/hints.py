"""Hints for plain names that are files here but were given without `path:`."""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH118

from __future__ import annotations

import os

from leasehold.domain.patterns import escaped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context


def hint_at_path(context: Context, name: str) -> None:
    """Suggest the `path:` name of the file that this plain name stands for, if it has one."""
    path = _from_root(context, name)
    if path is not None:
        named = f"path:{escaped(path)}"
        command = context.suggest(context.verb, named, more=" -- …" if context.verb == "run" else "")
        message = f"{name} is a file here, and this name overlaps with no path; did you mean {named}"
        context.hint(message, command, now=True)


def _from_root(context: Context, name: str) -> str | None:
    """Return the file's path from the root of the working copy, as the guards compute it; None if it is outside."""
    from leasehold.config import paths as places  # noqa: PLC0415 (only where there is something to hint at)
    from leasehold.config.settings import working_directory  # noqa: PLC0415

    here = working_directory()
    copy = places.working_copy(here, os.environ)
    root = copy.root if copy is not None else os.path.dirname(context.choice.path) if context.choice.path else here  # noqa: PTH120
    path = os.path.relpath(os.path.join(here, name), os.path.realpath(root))
    return None if path.startswith("..") or not path.isprintable() else path

"""What the caller may have meant: plain names of files that are there, given without `path:`."""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH118

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context


def hint_at_path(context: Context, name: str) -> None:
    """Hint at the path that this plain name is a file at, if `path:` can say it."""
    path = _from_root(context, name)
    if path is not None:
        command = context.suggest(context.verb, f"path:{path}", more=" -- …" if context.verb == "run" else "")
        message = f"{name} is a file here, and this name overlaps with no path; did you mean path:{path}"
        context.hint(message, command, now=True)


def _from_root(context: Context, name: str) -> str | None:
    """The path that `path:` would need: from the root of the working copy, as the guards have it."""
    from leasehold.config import paths as places  # noqa: PLC0415 (only where there is something to hint at)
    from leasehold.config.settings import working_directory  # noqa: PLC0415

    here = working_directory()
    copy = places.working_copy(here, os.environ)
    root = copy.root if copy is not None else os.path.dirname(context.choice.path) if context.choice.path else here  # noqa: PTH120
    path = os.path.relpath(os.path.join(here, name), os.path.realpath(root))
    return None if path.startswith("..") or not path.isprintable() else path

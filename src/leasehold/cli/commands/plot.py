"""history --plot: the timeline as a file. SVG needs nothing; PNG needs Pillow, which is an extra."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.cli.terminal.columns import counted
from leasehold.domain.names import shown
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.pictures.runs import runs_of
from leasehold.pictures.svg import svg
from leasehold.pictures.timeline import timeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.domain.events import Event
    from leasehold.pictures.shapes import Picture

LIMIT = 10_000
"""A picture is drawn from so many events, unless --limit says otherwise."""


def check(file: str) -> None:
    """Before anything is asked: whether we can draw this at all."""
    if not file.endswith((".svg", ".png")):
        raise InvalidInput("plot", f"must end in .svg or .png, not {shown(file)[-40:]!r}")


def plot(file: str, events: Sequence[Event], now: int) -> str:
    """Draw these events; what was drawn, in a few words."""
    runs = runs_of(events)
    picture = timeline(runs, now)
    content = svg(picture).encode() if file.endswith(".svg") else _png(picture)
    try:
        Path(file).write_bytes(content)
    except OSError as error:
        raise InvalidInput("plot", f"{shown(file)} cannot be written: {error.strerror or error}") from None
    return f"Drew {counted(len(runs), 'lease')}: {shown(file)}"


def _png(picture: Picture) -> bytes:
    try:
        from leasehold.pictures.png import png  # noqa: PLC0415 (an extra)
    except ImportError as error:
        if error.name is None or not error.name.startswith("PIL"):
            raise
        raise LeaseholdError(
            "PNG needs Pillow, which is not installed: pip install 'leasehold[plot]', or name a file that ends in .svg"
        ) from None
    try:
        return png(picture)
    except ValueError as error:
        raise InvalidInput("plot", str(error)) from None

"""graph: who waits for whom, as text, Mermaid, DOT or SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.outcomes import Refused
from leasehold.pictures import graph as graphing
from leasehold.pictures.svg import svg
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.cli.context import Context
    from leasehold.domain.graph import Graph

FORMATS: dict[str, Callable[[Graph], str]] = {
    "text": graphing.as_text,
    "mermaid": graphing.as_mermaid,
    "dot": graphing.as_dot,
    "svg": lambda graph: svg(graphing.as_picture(graph)).rstrip("\n"),
}


def graph(context: Context) -> int:
    """Who waits for whom."""
    values = context.values
    seen = context.locks.graph(space=None if values["all_spaces"] else context.space)
    if isinstance(seen, Refused):
        return context.end(seen, "")
    return context.end(seen, FORMATS[values["format"]](seen), wire.graph(seen))

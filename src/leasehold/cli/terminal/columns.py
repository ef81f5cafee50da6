"""Columns for people, as wide as the terminal allows."""

from __future__ import annotations

import os
import sys
from unicodedata import combining, east_asian_width

from leasehold.domain.names import shown

NARROWEST = 8
"""No column is made narrower than this; the rest is cut off at the right."""


def width_of_terminal() -> int | None:
    """Return how many columns standard output has; None if it is no terminal."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except OSError:
        return None


def columns(text: str) -> int:
    """Return how many columns of a terminal this text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def cut(text: str, width: int | None) -> str:
    """Cut the text off where the terminal ends."""
    if width is None or columns(text) <= width:
        return text
    end = len(text)
    while end and columns(text[:end]) >= max(width, 1):
        end -= 1
    return text[:end] + "…"


def counted(number: int, thing: str) -> str:
    """Return `1 lease`, `2 leases`."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def table(rows: list[tuple[str, ...]], heads: tuple[str, ...], width: int | None = None) -> str:
    """Lay out columns as wide as the terminal allows. Cells are printed inert."""
    safe = [heads, *(tuple(shown(cell) for cell in row) for row in rows)]
    widths = [max(columns(row[place]) for row in safe) for place in range(len(heads))]
    # Take from the widest column until all fit, so that one long name does not push the others off the terminal.
    while width is not None and sum(widths) > width - 2 * (len(widths) - 1) and max(widths) > NARROWEST:
        widths[widths.index(max(widths))] -= 1
    lines = []
    for row in safe:
        cells = [cut(cell, wide) for cell, wide in zip(row, widths, strict=True)]
        padded = [cell + " " * (wide - columns(cell)) for cell, wide in zip(cells, widths, strict=True)]
        lines.append(cut("  ".join(padded).rstrip(), width))
    return "\n".join(lines)

"""The shapes of pictures: boxes, words and lines. ``svg`` and ``png`` write them."""

from __future__ import annotations

from leasehold.domain.nouns import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

INK = "#1b2430"
FAINT = "#5b6776"
PAPER = "#ffffff"
GRID = "#e3e8ee"
BLUE = "#2563eb"
GREEN = "#2e7d4f"
RED = "#c62828"
AMBER = "#b26a00"
PURPLE = "#7b4bb7"
GREY = "#78879a"
PALE_BLUE = "#e8effd"
PALE_AMBER = "#fdf1de"

COLOURS = {
    "held": BLUE,
    "completed": GREEN,
    "failed": RED,
    "cancelled": GREY,
    "expired": AMBER,
    "forced": PURPLE,
}
"""The colour of a lease's bar by its outcome."""


class Box(Noun):
    """A rectangle; `says` is its description, shown when pointed at and read by screen readers."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    stroke: str = "none"
    radius: float = 0
    says: str = ""


class Words(Noun):
    """A line of text; `y` is its baseline."""

    x: float
    y: float
    text: str
    colour: str = INK
    size: float = 13
    anchor: str = "start"
    bold: bool = False


class Polyline(Noun):
    """Connected points, with an arrow at the end if `arrow` is set."""

    points: tuple[tuple[float, float], ...]
    colour: str = GREY
    dashed: bool = False
    arrow: bool = False
    width: float = 1.5


class Picture(Noun):
    """A drawing and its title."""

    title: str
    width: float
    height: float
    shapes: tuple[Box | Words | Polyline, ...]


if TYPE_CHECKING:
    Shape: TypeAlias = Box | Words | Polyline


def cut(text: str, most: int) -> str:
    """Shorten the text to so many characters in the middle: the end of a name is often more specific."""
    if len(text) <= most:
        return text
    end = most // 3
    return f"{text[: most - end - 1]}…{text[len(text) - end :]}"

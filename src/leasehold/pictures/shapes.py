"""What pictures are made of: boxes, words and lines at places, in colours. No files: see ``svg`` and ``png``."""

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
"""What a run's bar is coloured by: its outcome."""


class Box(Noun):
    """A rectangle; `says` is what it is about, for whoever points at it or has it read aloud."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    stroke: str = "none"
    radius: float = 0
    says: str = ""


class Words(Noun):
    """A line of text; `y` is where its letters stand."""

    x: float
    y: float
    text: str
    colour: str = INK
    size: float = 13
    anchor: str = "start"
    bold: bool = False


class Polyline(Noun):
    """Points that are joined; with an arrow at the end if so asked."""

    points: tuple[tuple[float, float], ...]
    colour: str = GREY
    dashed: bool = False
    arrow: bool = False
    width: float = 1.5


class Picture(Noun):
    """A drawing, and what it shows in a few words."""

    title: str
    width: float
    height: float
    shapes: tuple[Box | Words | Polyline, ...]


if TYPE_CHECKING:
    Shape: TypeAlias = Box | Words | Polyline


def cut(text: str, most: int) -> str:
    """The text, at most so many characters of it; the end of a name often tells more than its middle."""
    if len(text) <= most:
        return text
    end = most // 3
    return f"{text[: most - end - 1]}…{text[len(text) - end :]}"

"""Write a picture as PNG with Pillow, which is the extra leasehold[plot]."""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from leasehold.domain.names import shown
from leasehold.pictures.shapes import PAPER, Box, Words
from leasehold.pictures.svg import arrow_head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasehold.pictures.shapes import Picture, Polyline

SCALE = 2
"""Pixels for each unit, for high-resolution screens."""
PIXELS_MOST = 60_000_000
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


def png(picture: Picture) -> bytes:
    """Return the contents of a PNG file."""
    width, height = (max(1, round(side * SCALE)) for side in (picture.width, picture.height))
    if width * height > PIXELS_MOST:
        raise ValueError("the picture is too large for PNG; draw less of it, or SVG")
    image = Image.new("RGB", (width, height), PAPER)
    draw = ImageDraw.Draw(image)
    for shape in picture.shapes:
        if isinstance(shape, Box):
            _box(draw, shape)
        elif isinstance(shape, Words):
            _words(draw, shape)
        else:
            _line(draw, shape)
    content = BytesIO()
    image.save(content, "PNG", optimize=True)
    return content.getvalue()


def _box(draw: ImageDraw.ImageDraw, it: Box) -> None:
    corners = [(it.x * SCALE, it.y * SCALE), ((it.x + it.width) * SCALE, (it.y + it.height) * SCALE)]
    outline = None if it.stroke == "none" else it.stroke
    draw.rounded_rectangle(corners, it.radius * SCALE, None if it.fill == "none" else it.fill, outline, SCALE)


def _words(draw: ImageDraw.ImageDraw, it: Words) -> None:
    font = ImageFont.load_default(it.size * SCALE)
    place = (it.x * SCALE, it.y * SCALE)
    width = 0.6 if it.bold else 0
    draw.text(place, shown(it.text), it.colour, font, _ANCHORS[it.anchor], stroke_width=width)


def _line(draw: ImageDraw.ImageDraw, it: Polyline) -> None:
    points = [(x * SCALE, y * SCALE) for x, y in it.points]
    width = max(1, round(it.width * SCALE))
    for begin, end in pairwise(points):
        for part in _dashes(begin, end) if it.dashed else [(begin, end)]:
            draw.line(part, it.colour, width)
    if it.arrow:
        draw.polygon([(x * SCALE, y * SCALE) for x, y in arrow_head(it)], it.colour)


def _dashes(
    begin: tuple[float, float], end: tuple[float, float]
) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    length = max(((end[0] - begin[0]) ** 2 + (end[1] - begin[1]) ** 2) ** 0.5, 0.001)
    dx, dy = (end[0] - begin[0]) / length, (end[1] - begin[1]) / length
    at, step, gap = 0.0, 5.0 * SCALE, 4.0 * SCALE
    while at < length:
        to = min(at + step, length)
        yield (begin[0] + dx * at, begin[1] + dy * at), (begin[0] + dx * to, begin[1] + dy * to)
        at += step + gap

"""Write a picture as SVG, without scripts or references to other files."""

from __future__ import annotations

from leasehold.domain.names import shown
from leasehold.pictures.shapes import PAPER, Box, Polyline, Words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.pictures.shapes import Picture

FONT = "ui-sans-serif, system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


def svg(picture: Picture) -> str:
    """Return the SVG document."""
    width, height = _number(picture.width), _number(picture.height)
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    says = f'role="img" aria-label="{_safe(picture.title)}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {says} font-family="{FONT}">',
        f"<title>{_safe(picture.title)}</title>",
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
        *(
            _box(shape) if isinstance(shape, Box) else _words(shape) if isinstance(shape, Words) else _line(shape)
            for shape in picture.shapes
        ),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _box(it: Box) -> str:
    place = f'x="{_number(it.x)}" y="{_number(it.y)}" width="{_number(it.width)}" height="{_number(it.height)}"'
    looks = f'rx="{_number(it.radius)}" fill="{it.fill}" stroke="{it.stroke}"'
    says = f"<title>{_safe(it.says)}</title>" if it.says else ""
    return f"<rect {place} {looks}>{says}</rect>" if says else f"<rect {place} {looks}/>"


def _words(it: Words) -> str:
    weight = ' font-weight="600"' if it.bold else ""
    place = f'x="{_number(it.x)}" y="{_number(it.y)}" font-size="{_number(it.size)}"'
    return f'<text {place} fill="{it.colour}" text-anchor="{it.anchor}"{weight}>{_safe(it.text)}</text>'


def _line(it: Polyline) -> str:
    points = " ".join(f"{_number(x)},{_number(y)}" for x, y in it.points)
    dashes = ' stroke-dasharray="5 4"' if it.dashed else ""
    line = f'<polyline points="{points}" fill="none" stroke="{it.colour}" stroke-width="{_number(it.width)}"{dashes}/>'
    corners = " ".join(f"{_number(x)},{_number(y)}" for x, y in arrow_head(it)) if it.arrow else ""
    return line + (f'<polygon points="{corners}" fill="{it.colour}"/>' if it.arrow else "")


def arrow_head(it: Polyline, size: float = 8) -> tuple[tuple[float, float], ...]:
    """Return the three corners of the arrow at the end of a line."""
    (x1, y1), (x2, y2) = it.points[-2:]
    length = max(((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5, 0.001)
    dx, dy = (x2 - x1) / length * size, (y2 - y1) / length * size
    return (x2, y2), (x2 - dx - dy / 2, y2 - dy + dx / 2), (x2 - dx + dy / 2, y2 - dy - dx / 2)


def _safe(text: str) -> str:
    return shown(text).translate(_ESCAPES)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")

"""The conflict matrix as a picture: a row and a column for each plan, and for each lease or wait that one overlaps."""

from __future__ import annotations

from leasehold.domain import durations
from leasehold.domain.nouns import Noun
from leasehold.pictures.shapes import AMBER, BLUE, FAINT, GREY, GRID, INK, RED, Box, Picture, Words, cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.domain.plans import Overlap, Plan
    from leasehold.pictures.shapes import Shape

MARGIN, HEAD, ROW, LABEL = 20.0, 72.0, 26.0, 430.0
_LETTERS = 58
COLOURS = {"planned": AMBER, "held": BLUE, "waiting": GREY, "grace": RED, "quarantined": RED}
"""The colour of a cell by what the other agent does there."""


class ClaimRow(Noun):
    """One row: a plan, or something that overlaps with one."""

    id: str
    says: str


def as_picture(plans: Sequence[Plan]) -> Picture:
    """Draw the matrix. Each cell says which names meet, and since when."""
    rows = _rows(plans)
    places = {row.id: place for place, row in enumerate(rows)}
    cells: dict[tuple[int, int], tuple[str, list[str]]] = {}
    for it in plans:
        for each in it.overlaps:
            place = (places[it.id], places[each.id])
            cells.setdefault(place, (each.state, []))[1].append(_says(it, each))
            if each.state != "planned":  # the other one has no row of its own overlaps
                cells.setdefault((place[1], place[0]), (each.state, []))[1].append(_says(it, each))
    title = f"Plans: {len(plans)}, and {sum(len(it.overlaps) for it in plans)} overlaps of them with others"
    shapes: list[Shape] = [Words(MARGIN, 28, title, INK, 16, bold=True)]
    if not rows:
        shapes.append(Words(MARGIN, HEAD, "No plans.", FAINT, 13))
    for number, row in enumerate(rows):
        shapes += _row(number, row, len(rows))
    for (down, across), (state, says) in cells.items():
        x, y = MARGIN + LABEL + across * ROW, HEAD + down * ROW
        shapes.append(Box(x + 3, y + 3, ROW - 6, ROW - 6, COLOURS[state], COLOURS[state], 4, "; ".join(says)))
    shapes += _legend(HEAD + len(rows) * ROW + 30)
    width = max(520.0, 2 * MARGIN + LABEL + len(rows) * ROW)
    return Picture(title, width, HEAD + len(rows) * ROW + 50, tuple(shapes))


def _rows(plans: Sequence[Plan]) -> list[ClaimRow]:
    found = {it.id: ClaimRow(it.id, f"{it.holder} plans {' '.join(it.resources)}") for it in plans}
    for it in plans:
        for each in it.overlaps:
            verb = {"planned": "plans", "held": "holds", "waiting": "waits for"}.get(each.state, f"({each.state}) had")
            found.setdefault(each.id, ClaimRow(each.id, f"{each.holder} {verb} {each.other}"))
    return list(found.values())


def _says(it: Plan, each: Overlap) -> str:
    ago = durations.in_seconds(max(0, it.as_of_us - each.since_us))
    return f"{each.resource} of {it.holder} meets {each.other}, {each.state} by {each.holder} since {ago}"


def _row(place: int, row: ClaimRow, count: int) -> list[Shape]:
    y = HEAD + place * ROW
    left = MARGIN + LABEL
    grid: list[Shape] = [Box(left + across * ROW, y, ROW, ROW, "none", GRID) for across in range(count)]
    own = Box(left + place * ROW, y, ROW, ROW, GRID, GRID)
    return [
        *grid,
        own,
        Words(MARGIN, y + 17, f"{place + 1}  {cut(row.says, _LETTERS)}", INK, 12),
        Words(left + place * ROW + ROW / 2, HEAD - 8, str(place + 1), FAINT, 12, "middle"),
    ]


def _legend(y: float) -> list[Shape]:
    shapes: list[Shape] = []
    x = MARGIN
    for state in ("planned", "held", "waiting", "quarantined"):
        shapes += [Box(x, y - 11, 14, 14, COLOURS[state], COLOURS[state], 3), Words(x + 20, y, state, FAINT, 12)]
        x += 110
    return shapes

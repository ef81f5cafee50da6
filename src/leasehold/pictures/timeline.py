"""Draw the history: one lane for each resource, a bar for each lease, coloured by its outcome."""

from __future__ import annotations

from leasehold.domain import durations
from leasehold.domain.timestamps import SECOND
from leasehold.pictures.shapes import COLOURS, FAINT, GRID, INK, Box, Picture, Polyline, Words, cut
from leasehold.wire.shapes import rfc3339

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.pictures.runs import LeaseRun
    from leasehold.pictures.shapes import Shape

LANES_MOST = 200
TRACKS_MOST = 4
WIDTH = 1100.0
LABELS = 260.0
RIGHT = 24.0
TOP = 76.0
LANE = 26.0
FOOT = 40.0
TICKS = 6
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 604800)


def timeline(runs: Sequence[LeaseRun], now: int) -> Picture:
    """Draw these leases, up to now."""
    lanes = _lanes(runs)
    begin = min((run.began for run in runs), default=now - 3600 * SECOND)
    end = max(now, begin + SECOND)
    height = TOP + LANE * max(1, len(lanes)) + FOOT
    shapes: list[Shape] = [*_heading(runs, begin, end), *_ticks(begin, end, height)]
    if not lanes:
        shapes.append(Words(LABELS, TOP + 18, "Nothing happened in this time.", FAINT))
    for number, (resource, held) in enumerate(lanes.items()):
        shapes += _lane(resource, held, TOP + number * LANE, (begin, end))
    return Picture(f"Timeline of {len(runs)} leases on {len(lanes)} resources", WIDTH, height, tuple(shapes))


def _lanes(runs: Sequence[LeaseRun]) -> dict[str, list[LeaseRun]]:
    """Return the leases of each resource, in the order in which the resources were first acquired."""
    spaces = {run.space for run in runs}
    lanes: dict[str, list[LeaseRun]] = {}
    for run in sorted(runs, key=lambda run: run.began):
        for resource in run.resources:
            lanes.setdefault(resource if len(spaces) == 1 else f"{resource}  ({run.space})", []).append(run)
    return dict(list(lanes.items())[:LANES_MOST])


def _heading(runs: Sequence[LeaseRun], begin: int, end: int) -> list[Shape]:
    span = f"{(rfc3339(begin) or '')[:19]}Z to {(rfc3339(end) or '')[:19]}Z".replace("T", " ")
    shapes: list[Shape] = [Words(16, 26, "Leases over time", INK, 16, bold=True), Words(160, 26, span, FAINT, 12)]
    at = 16.0
    for outcome, colour in COLOURS.items():
        count = sum(run.outcome == outcome for run in runs)
        shapes.append(Box(at, 40, 11, 11, colour, radius=2))
        shapes.append(Words(at + 17, 50, f"{outcome} {count}", FAINT, 12))
        at += 112
    return shapes


def _ticks(begin: int, end: int, height: float) -> list[Shape]:
    step = next((each for each in _STEPS if (end - begin) / SECOND / each <= TICKS), _STEPS[-1]) * SECOND
    clock = slice(5, 10) if step >= 86_400 * SECOND else slice(11, 16 if step >= 60 * SECOND else 19)
    shapes: list[Shape] = []
    at = -(-begin // step) * step
    while at <= end:
        x = _x(at, (begin, end))
        shapes.append(Polyline(((x, TOP - 8), (x, height - FOOT + 4)), GRID, width=1))
        shapes.append(Words(x, height - FOOT + 22, (rfc3339(at) or "")[clock], FAINT, 11, "middle"))
        at += step
    return shapes


def _x(at: int, span: tuple[int, int]) -> float:
    return LABELS + (at - span[0]) / (span[1] - span[0]) * (WIDTH - LABELS - RIGHT)


def _lane(resource: str, runs: Sequence[LeaseRun], y: float, span: tuple[int, int]) -> list[Shape]:
    """Draw the lane of a resource: its name, a base line, and a bar for each lease. Simultaneous leases are stacked."""
    shapes: list[Shape] = [
        Words(LABELS - 12, y + 17, cut(resource, 34), INK, 12, "end"),
        Polyline(((LABELS, y + LANE), (WIDTH - RIGHT, y + LANE)), GRID, width=1),
    ]
    tracks = _tracks(runs, span[1])
    height = (LANE - 9) / max(tracks.values(), default=1)
    for run in runs:
        left, right = _x(run.began, span), _x(span[1] if run.ended is None else run.ended, span)
        width, top = max(2.0, right - left), y + 5 + (tracks[run.lease] - 1) * height
        shapes.append(Box(left, top, width, height, COLOURS[run.outcome], radius=2, says=_said(run, span[1])))
        if width > 60 and height > 12:
            shapes.append(Words(left + 6, y + 17.5, cut(run.holder, int(width / 8)), "#ffffff", 11))
    return shapes


def _tracks(runs: Sequence[LeaseRun], now: int) -> dict[str, int]:
    """Return the track of each lease, from 1 on: leases that share a resource lie below each other."""
    tracks: dict[str, int] = {}
    until: list[int] = []
    for run in sorted(runs, key=lambda run: run.began):
        free = next((track for track, end in enumerate(until) if end <= run.began), len(until))
        track = min(free, TRACKS_MOST - 1)
        if track == len(until):
            until.append(0)
        until[track] = now if run.ended is None else run.ended
        tracks[run.lease] = track + 1
    return tracks


def _said(run: LeaseRun, now: int) -> str:
    length = ((now if run.ended is None else run.ended) - run.began) // 1000 * 1000
    told = f"{run.holder}: {run.name or 'lease'}, {run.outcome} after {durations.format(length)}, fence {run.fence}"
    return f"{told}, {run.error}" if run.error else told

"""Trends from events: how many leases were held and requests waited, grants, and waits, in equal parts of a span."""

from __future__ import annotations

from itertools import accumulate

from leasehold.domain.nouns import Noun
from leasehold.domain.timestamps import SECOND
from leasehold.pictures.runs import ENDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasehold.domain.events import Event

KINDS = ("granted", *ENDS, "queued", "timeout", "deadlock")
"""The kinds of events that trends need."""
POINTS = 60


class TrendPoint(Noun):
    """One part of the span."""

    at: int
    """Its end, by the store's clock."""
    held: int
    """Leases held at its end."""
    waiting: int
    """Requests that waited at its end."""
    grants: float
    """Grants a second."""
    wait: int
    """The 95th percentile of the waits of the requests that were granted in it, those without a wait included."""


def trends(events: Sequence[Event], held: int, since: int, until: int) -> list[TrendPoint]:
    """Return the points. `events` are those since `since`, the newest first; `held` leases are held at `until`."""
    width = max(1, -(-(until - since) // POINTS))
    grants: list[list[int]] = [[] for _ in range(POINTS)]
    changes = [0] * POINTS
    for event in events:
        place = min(POINTS - 1, max(0, (event.at_us - since) // width))
        if event.kind == "granted":
            grants[place].append(_waited(event))
            changes[place] += 1
        elif event.kind in ENDS and event.lease is not None:
            changes[place] -= 1
    waiting = _waiting(events, since, width)
    points: list[TrendPoint] = []
    for place in reversed(range(POINTS)):
        rate = round(len(grants[place]) * SECOND / width, 6)
        end = min(until, since + (place + 1) * width)
        points.append(TrendPoint(end, max(0, held), waiting[place], rate, _percentile(grants[place])))
        held -= changes[place]
    return points[::-1]


def _waited(event: Event) -> int:
    waited = event.detail.get("waited")
    return waited if isinstance(waited, int) else 0


def _percentile(values: list[int]) -> int:
    """Return the 95th percentile: the smallest value that at least 95 % do not exceed."""
    return sorted(values)[max(0, -(-len(values) * 95 // 100) - 1)] if values else 0


def _waiting(events: Iterable[Event], since: int, width: int) -> list[int]:
    """Return how many requests waited at the end of each part."""
    changes = [0] * (POINTS + 1)
    granted: set[object] = set()
    ends: dict[object, int] = {}

    def count(at: int, change: int) -> None:
        changes[min(POINTS, max(0, (at - since) // width))] += change

    for event in events:
        waiter = event.detail.get("waiter")
        if event.kind == "granted" and _waited(event):
            granted.add(waiter)
            count(event.at_us - _waited(event), 1)
            count(event.at_us, -1)
        elif event.kind in ("timeout", "cancelled", "deadlock") and waiter is not None:
            ends[waiter] = event.at_us
        elif event.kind == "queued" and waiter not in granted:
            count(event.at_us, 1)
            if waiter in ends:
                count(ends.pop(waiter), -1)
    return list(accumulate(changes))[:POINTS]

"""Contention figures from events: which resources are waited for most, how long, and how busy they are."""

from __future__ import annotations

from statistics import median

from leasehold.domain.nouns import Noun
from leasehold.pictures.runs import KINDS as OF_RUNS
from leasehold.pictures.runs import runs_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasehold.domain.events import Event
    from leasehold.pictures.runs import LeaseRun

KINDS = (*OF_RUNS, "queued", "refused", "timeout", "deadlock")
"""The kinds of events that these figures need."""


class Figures(Noun):
    """The figures of one resource in a span of time."""

    space: str
    resource: str
    grants: int
    waits: int
    """How often a request had to wait for it, with any outcome."""
    refused: int
    """Tries that were refused, timed out, or would have closed a cycle."""
    median_wait: int
    """The median length of these waits; waits that still last count up to now."""
    worst_wait: int
    utilisation: float
    """The part of the span during which it was held: 0 to 1."""


def contention(events: Sequence[Event], since: int, until: int, most: int = 100) -> list[Figures]:
    """Return the figures, sorted by total waiting time, then by refusals."""
    runs: dict[tuple[str, str], list[LeaseRun]] = {}
    for run in runs_of(events):
        for resource in run.resources:
            runs.setdefault((run.space, resource), []).append(run)
    waits, refused = _waits(events, until), _refusals(events)
    found = [
        _figures(key, runs.get(key, []), waits.get(key, []), refused.get(key, 0), (since, until))
        for key in dict.fromkeys((*waits, *runs, *refused))
    ]
    total = {key: sum(spans) for key, spans in waits.items()}
    found.sort(key=lambda it: (-total.get((it.space, it.resource), 0), -it.refused, -it.utilisation, it.resource))
    return found[:most]


def _waits(events: Sequence[Event], until: int) -> dict[tuple[str, str], list[int]]:
    """Return the lengths of all waits for each resource: until the grant, the end of the wait, or now."""
    open_: dict[object, Event] = {}
    found: dict[tuple[str, str], list[int]] = {}

    def note(event: Event, length: int) -> None:
        for resource in event.resources:
            found.setdefault((event.space, resource), []).append(length)

    for event in reversed(events):
        waiter = event.detail.get("waiter")
        if event.kind == "queued":
            open_.setdefault(waiter, event)
        elif event.kind == "granted":
            begun, waited = open_.pop(waiter, event), event.detail.get("waited")
            if isinstance(waited, int) and waited:
                note(begun, waited)
        elif event.kind in ("timeout", "cancelled", "deadlock") and waiter in open_:
            begun = open_.pop(waiter)
            note(begun, event.at_us - begun.at_us)
    for event in open_.values():
        note(event, until - event.at_us)
    return found


def _refusals(events: Iterable[Event]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for event in events:
        if event.kind in ("refused", "timeout", "deadlock"):
            for resource in event.resources:
                found[event.space, resource] = found.get((event.space, resource), 0) + 1
    return found


def _figures(
    key: tuple[str, str], runs: list[LeaseRun], waits: list[int], refused: int, span: tuple[int, int]
) -> Figures:
    since, until = span
    return Figures(
        *key,
        sum(run.began >= since for run in runs),
        len(waits),
        refused,
        round(median(waits)) if waits else 0,
        max(waits, default=0),
        _busy(runs, since, until) / max(1, until - since),
    )


def _busy(runs: Iterable[LeaseRun], since: int, until: int) -> int:
    """Return how long the resource was held; shared leases that overlap count once."""
    spans = sorted((max(run.began, since), min(until if run.ended is None else run.ended, until)) for run in runs)
    total, reached = 0, since
    for begin, end in spans:
        begin = max(begin, reached)  # noqa: PLW2901 (time that was counted already is not counted again)
        if end > begin:
            total += end - begin
            reached = end
    return total

"""Trends: the numbers of each part of a span, from the events alone."""

from __future__ import annotations

from leasehold.domain.events import Event
from leasehold.domain.timestamps import SECOND
from leasehold.pictures.trends import POINTS, trends


def event(kind: str, at: int, lease: str | None = None, **detail: object) -> Event:
    return Event(kind, at * SECOND, "default", ("a",), "ann", None, lease, 1, detail, at)


def test_leases_are_counted_back_from_those_held_now() -> None:
    events = [event("released", 40, "l1"), event("granted", 30, "l2"), event("granted", 10, "l1")]
    held = [point.held for point in trends(events, 1, 0, POINTS * SECOND)]
    assert (held[5], held[20], held[35], held[-1]) == (0, 1, 2, 1)


def test_waits_count_while_they_last_and_when_they_are_granted() -> None:
    events = [
        event("queued", 50, waiter="w3"),
        event("timeout", 45, waiter="w2"),
        event("queued", 35, waiter="w2"),
        event("granted", 30, "l1", waiter="w1", waited=20 * SECOND),
        event("queued", 10, waiter="w1"),
    ]
    points = trends(events, 1, 0, POINTS * SECOND)
    waiting = [point.waiting for point in points]
    assert (waiting[5], waiting[20], waiting[32], waiting[40], waiting[47], waiting[-1]) == (0, 1, 0, 1, 0, 1)
    assert points[30].wait == 20 * SECOND
    assert points[30].grants == 1


def test_a_wait_that_began_before_the_span_counts_in_it() -> None:
    points = trends([event("granted", 110, "l1", waiter="w1", waited=60 * SECOND)], 1, 100 * SECOND, 160 * SECOND)
    assert [point.waiting for point in points[:12]] == [1] * 10 + [0] * 2


def test_the_95th_percentile_leaves_out_the_worst_of_twenty() -> None:
    events = [event("granted", 30, f"l{number}", waited=number * SECOND) for number in range(1, 21)]
    assert trends(events, 20, 0, POINTS * SECOND)[30].wait == 19 * SECOND


def test_no_events_make_flat_lines() -> None:
    assert {(point.held, point.waiting, point.wait) for point in trends([], 3, 0, SECOND)} == {(3, 0, 0)}

"""The checker on histories that nobody wrote: what the rules do passes, and whatever is then falsified is noticed."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given, settings

from leasehold.domain import commands as c
from leasehold.domain.outcomes import Granted, Queued
from leasehold.testing.checker import check
from tests.testing.wander import ROOT, Wanderer

if TYPE_CHECKING:
    from leasehold.domain.events import Event

SEEDS = 2000 if os.environ.get("LEASEHOLD_PROVE") == "1" else 40
STEPS = 80


@cache
def history(seed: int) -> tuple[Event, ...]:
    """A good history, from beginning to end."""
    wanderer = Wanderer(seed)
    wanderer.walk(STEPS)
    wanderer.go_home()
    assert check(wanderer.world.events, finished=True, residue=wanderer.world.records) == []
    return tuple(event._replace(seq=number) for number, event in enumerate(wanderer.world.events, 1))


def kinds(events: list[Event]) -> set[str]:
    return {violation.kind for violation in check(events, finished=True)}


def numbered(events: list[Event]) -> list[Event]:
    return [event._replace(seq=number) for number, event in enumerate(events, 1)]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_rules_keep_every_promise(seed: int) -> None:
    assert kinds(list(history(seed))) == set()


@pytest.mark.parametrize("seed", range(SEEDS, SEEDS + 20))
def test_so_it_does_when_an_engine_dies(seed: int) -> None:
    wanderer = Wanderer(seed, engines=3)
    wanderer.walk(STEPS)
    wanderer.kill()
    wanderer.walk(STEPS)
    wanderer.go_home()
    events, records = wanderer.world.events, wanderer.world.records
    assert check(events, finished=True, residue=records, dead_engines=wanderer.dead) == []


def test_the_walks_come_past_everything() -> None:
    seen = {event.kind for seed in range(SEEDS) for event in history(seed)}
    assert seen >= {
        *("granted", "queued", "renewed", "updated", "released", "expired", "forced", "refused", "deadlock"),
        *("cancelled", "timeout", "quarantined", "cleared", "session_started", "session_ended"),
    }


def test_a_promise_that_an_admin_ended_is_not_picked_up() -> None:
    ours, theirs = (wanderer := Wanderer(0)).engines
    wanderer.beat()
    first = wanderer.asking(resources="x", mode="exclusive", slots=1, session=None, request_id=None, ttl=9)
    held = wanderer.do(first, ours)
    asked = wanderer.asking(
        resources="x", mode="exclusive", slots=1, session=None, request_id=None, ttl=9, wait=9, grace=5, holder="eve"
    )._replace(engine=theirs)
    waits = wanderer.do(asked, theirs)
    assert isinstance(held, Granted)
    assert isinstance(waits, Queued)
    wanderer.do(c.Release(held.lease.id, ROOT), ours)
    wanderer.do(c.Force("root", "because", lease=wanderer.world.events[-1].lease), ours)
    assert not isinstance(wanderer.do(c.Check(waits.waiter, asked.ask), theirs), Granted)
    assert check(wanderer.world.events) == []


# ------------------------------------------------------------------------------------------ falsified

histories = st.integers(0, SEEDS - 1).map(history).map(list)


def pick(data: st.DataObject, events: list[Event], *wanted: str, waiter: bool | None = None) -> int:
    """The place of some event of one of these kinds, about a waiter or not."""
    places = [
        place
        for place, event in enumerate(events)
        if event.kind in wanted and (waiter is None or waiter == ("waiter" in event.detail))
    ]
    assume(places)
    return data.draw(st.sampled_from(places))


@given(histories, st.data())
@settings(deadline=None)
def test_exchanged_fences_are_noticed(events: list[Event], data: st.DataObject) -> None:
    one, other = pick(data, events, "granted"), pick(data, events, "granted")
    assume(one != other)
    fences = events[one].fence, events[other].fence
    events[one], events[other] = events[one]._replace(fence=fences[1]), events[other]._replace(fence=fences[0])
    assert "fence" in kinds(events)


@given(histories, st.data())
@settings(deadline=None)
def test_a_missing_end_of_a_lease_is_noticed(events: list[Event], data: st.DataObject) -> None:
    del events[pick(data, events, "released", "expired", "forced")]
    assert "residue" in kinds(events)


@given(histories, st.data())
@settings(deadline=None)
def test_a_missing_end_of_a_wait_is_noticed(events: list[Event], data: st.DataObject) -> None:
    del events[pick(data, events, "timeout", "cancelled", waiter=True)]
    assert "wait" in kinds(events)


@given(histories, st.data())
@settings(deadline=None)
def test_a_missing_grant_is_noticed(events: list[Event], data: st.DataObject) -> None:
    del events[pick(data, events, "granted")]
    assert "life" in kinds(events)


@given(histories, st.data())
@settings(deadline=None)
def test_a_grant_that_is_reported_twice_is_noticed(events: list[Event], data: st.DataObject) -> None:
    place = pick(data, events, "granted")
    later = data.draw(st.integers(place + 1, len(events)))
    events.insert(later, events[place]._replace(at_us=events[later - 1].at_us))
    assert kinds(numbered(events)) >= {"life", "fence"}


@given(histories, st.data())
@settings(deadline=None)
def test_an_end_that_is_reported_twice_is_noticed(events: list[Event], data: st.DataObject) -> None:
    place = pick(data, events, "released", "expired", "forced")
    events.insert(place + 1, events[place])
    assert "life" in kinds(numbered(events))


@given(histories, st.data())
@settings(deadline=None)
def test_a_renewal_after_the_end_is_noticed(events: list[Event], data: st.DataObject) -> None:
    place = pick(data, events, "released", "expired", "forced")
    later = data.draw(st.integers(place + 1, len(events)))
    now = events[later - 1].at_us
    events.insert(later, events[place]._replace(kind="renewed", at_us=now, detail={"expires_at": now + 10**9}))
    assert "life" in kinds(numbered(events))


@given(histories, st.data())
@settings(deadline=None)
def test_a_time_that_is_shifted_out_of_order_is_noticed(events: list[Event], data: st.DataObject) -> None:
    place = data.draw(st.integers(1, len(events) - 1))
    back = data.draw(st.integers(1, 10**9))
    events[place] = events[place]._replace(at_us=events[place - 1].at_us - back)
    assert "clock" in kinds(events)


@given(histories, st.data())
@settings(deadline=None)
def test_a_request_that_barges_is_noticed(events: list[Event], data: st.DataObject) -> None:
    place = pick(data, events, "queued")
    waits = events[place]
    assume(waits.at_us < int(str(waits.detail["deadline"])))
    detail = {"mode": "X", "slots": 1, "ttl": 1, "expires_at": waits.at_us + 1, "priority": -(10**6)}
    barges = waits._replace(kind="granted", holder="mallory", session=None, lease="l0", fence=10**9, detail=detail)
    events.insert(place + 1, barges)
    assert "fifo" in kinds(numbered(events))


@given(histories, st.data())
@settings(deadline=None)
def test_a_second_holder_is_noticed(events: list[Event], data: st.DataObject) -> None:
    place = pick(data, events, "granted")
    held = events[place]
    assume(held.at_us < int(str(held.detail["expires_at"])))
    detail = {"mode": "X", "slots": 1, "ttl": 1, "expires_at": held.at_us + 1, "stolen_by": "nobody"}
    second = held._replace(holder="mallory", session=None, lease="l0", fence=10**9, detail=detail)
    events.insert(place + 1, second)
    assert "overlap" in kinds(numbered(events))

"""Histories of several lanes as one: every event once, by time, in pages that fit together."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from leasehold.domain.events import Event
from leasehold.domain.outcomes import Refused
from leasehold.errors import InvalidInput
from leasehold.requests.calls import Call
from leasehold.routing.cursors import cursor_of, moved, text_of
from leasehold.routing.joining import conversation, driven
from leasehold.routing.lanes import lane_of_space, numbered

if TYPE_CHECKING:
    from collections.abc import Sequence

LANES = 3
SPACES = {lane: next(f"s{n}" for n in range(100) if lane_of_space(f"s{n}", LANES) == lane) for lane in (1, 2, 3)}
ASKED: dict[str, Any] = {"resource": None, "holder": None, "lease": None, "kinds": (), "since": None}


def event(lane: int, seq: int, at: int) -> Event:
    space = SPACES.get(lane, SPACES[1])  # events of keys are in the control lane, and have a space, too
    return Event("granted", at, space, (f"r{seq}",), "ada", None, None, seq, {}, seq)


class Histories:
    """One history for each lane, the oldest event first, which answers calls as a lane does."""

    def __init__(self, chance: random.Random, most: int) -> None:
        self.events: list[list[Event]] = []
        for lane in range(LANES + 1):
            times = sorted(chance.randrange(20) for _ in range(chance.randrange(most)))
            self.events.append([event(lane, seq, at) for seq, at in enumerate(times, 1)])

    def ask(self, lane: int, call: Call) -> Sequence[Event]:
        asked = call.arguments
        found = [
            each
            for each in reversed(self.events[lane])
            if (asked["before"] is None or each.seq < asked["before"]) and asked["space"] in (None, each.space)
        ]
        return tuple(found[: asked["limit"]])

    def all(self, space: str | None) -> list[Event]:
        shown = [
            ((each.at_us, lane, each.seq), numbered(each, lane))
            for lane, events in enumerate(self.events)
            for each in events
            if space in (None, each.space)
        ]
        return [each for _, each in sorted(shown, key=lambda pair: pair[0], reverse=True)]


def page(histories: Histories, space: str | None, before: int | None, limit: int) -> Sequence[Event]:
    call = Call("history", {**ASKED, "space": space, "before": before, "limit": limit})
    found: Sequence[Event] = driven(conversation(call, LANES), histories.ask)
    return found


@pytest.mark.parametrize("space", [None, *SPACES.values()])
@pytest.mark.parametrize("seed", range(40))
def test_pages_of_all_lanes_fit_together(seed: int, space: str | None) -> None:
    chance = random.Random(seed)
    histories = Histories(chance, 30)
    limit, found, before = chance.randrange(1, 8), list[Event](), None
    while got := page(histories, space, before, limit):
        found += got
        before = got[-1].seq
    assert found == histories.all(space)


def test_a_page_before_any_number_is_an_answer() -> None:
    histories = Histories(random.Random(7), 30)
    assert page(histories, None, 2**53 - 1, 1_000) == tuple(histories.all(None))
    assert page(histories, None, 0, 1_000) == ()
    for before in range(0, 2_000, 7):
        page(histories, None, before, 3)


def test_what_was_pruned_in_one_lane_is_not_told_of_again() -> None:
    histories = Histories(random.Random(7), 30)
    oldest = histories.all(None)[-1]
    histories.events[oldest.seq % 256] = []
    assert page(histories, None, oldest.seq, 10) == ()


def test_a_wrong_argument_asks_no_lane() -> None:
    with pytest.raises(InvalidInput, match="limit"):
        page(Histories(random.Random(7), 1), None, None, 0)


@pytest.mark.parametrize("verb", ["list", "sessions", "gc", "graph", "history"])
def test_the_refusal_of_a_lane_is_the_answer(verb: str) -> None:
    refused = Refused("not_allowed", "", "no")
    call = Call(verb, {**ASKED, "space": None, "before": None, "limit": 5})
    assert driven(conversation(call, LANES), lambda lane, _: refused if lane == 0 else ()) is refused


class TestCursors:
    @pytest.mark.parametrize("cursor", [(0,), (1207,), (12, 0, 47, 3, 8)])
    def test_are_text_and_back(self, cursor: tuple[int, ...]) -> None:
        assert cursor_of(text_of(cursor), len(cursor) - 1) == cursor

    @pytest.mark.parametrize("text", ["", ".", "1.2", "1.2.3.4.5", "1.-2.3.4", "1.2.3.x", "1.2.3.²", f"1.2.3.{9**20}"])
    def test_of_other_stores_are_none(self, text: str) -> None:
        assert cursor_of(text, 3) is None

    def test_move_in_one_lane_only(self) -> None:
        assert moved((12, 0, 47, 3), 48 * 256 + 2) == (12, 0, 48, 3)
        assert moved((12,), 13) == (13,)

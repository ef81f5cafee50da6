"""Calls that several lanes answer: which lanes are asked, and how their answers are joined. No I/O.

A conversation yields each lane with the call that it is to answer, and is sent the answer. Lanes are asked one after
the other, so what is joined is not of one moment; of each space, all of it is.
"""

from __future__ import annotations

from leasehold.domain.graph import Graph
from leasehold.domain.outcomes import Collected, Refused
from leasehold.requests.calls import Call
from leasehold.requests.lookups import history_query
from leasehold.routing.lanes import every_lane, lane_of_id, lane_of_space, numbered, place_of
from leasehold.stores.layout import CONTROL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from typing import Any, TypeAlias

    from leasehold.domain.events import Event

    Conversation: TypeAlias = Generator[tuple[int, Call], Any, Any]

DEADLOCKS_SHOWN = 20
ANY_EVENT = {"space": None, "resource": None, "holder": None, "lease": None, "kinds": (), "since": None}


def conversation(call: Call, lanes: int) -> Conversation:
    """Return the conversation with several lanes that answers this call. Raises `InvalidInput` for wrong arguments."""
    if call.verb == "history":
        history_query(dict(call.arguments))  # no lane is asked if an argument is wrong
        return _history(call, lanes)
    return _joined(call, every_lane(lanes), _JOINS[call.verb])


def driven(talk: Conversation, ask: Callable[[int, Call], Any]) -> Any:  # noqa: ANN401 (see `calls.Answers`)
    """Hold a conversation to its end, and return its answer."""
    answer = None
    try:
        while True:
            answer = ask(*talk.send(answer))
    except StopIteration as end:
        return end.value


def _joined(call: Call, asked: Iterable[int], join: Callable[[list[Any], Call], Any]) -> Conversation:
    """Ask each of these lanes the same. The first refusal is the answer."""
    found = []
    for lane in asked:
        answer = yield lane, call
        if isinstance(answer, Refused):
            return answer
        found.append(answer)
    return join(found, call)


def _leases(found: list[Any], _call: Call) -> object:
    return tuple(sorted((each for part in found for each in part), key=lambda lease: lease.acquired_us))


def _plans(found: list[Any], _call: Call) -> object:
    return tuple(sorted((each for part in found for each in part), key=lambda plan: plan.since_us))


def _sessions(found: list[Any], _call: Call) -> object:
    return tuple(sorted((each for part in found for each in part), key=lambda session: session.started_us))


def _collected(found: list[Any], _call: Call) -> object:
    return Collected(sum(each.swept for each in found), sum(each.forgotten for each in found))


def _graph(found: list[Any], call: Call) -> object:
    """Join the graphs of all lanes: the edges that wait longest, with the agents at their ends."""
    limit = call.arguments["limit"]
    edges = sorted((edge for part in found for edge in part.edges), key=lambda edge: edge.since_us)
    ends = {end for edge in edges[:limit] for end in (edge.waiter, edge.blocker)}
    deadlocks = [numbered(event, lane) for lane, part in enumerate(found) for event in part.deadlocks]
    return Graph(
        max(part.now_us for part in found),
        tuple(agent for part in found for agent in part.agents if agent.id in ends),
        tuple(edges[:limit]),
        len(edges) <= limit and all(part.complete for part in found),
        newest(deadlocks, DEADLOCKS_SHOWN),
    )


_JOINS: dict[str, Callable[[list[Any], Call], Any]] = {
    "list": _leases,
    "plans": _plans,
    "sessions": _sessions,
    "gc": _collected,
    "graph": _graph,
}


# --------------------------------------------------------------------------------------------- history


def _history(call: Call, lanes: int) -> Conversation:
    """Merge the newest events of each lane. The number to go on from tells the place in every lane."""
    asked = call.arguments
    found: list[Event] = []
    for lane in lanes_of_history(asked["space"], asked["lease"], lanes):
        before = None if asked["before"] is None else (yield from place_in(lane, asked["before"], lanes))
        answer = yield lane, Call("history", {**asked, "before": before}, call.authority)
        if isinstance(answer, Refused):
            return answer
        found += [numbered(event, lane) for event in answer]
    return newest(found, asked["limit"])


def lanes_of_history(space: str | None, lease: str | None, lanes: int) -> list[int]:
    """Return the lanes with events of this space or lease. The events of keys are in the control lane."""
    if lease is not None:
        return [lane_of_id(lease, lanes)]
    if space is not None:
        return list({CONTROL: None, lane_of_space(space, lanes): None})
    return list(every_lane(lanes))


def order_of(event: Event) -> tuple[int, int, int]:
    """Return the place of a numbered event among those of all lanes: by time, and in one lane as it numbered them."""
    lane, number = place_of(event.seq)
    return event.at_us, lane, number


def newest(events: Iterable[Event], limit: int) -> tuple[Event, ...]:
    """Return the newest of these numbered events, the newest first."""
    return tuple(sorted(events, key=order_of, reverse=True)[:limit])


def place_in(lane: int, before: int, lanes: int) -> Generator[tuple[int, Call], Any, int | None]:
    """Return the number in this lane before which its events come after that one in the merged history.

    None if all of them do. No lane knows the times of events in another lane, so it is searched by halves.
    """
    own, number = place_of(before)
    own = min(own, lanes)  # any number is allowed, also one that no event has
    if lane == own:
        return number
    event = yield from _event_at(own, number)
    if event is None:
        return 0  # that far back, the other lane has forgotten everything
    if event.seq < number:
        return None  # there is no such event yet
    last = yield from _event_at(lane, None)
    low, high = 0, 0 if last is None else last.seq
    while low < high:  # the events up to `low` are older, those beyond `high` are not
        middle = (low + high + 1) // 2
        found = yield from _event_at(lane, middle)
        if found is None or (found.at_us, lane) < (event.at_us, own):
            low = middle
        else:
            high = found.seq - 1
    return low + 1


def _event_at(lane: int, number: int | None) -> Generator[tuple[int, Call], Any, Event | None]:
    """Return the newest event of a lane up to this number, as the lane numbers it."""
    before = None if number is None else number + 1
    found = yield lane, Call("history", {**ANY_EVENT, "before": before, "limit": 1})
    return found[0] if found else None

"""The wait-for graph for people. Pure: its edges are those by which deadlocks are found, and no others."""

from __future__ import annotations

from leasehold.domain.graph import Agent, Edge, Graph
from leasehold.domain.nouns import Noun
from leasehold.domain.rules.acquiring import INTENT_LIFE
from leasehold.domain.rules.granting import SESSION
from leasehold.domain.rules.waitgraph import LAST, WaitGraph
from leasehold.domain.sessions import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasehold.domain.entries import Alternative
    from leasehold.domain.rules import Draft
    from leasehold.domain.rules.deadlock import Need
    from leasehold.domain.rules.waitgraph import Rival


class _Place(Noun):
    """One wait of one actor: in a queue, or between two polls."""

    since: int
    until: int
    actor: str
    holder: str
    space: str
    id: str | None
    options: tuple[Alternative, ...]
    slots: int
    order: tuple[int, ...]


class _Seen(WaitGraph):
    """The graph, with a note of each edge that was followed."""

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self.noted: list[tuple[str, Rival]] = []

    def _need(self, actor: str, resource: str, rivals: list[Rival], enough: int) -> Iterable[Need]:
        for need in super()._need(actor, resource, rivals, enough):
            self.noted += [(resource, rival) for rival in rivals if rival.actor != actor]
            yield need


def picture(draft: Draft, actors: Sequence[str], space: str | None, most: int) -> Graph:
    """Return the graph of these actors; of more than `most` edges, those of the longest waits."""
    graph = _Seen(draft)
    places = [place for actor in actors for place in _places(graph, actor) if space in (None, place.space)]
    edges: list[Edge] = []
    agents: dict[str, Agent] = {}
    for place in sorted(places, key=lambda each: (each.since, each.actor, each.id or "")):
        found = _edges(graph, place)
        edges += found
        names = {place.actor: place.holder, **{rival.actor: rival.holder for _, rival in graph.noted}}
        agents.update((actor, Agent(actor, place.space, name, None)) for actor, name in names.items())
        if len(edges) > most:
            break
    told = tuple(edges[:most])
    shown = dict.fromkeys(actor for edge in told for actor in (edge.waiter, edge.blocker))
    draft.require(list(shown))
    notes = ((actor, draft.record(actor).notes.get(SESSION)) for actor in shown)
    who = tuple(
        agents[actor]._replace(session=note.session if isinstance(note, Session) else None) for actor, note in notes
    )
    return Graph(draft.now, who, told, len(edges) <= most, ())


def _places(graph: _Seen, actor: str) -> Iterable[_Place]:
    """Yield the actor's places in queues, and its intent as a place behind all others."""
    if not graph.lives(actor):
        return
    for waiter, ask in graph.waiters(actor):
        yield _Place(
            waiter.since,
            waiter.deadline,
            actor,
            waiter.holder,
            ask.space,
            waiter.id,
            ask.options,
            ask.slots,
            waiter.order,
        )
    wish = graph.wish(actor)
    if wish is not None:
        since = wish.until - INTENT_LIFE
        yield _Place(since, wish.until, actor, wish.holder, wish.space, None, wish.options, wish.slots, LAST)


def _edges(graph: _Seen, place: _Place) -> list[Edge]:
    """Return an edge from this place to each rival that blocks it; none if one of its options is free."""
    graph.noted.clear()
    if not all(graph.choices(place.actor, place.options, place.slots, place.order)):
        return []  # one of its options is free: it waits for no actor, only for the next turn
    found = [
        Edge(
            place.actor,
            rival.actor,
            resource,
            "held" if rival.id.startswith("l") else "waiting",
            rival.id,
            place.id,
            place.since,
            place.until,
        )
        for resource, rival in graph.noted
    ]
    return list(dict.fromkeys(found))  # once, also for an overlap in several ways

"""Each wait as a whole, from the edges of the graph: who, for what, behind whom, which leases are in the way. Pure."""

from __future__ import annotations

from leasehold.domain.nouns import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.domain.graph import Edge, Graph
    from leasehold.domain.leases import Inspection, Waiting

    Place = Callable[[Sequence[Waiting]], int]
    """Where in a queue the caller stands; 0 if it is not in that queue."""


class WaitSummary(Noun):
    """One place in a queue, or one agent that polls."""

    id: str
    """Of its place in the queue; of whoever polls, made up."""
    holder: str
    space: str
    polls: bool
    resources: tuple[str, ...]
    since: int
    until: int
    behind: tuple[tuple[str, str], ...]
    """Everybody it waits for, by name, and whether that one has it (`held`) or stands before it (`waiting`)."""
    leases: tuple[str, ...]
    """The ids of the leases that are in its way, also of those that only overlap with what it wants."""


def waits_of(graph: Graph) -> tuple[WaitSummary, ...]:
    """Who has waited longest comes first, as in the graph."""
    found: dict[str, list[Edge]] = {}
    for edge in graph.edges:
        found.setdefault(edge.place or f"polls {edge.waiter}", []).append(edge)
    agents = {agent.id: agent for agent in graph.agents}
    return tuple(
        WaitSummary(
            id_,
            agents[edges[0].waiter].holder,
            agents[edges[0].waiter].space,
            edges[0].place is None,
            tuple(dict.fromkeys(edge.resource for edge in edges)),
            edges[0].since_us,
            edges[0].until_us,
            tuple(dict.fromkeys((agents[edge.blocker].holder, edge.state) for edge in edges)),
            tuple(dict.fromkeys(edge.by for edge in edges if edge.state == "held")),
        )
        for id_, edges in found.items()
    )


def together(seen: Sequence[Inspection], place: Place, *, any_of: bool) -> Inspection:
    """Everybody who is in the way of any of them, and the queue that decides.

    Who wants all of them is served when the longest way is over; who wants any, with the shortest.
    """
    if len(seen) == 1:
        return seen[0]
    leases = {lease.id: lease for each in seen for lease in each.leases}
    closed = {(it.lease, it.resource): it for each in seen for it in each.closed}
    return seen[0]._replace(
        now_us=max(each.now_us for each in seen),
        leases=tuple(leases.values()),
        waiting=_deciding([each.waiting for each in seen], place, any_of=any_of),
        closed=tuple(closed.values()),
    )


def _deciding(queues: list[tuple[Waiting, ...]], place: Place, *, any_of: bool) -> tuple[Waiting, ...]:
    joined = [queue for queue in queues if place(queue)] or queues
    return min(joined, key=place) if any_of else max(joined, key=place)

"""Waits as people see them: one summary for each waiter, and one view of a wait for several resources. Pure."""

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
    """The id of its place in the queue; derived from the agent's id if it polls."""
    holder: str
    space: str
    polls: bool
    resources: tuple[str, ...]
    since: int
    until: int
    behind: tuple[tuple[str, str], ...]
    """The holders it waits for, each with `held` or `waiting` (before it in the queue)."""
    leases: tuple[str, ...]
    """The ids of the leases in its way, those on overlapping names included."""


def waits_of(graph: Graph) -> tuple[WaitSummary, ...]:
    """Summarise the waits of the graph, the longest first."""
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
    """Combine the inspections of several resources into one, with all leases in the way and the queue that decides.

    A request for all of them is granted after the longest queue; one for any of them after the shortest.
    """
    if len(seen) == 1:
        return seen[0]
    queues = [each.waiting for each in seen]
    joined = [queue for queue in queues if place(queue)] or queues
    leases = {lease.id: lease for each in seen for lease in each.leases}
    closed = {(it.lease, it.resource): it for each in seen for it in each.closed}
    return seen[0]._replace(
        now_us=max(each.now_us for each in seen),
        leases=tuple(leases.values()),
        waiting=min(joined, key=place) if any_of else max(joined, key=place),
        closed=tuple(closed.values()),
    )

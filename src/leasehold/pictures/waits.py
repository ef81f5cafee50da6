"""Each wait as a whole, from the edges of the graph: who, for what, behind whom, which leases are in the way. Pure."""

from __future__ import annotations

from leasehold.domain.nouns import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.domain.graph import Edge, Graph


class Wait(Noun):
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


def waits_of(graph: Graph) -> tuple[Wait, ...]:
    """Who has waited longest comes first, as in the graph."""
    found: dict[str, list[Edge]] = {}
    for edge in graph.edges:
        found.setdefault(edge.place or f"polls {edge.waiter}", []).append(edge)
    agents = {agent.id: agent for agent in graph.agents}
    return tuple(
        Wait(
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

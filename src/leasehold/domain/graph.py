"""The graph of who waits for whom."""

from __future__ import annotations

from leasehold.domain.nouns import Noun
from leasehold.domain.timestamps import moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

    from leasehold.domain.events import Event


class Agent(Noun):
    """An agent in the wait-for graph: a session, or a holder without one."""

    id: str
    """Constant for as long as it lives; edges name it by this."""
    space: str
    holder: str
    session: str | None


class Edge(Noun):
    """One agent waits for another, for the sake of a resource."""

    waiter: str
    """The id of the agent that waits."""
    blocker: str
    """The id of the agent that would have to give way."""
    resource: str
    """The wanted resource."""
    state: str
    """`held`: the other has it, or what overlaps with it. `waiting`: the other is before it in the queue."""
    by: str
    """The id of the lease, or of the other's place in the queue."""
    place: str | None
    """The id of the waiter's place in the queue; None for an agent that polls and was refused."""
    since_us: int
    until_us: int
    """When it waits no longer, at the latest."""

    @property
    def since(self) -> datetime:
        """Since when it waits."""
        return moment(self.since_us)

    @property
    def until(self) -> datetime:
        """When it waits no longer, at the latest."""
        return moment(self.until_us)


class Graph(Noun):
    """The wait-for graph at one moment (`now`, on the store's clock)."""

    now_us: int
    agents: tuple[Agent, ...]
    """The agents at both ends of the edges."""
    edges: tuple[Edge, ...]
    """The longest waits come first."""
    complete: bool
    """True if these are all edges; otherwise they are those of the longest waits."""
    deadlocks: tuple[Event, ...]
    """The latest requests that were refused because they would have closed a cycle, newest first."""

    @property
    def now(self) -> datetime:
        """When it was seen like this, by the store's clock."""
        return moment(self.now_us)

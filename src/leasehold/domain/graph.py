"""The graph of who waits for whom."""

from __future__ import annotations

from leasehold.domain.nouns import Noun
from leasehold.domain.timestamps import moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

    from leasehold.domain.events import Event


class Agent(Noun):
    """Somebody in the wait-for graph: a session, or a holder without one."""

    id: str
    """The same for as long as it lives; edges name it by this."""
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
    """What is wanted."""
    state: str
    """`held`: the other has it, or what overlaps with it. `waiting`: the other is before it in the queue."""
    by: str
    """The id of the lease, or of the other's place in the queue."""
    place: str | None
    """The id of the place in the queue of whoever waits; None: it only polls, and its last try was refused."""
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
    """Who waits for whom at one moment (`now`, on the store's clock)."""

    now_us: int
    agents: tuple[Agent, ...]
    """Whoever waits, and whoever is waited for."""
    edges: tuple[Edge, ...]
    """Who waited first comes first."""
    complete: bool
    """Whether these are all edges; otherwise the longest-waiting agents have theirs here."""
    deadlocks: tuple[Event, ...]
    """The latest requests that were refused because they would have closed a cycle, newest first."""

    @property
    def now(self) -> datetime:
        """When it was seen like this, by the store's clock."""
        return moment(self.now_us)

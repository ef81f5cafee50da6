"""Plans as callers see them: what an agent is about to touch, and what overlaps with it."""

from __future__ import annotations

from leasehold.domain.nouns import Noun
from leasehold.domain.timestamps import moment, moment_or_never, span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime, timedelta


class Overlap(Noun):
    """One cell of the conflict matrix: a planned resource, and what another agent plans, holds or waits for there."""

    resource: str
    """The planned resource."""
    other: str
    """The resource of the other agent, which overlaps with it."""
    state: str
    """`planned`, `held`, `waiting`, `grace` or `quarantined`."""
    holder: str
    session: str | None
    name: str | None
    reason: str | None
    since_us: int
    until_us: int
    id: str
    """Of the other plan, of the lease, or of the place in the queue."""

    @property
    def since(self) -> datetime:
        """Since when the other agent plans, holds or waits for it."""
        return moment(self.since_us)

    @property
    def until(self) -> datetime | None:
        """When that ends unless it is renewed; None: not before an admin clears it."""
        return moment_or_never(self.until_us)


class Plan(Noun):
    """Announcement of what an agent is about to touch. A plan grants nothing and blocks nobody."""

    id: str
    space: str
    resources: tuple[str, ...]
    """Without those that the agent has leased since."""
    holder: str
    session: str | None
    name: str | None
    reason: str | None
    ttl_us: int
    since_us: int
    expires_us: int
    as_of_us: int
    """When it was seen like this."""
    overlaps: tuple[Overlap, ...] = ()
    """The first hundred overlaps with other agents."""
    principal: str | None = None
    """The principal that announced it, as `NAME:ID`, for admins; None on a store or server without keys."""
    key: str | None = None

    @property
    def ttl(self) -> timedelta:
        """Its life unless it is announced again."""
        return span(self.ttl_us)

    @property
    def since(self) -> datetime:
        """When it was announced."""
        return moment(self.since_us)

    @property
    def expires_at(self) -> datetime:
        """When it ends unless it is announced again."""
        return moment(self.expires_us)

    @property
    def as_of(self) -> datetime:
        """When it was seen like this, by the store's clock."""
        return moment(self.as_of_us)

"""Leases and queues as callers see them.

Times are whole microseconds of the store's clock. Such a field ends in `_us`, and a property beside it returns the
`datetime` or `timedelta`.
"""

from __future__ import annotations

from leasehold.domain.nouns import Noun
from leasehold.domain.timestamps import moment, moment_or_never, span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from leasehold.domain.plans import Plan


class Lease(Noun):
    """One grant, as its holder and everybody else may see it (the token is not part of it)."""

    id: str
    space: str
    resources: tuple[str, ...]
    holder: str
    session: str | None
    mode: str
    """`exclusive`, `shared` or `slots`."""
    slots: int
    fence: int
    ttl_us: int
    acquired_us: int
    expires_us: int
    name: str | None
    reason: str | None
    context: str | None
    as_of_us: int
    """When it was seen like this: so much of its life is left."""
    principal: str | None = None
    """The principal that took it, as `NAME:ID`, for admins; None on a store or server without keys."""
    key: str | None = None
    """The id of the key that it was taken with, for admins."""
    trace: str | None = None
    """The trace of the caller that acquired it, if there is one: a `traceparent`."""
    host: str | None = None
    """The machine of the caller that acquired it, as that caller names it."""

    @property
    def value(self) -> str | None:
        """The member of a pool that this lease has; None if it is on no pool."""
        return self.resources[0].rpartition("/")[2] if self.resources[0].startswith("pool://") else None

    @property
    def ttl(self) -> timedelta:
        """Its life unless it is renewed."""
        return span(self.ttl_us)

    @property
    def acquired_at(self) -> datetime:
        """When it was granted."""
        return moment(self.acquired_us)

    @property
    def expires_at(self) -> datetime:
        """When it ends unless it is renewed."""
        return moment(self.expires_us)

    @property
    def as_of(self) -> datetime:
        """When it was seen like this, by the store's clock."""
        return moment(self.as_of_us)


class Blocker(Noun):
    """An obstacle to a request: a lease, a waiter ahead, or a resource closed after an unclean end."""

    resource: str
    holder: str
    state: str
    """`held`, `waiting` (a waiter ahead), `grace` or `quarantined`."""
    mode: str
    name: str | None
    reason: str | None
    since_us: int
    until_us: int
    fence: int
    lease: str
    as_of_us: int
    """When it was seen like this."""
    yours: bool = False
    """True if the caller has proved that it is its own: by a token of the lease, or by the secret of its session."""
    watched_us: int | None = None
    """Over git: when this observer first saw the lease as it is now. `until` is when this observer may take it over."""
    recorded_us: int | None = None
    """Over git, without `max_skew`: when the lease expires by the wall clock of the machine that wrote it."""
    session: str | None = None
    """The session that renews the lease, so that it may well live on after `until`."""

    @property
    def is_kept_alive(self) -> bool:
        """True for the lease of a session: each heartbeat moves `until`, so nothing is known of its end."""
        return self.session is not None and self.state == "held"

    @property
    def since(self) -> datetime:
        """Since when it is in the way."""
        return moment(self.since_us)

    @property
    def until(self) -> datetime | None:
        """When it is out of the way at the latest; None: not before an admin clears it."""
        return moment_or_never(self.until_us)

    @property
    def as_of(self) -> datetime:
        """When it was seen like this, by the store's clock."""
        return moment(self.as_of_us)

    @property
    def watched_since(self) -> datetime | None:
        """As `watched_us`."""
        return moment_or_never(self.watched_us)

    @property
    def recorded_until(self) -> datetime | None:
        """As `recorded_us`."""
        return moment_or_never(self.recorded_us)


def as_held(lease: Lease) -> Blocker:
    """Return the obstacle that this lease is to others."""
    return Blocker(
        lease.resources[0],
        lease.holder,
        "held",
        lease.mode,
        lease.name,
        lease.reason,
        lease.acquired_us,
        lease.expires_us,
        lease.fence,
        lease.id,
        lease.as_of_us,
        session=lease.session,
    )


class Queue(Noun):
    """The length of a queue, and the place that the caller has or would have (1 is next)."""

    length: int
    position: int


class Waiting(Noun):
    """One place in a queue, as everybody may see it."""

    id: str
    resources: tuple[str, ...]
    holder: str
    session: str | None
    mode: str
    position: int
    since_us: int
    deadline_us: int
    name: str | None
    reason: str | None
    principal: str | None = None
    """As `Lease.principal`."""
    key: str | None = None

    @property
    def since(self) -> datetime:
        """Since when it waits."""
        return moment(self.since_us)

    @property
    def deadline(self) -> datetime:
        """When it gives up."""
        return moment(self.deadline_us)


class Inspection(Noun):
    """A resource at one moment (`now`, on the store's clock)."""

    resource: str
    now_us: int
    leases: tuple[Lease, ...]
    """The leases on it, on a part of it, or on something that covers it."""
    waiting: tuple[Waiting, ...]
    closed: tuple[Blocker, ...]
    """Obstacles left by an unclean end: grace or quarantine."""
    plans: tuple[Plan, ...] = ()
    """The plans that overlap with it."""

    @property
    def now(self) -> datetime:
        """When it was seen like this, by the store's clock."""
        return moment(self.now_us)

"""What can be asked over HTTP: one type a body. They decode the requests, and OpenAPI is generated from them.

Types only: ranges and spellings are checked where every surface has them checked (see ``checks``).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

Seconds: TypeAlias = int | float
DEFAULT_TTL = 1800


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """What every body has in common: a field that is not known is a mistake, and is told."""


class Acquire(Body):
    """Take a lease, or wait for it."""

    resources: list[str] | str
    ttl: Seconds = msgspec.field(default=DEFAULT_TTL, name="ttl_seconds")
    wait: Seconds = msgspec.field(default=0, name="wait_seconds")
    mode: str | None = None
    slots: int = 1
    any_of: bool = False
    holder: str | None = None
    session: str | None = None
    space: str | None = None
    name: str | None = None
    context: Any = None
    reason: str | None = None
    priority: int = 0
    reentrant: bool = False
    grace: Seconds = msgspec.field(default=0, name="grace_seconds")
    on_expiry: str = "free"
    request_id: str | None = None
    intent: bool = False
    first: bool = False
    token: list[str] | str | None = None


class Renew(Body):
    """Set a lease's clock back to a full TTL."""

    lease: str
    token: str | None = None
    ttl: Seconds | None = msgspec.field(default=None, name="ttl_seconds")
    session: str | None = None
    space: str | None = None


class Release(Body):
    """Give a lease back."""

    lease: str
    token: str | None = None
    status: str = "completed"
    error: str | None = None
    session: str | None = None
    space: str | None = None


class AcquireCall(Acquire, tag="acquire", tag_field="verb"):
    """Take a lease, or not: it cannot wait."""


class RenewCall(Renew, tag="renew", tag_field="verb"):
    """Set a lease's clock back to a full TTL."""


class ReleaseCall(Release, tag="release", tag_field="verb"):
    """Give a lease back."""


class Calls(Body):
    """Several calls at once: each is answered as if it had come alone."""

    calls: list[AcquireCall | RenewCall | ReleaseCall]


class Update(Body):
    """Replace the context of a lease, or merge into it."""

    lease: str
    context: Any
    token: str | None = None
    merge: bool = False
    session: str | None = None
    space: str | None = None


class Cancel(Body):
    """Withdraw an acquire by its request_id."""

    request_id: str
    holder: str | None = None
    session: str | None = None
    space: str | None = None


class StartSession(Body):
    """Begin a session."""

    ttl: Seconds = msgspec.field(default=DEFAULT_TTL, name="ttl_seconds")
    holder: str | None = None
    name: str | None = None
    session: str | None = None
    secret: str | None = None
    space: str | None = None


class OfSession(Body):
    """A session: ID.SECRET, or for admins its id."""

    session: str | None = None
    space: str | None = None


class EndSession(OfSession):
    """A session: ID.SECRET, or for admins its id, and why."""

    reason: str | None = None


class ForceRelease(Body):
    """End somebody's lease, by its id or by the resource it holds."""

    target: str
    reason: str
    by: str | None = None
    space: str | None = None


class Steal(Body):
    """Take over what others hold, in one step."""

    resources: list[str] | str
    reason: str
    ttl: Seconds = msgspec.field(default=DEFAULT_TTL, name="ttl_seconds")
    by: str | None = None
    holder: str | None = None
    space: str | None = None
    name: str | None = None
    context: Any = None


class Clear(Body):
    """Open a resource that was closed after an unclean end."""

    resource: str
    reason: str
    by: str | None = None
    space: str | None = None


class Collect(Body):
    """Sweep what has expired now."""


class CreateKey(Body):
    """A new key."""

    role: str
    name: str
    space: str | None = None
    prefixes: list[str] = []
    by: str | None = None
    reason: str | None = None


class RotateKey(Body):
    """Add a key to a principal; the one before it counts for a while yet."""

    id: str
    overlap: Seconds = msgspec.field(default=3600, name="overlap_seconds")
    by: str | None = None
    reason: str | None = None


class RevokeKey(Body):
    """Let the owner of a key in no more."""

    id: str
    by: str | None = None
    reason: str | None = None


# ------------------------------------------------------------------------------ what stands after the ?


class Query(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What every question has in common."""


class Inspect(Query):
    """One resource."""

    resource: str
    space: str | None = None


class Listing(Query):
    """Which leases."""

    space: str | None = None
    holder: str | None = None
    resource: str | None = None


class InSpace(Query):
    """Of one space."""

    space: str | None = None


class WhoWaits(Query):
    """Who waits for whom: at most `limit` edges."""

    space: str | None = None
    limit: int = 1_000


class History(Query):
    """Which events."""

    space: str | None = None
    resource: str | None = None
    holder: str | None = None
    lease: str | None = None
    kind: list[str] = []
    since: int | None = None
    before: int | None = None
    limit: int = 100


class Watch(Query):
    """Which events, from now on or after `last_event_id`."""

    space: str | None = None
    resource: str | None = None
    holder: str | None = None
    last_event_id: int | None = None


class Follow(Body):
    """Tell which leases were taken from their holders, from now on; and first, which of `leases` are not held."""

    space: str | None = None
    holders: list[str] | None = None
    leases: list[str] = []


class Nothing(Query):
    """No parameters."""

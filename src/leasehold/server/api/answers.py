"""What is answered over HTTP, as types: OpenAPI is generated from them, and tests hold the real answers against them.

The answers themselves are made by ``wire``, as they are for every surface.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

Seconds: TypeAlias = int | float
Mode: TypeAlias = Literal["exclusive", "shared", "slots"]


class Answer(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What every answer has in common."""


class Lease(Answer):
    """One grant."""

    id: str
    space: str
    resources: list[str]
    holder: str
    session: str | None
    mode: Mode
    slots: int
    fence: int
    ttl_seconds: Seconds
    acquired_at: str
    expires_at: str
    expires_in_seconds: Seconds
    as_of: str
    name: str | None
    reason: str | None
    context: Any
    principal: str | msgspec.UnsetType = msgspec.UNSET
    """For admins: the principal that took it, as NAME:ID; left out where nobody has to show a key."""
    key: str | msgspec.UnsetType = msgspec.UNSET
    """For admins: the id of the key that it was taken with."""


class Blocker(Answer):
    """What stands in the way."""

    resource: str
    holder: str
    state: Literal["held", "waiting", "grace", "quarantined"]
    mode: Mode
    name: str | None
    reason: str | None
    since: str
    expires_at: str | None
    expires_in_seconds: Seconds | None
    fence: int
    lease: str
    as_of: str
    yours: bool
    watched_since: str | msgspec.UnsetType = msgspec.UNSET
    """Over git: when this observer first saw the lease as it is now; it may be taken over at `expires_at`."""
    recorded_until: str | msgspec.UnsetType | None = msgspec.UNSET
    """Over git, without `max_skew`: when it expires by the wall clock of the machine that wrote it."""


class Queue(Answer):
    """How many wait, and which place the asker has."""

    length: int
    position: int


class Granted(Answer):
    """You have it; the token is told here and nowhere else."""

    lease: Lease
    token: str
    fresh: bool
    unapplied: list[str] | msgspec.UnsetType = msgspec.UNSET


class Ticket(Answer):
    """You still wait: ask again with `request_id` = ticket to keep your place."""

    ticket: str
    queue: Queue
    holders: list[Blocker]
    retry_after_seconds: Seconds


class Renewed(Answer):
    """The lease as it is now."""

    lease: Lease


class Told(Answer):
    """The answer to one of several calls: status and body as if it had come alone."""

    status: int
    body: dict[str, Any]


class Answers(Answer):
    """The answers to several calls, in their order."""

    answers: list[Told]


class Released(Answer):
    """`released` is true once."""

    lease: str
    released: bool
    reason: str
    resources: list[str]


class Cancelled(Answer):
    """The request can never be granted."""

    cancelled: bool
    was: Literal["waiting", "granted", "unknown"]


class Session(Answer):
    """A session, without its secret."""

    id: str
    space: str
    holder: str
    name: str | None
    ttl_seconds: Seconds
    started_at: str
    expires_at: str
    principal: str | msgspec.UnsetType = msgspec.UNSET
    key: str | msgspec.UnsetType = msgspec.UNSET


class SessionStarted(Answer):
    """`credential` is told here and nowhere else."""

    session: Session
    credential: str


class SessionRenewed(Answer):
    """The session and its leases have a full TTL again."""

    session: Session
    leases: list[Lease]


class SessionEnded(Answer):
    """All that it held is released."""

    session: str
    ended: bool
    released: list[str]


class Sessions(Answer):
    """Live sessions."""

    sessions: list[Session]


class Cleared(Answer):
    """Whether there was anything to clear."""

    resources: list[str]
    cleared: bool


class Collected(Answer):
    """What a clean-up found."""

    swept: int
    forgotten: int


class Waiting(Answer):
    """A place in a queue."""

    id: str
    resources: list[str]
    holder: str
    session: str | None
    mode: Mode
    position: int
    since: str
    waited_seconds: Seconds
    until: str
    name: str | None
    reason: str | None
    principal: str | msgspec.UnsetType = msgspec.UNSET
    key: str | msgspec.UnsetType = msgspec.UNSET


class Inspection(Answer):
    """How a resource stands."""

    resource: str
    at: str
    free: bool
    leases: list[Lease]
    waiting: list[Waiting]
    closed: list[Blocker]


class Leases(Answer):
    """Live leases."""

    leases: list[Lease]


class Event(Answer):
    """One change."""

    seq: int
    kind: str
    at: str
    space: str
    resources: list[str]
    holder: str
    session: str | None
    lease: str | None
    fence: int | None
    detail: dict[str, Any]


class Events(Answer):
    """Past events, newest first."""

    events: list[Event]


class Loss(Answer):
    """A lease that may be lost: renew it to find out. Or a session that has ended, with all of its leases."""

    lease: str | None
    session: str | None


class Agent(Answer):
    """Somebody in the wait-for graph."""

    id: str
    space: str
    holder: str
    session: str | None


class Edge(Answer):
    """One agent waits for another; `place` is null if it only polls."""

    waiter: str
    blocker: str
    resource: str
    state: Literal["held", "waiting"]
    by: str
    place: str | None
    since: str
    waited_seconds: Seconds
    until: str


class Contended(Answer):
    """A resource that is waited for: ids of agents that are in the way, and of those that want it."""

    space: str
    resource: str
    holders: list[str]
    waiting: list[str]


class Graph(Answer):
    """Who waits for whom, and which cycles were refused lately; `complete` unless there are more edges."""

    at: str
    agents: list[Agent]
    resources: list[Contended]
    edges: list[Edge]
    complete: bool
    deadlocks: list[Event]


class Key(Answer):
    """A key, without its secret."""

    id: str
    role: Literal["admin", "agent", "viewer"]
    space: str
    name: str
    prefixes: list[str]
    created_at: str
    principal: str
    until: str | None


class Keys(Answer):
    """Every key."""

    keys: list[Key]


class KeyCreated(Answer):
    """`credential` is told here and nowhere else."""

    key: Key
    credential: str


class KeyRotated(Answer):
    """`credential` is told here and nowhere else; `before` counts until its `until`."""

    key: Key
    credential: str
    before: Key


class Whoami(Answer):
    """The caller, as the server knows it, and what it may do."""

    name: str
    role: Literal["admin", "agent", "viewer", "session"]
    space: str | None
    prefixes: list[str]
    principal: str | None
    key: str | None
    session: str | None


class KeyRevoked(Answer):
    """Whether there was such a key."""

    key: str
    revoked: bool


class Workflow(Answer):
    """A run: a lease with a name, a context and an outcome."""

    id: str
    status: Literal["running", "completed", "failed", "cancelled", "expired"]
    name: str | None
    space: str
    resource: str | None
    holder: str
    context: Any
    error: str | None
    started_at: str | None
    ended_at: str | None
    expires_at: str | None
    ttl_seconds: Seconds | None
    fence: int | None
    lease: str | None


class OneWorkflow(Answer):
    """A run."""

    workflow: Workflow


class ReleasedWorkflow(Answer):
    """A run that is over; `released` is true once."""

    workflow: Workflow
    released: bool


class CheckedWorkflow(Answer):
    """The run that is active, or null: you may begin."""

    workflow: Workflow | None


class Workflows(Answer):
    """Runs, the newest first."""

    workflows: list[Workflow]


class Health(Answer):
    """All is well."""

    status: Literal["ok"]


class Problem(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Why not: application/problem+json with a stable `code`."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    field: str | None = None
    resources: list[str] | None = None
    holders: list[Blocker] | None = None
    queue: Queue | None = None
    retry_after_seconds: Seconds | None = None
    cycle: list[str] | None = None
    reason: str | None = None
    lease: str | None = None
    workflow: Workflow | None = None

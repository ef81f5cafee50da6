"""The frozen nouns: what is stored, what is asked for, what is answered. No behaviour, no I/O.

Times are whole microseconds of the store's own clock, durations are whole microseconds; in nouns that callers see, such
a field ends in `_us`, and a property beside it gives the `datetime` or `timedelta`.

A **record** is everything the store keeps under one key, as a set of **entries**. There are five kinds
of record, told apart by the first letter of the key:

====  =========  ==========================================================================
key   record of  entries
====  =========  ==========================================================================
`n…`  a node     `Hold` (also an ancestor's intention), `Waiter`, `End`
`a…`  an actor   `Ref` to each of its leases and waits, `Wish`, and `Session` if it is one
`q…`  a request  `Request`: what became of a request_id
`e…`  an engine  `Presence`: until when its waiters count as alive; `Receipt` of its last batch
`k…`  a key      `Key`: who may ask a server for what
====  =========  ==========================================================================

A **node** is a resource, or an ancestor of one (`path:src` of `path:src/a.py`). An **actor** is whoever
can wait and hold: a session, or a holder without one.
"""

from __future__ import annotations

from leasehold.domain.nouns import Noun, Refusal, Success
from leasehold.domain.nouns import Outcome as Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta
    from typing import Final, TypeAlias

SECOND: Final = 1_000_000
"""One second in the unit of every time and duration here."""

FOREVER: Final = 9_007_199_254_740_991  # 2**53 - 1, spelled out: so compiled code knows it, too
"""A time that never comes; also the largest fence, since JSON numbers are exact up to here."""

# How a node is held. Own modes are what somebody asked for; intentions mark the ancestors.
EXCLUSIVE: Final = "X"
SHARED: Final = "S"
SLOTS: Final = "N"
INTENT_EXCLUSIVE: Final = "IX"
INTENT_SHARED: Final = "IS"
MODE_NAMES: Final = {EXCLUSIVE: "exclusive", SHARED: "shared", SLOTS: "slots"}
"""Own modes as everybody says them."""


class Claim(Noun):
    """One node that a request needs, and how."""

    node: str
    mode: str
    of: int = 0
    """Which of the option's resources needs it."""


class Option(Noun):
    """One way to satisfy a request: these resources, by these claims (own nodes first)."""

    resources: tuple[str, ...]
    claims: tuple[Claim, ...]


class Ask(Noun):
    """What somebody asked for and still wants: kept by a waiter, and by a hold as its terms."""

    space: str
    options: tuple[Option, ...]
    mode: str
    slots: int
    ttl: int
    holder: str
    session: str | None
    tokens: tuple[str, ...]
    """Hashes of the tokens that may renew or release; several only after a re-entrant acquire."""
    name: str | None
    context: str | None
    """JSON text."""
    reason: str | None
    grace: int
    quarantine: bool
    request: str | None
    """Key of the request record, if a request_id was given."""
    principal: str | None = None
    """The principal that asked (`keys.principal`); None: nobody had to prove who asks."""
    key: str | None = None
    """The id of the key that it showed."""
    body: str = ""
    """Digest of what a request_id stands for: another body is another request."""


# ------------------------------------------------------------------------------------------- entries


class Hold(Noun):
    """A lease's grip on one node. Its `ask` is told once, in the lease's home: its first node."""

    id: str
    """The lease's id."""
    mode: str
    slots: int
    actor: str
    holder: str
    fence: int
    acquired_at: int
    expires_at: int
    after: int
    """How long the node stays closed after an unclean end; FOREVER is a quarantine."""
    ask: Ask | None = None
    ticket: str | None = None
    """The waiter that this lease was promised to, until that waiter's engine has picked it up."""
    closed: bool = False
    """The lease is over, uncleanly; the node stays closed until `expires_at` (grace, or FOREVER: quarantine)."""


class Waiter(Noun):
    """A place in a node's queue. Its `ask` is told once, in its home: the first node of its first option."""

    id: str
    order: tuple[int, ...]
    """(-priority, arrival): smaller is served first. The arrival is the number in its id.

    Not `tuple[int, int]`: compiled code would take it to pieces, and put it together again for each comparison."""
    mode: str
    slots: int
    actor: str
    holder: str
    engine: str
    since: int
    deadline: int
    ask: Ask | None = None
    shown: tuple[str, ...] = ()
    """Hashes of the tokens that came with the request: what they open is the waiter's own."""


class End(Noun):
    """Why a lease that ended uncleanly is gone, kept for a day so that its holder can be told."""

    id: str
    """Made of the lease's id (`keys.end_id`), under which the node may still have what is left of its hold."""
    reason: str
    at: int
    until: int
    space: str = ""
    resources: tuple[str, ...] = ()
    holder: str = ""
    session: str | None = None
    told: bool = False
    """Whether its old holder has learned it."""


class Ref(Noun):
    """An actor's own note of one of its leases or waits (`id` tells which)."""

    id: str


class Wish(Noun):
    """A polling actor's last refused try: for a short while it counts as waiting."""

    id: str
    options: tuple[Option, ...]
    slots: int
    until: int
    space: str = ""
    holder: str = ""
    """For others to see who polls."""


class Session(Noun):
    """The life of one agent run."""

    id: str
    space: str
    session: str
    holder: str
    secret: str
    """Hash of the secret."""
    name: str | None
    ttl_us: int
    started_us: int
    expires_us: int
    principal: str | None = None
    """The principal that began it (`keys.principal`)."""
    key: str | None = None
    """The id of the key that it was begun with."""

    @property
    def ttl(self) -> timedelta:
        """How long it lives unless its heartbeat comes."""
        from leasehold.domain.timestamps import span  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return span(self.ttl_us)

    @property
    def started_at(self) -> datetime:
        """When it began."""
        from leasehold.domain.timestamps import moment  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment(self.started_us)

    @property
    def expires_at(self) -> datetime:
        """When it ends unless its heartbeat comes."""
        from leasehold.domain.timestamps import moment  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment(self.expires_us)


class Request(Noun):
    """What became of a request_id: the id of its lease or waiter, or None once it was cancelled."""

    id: str
    became: str | None
    body: str
    """Digest of what was asked for."""
    until: int


class Presence(Noun):
    """Until when an engine's waiters count as alive."""

    id: str
    until: int


class Receipt(Noun):
    """Written with a batch where a commit's outcome can stay unknown: whoever finds it knows."""

    id: str
    batch: str
    until: int


class Key(Noun):
    """What lets somebody in at a server: a role, in a space, for names that begin with one of the prefixes."""

    id: str
    role: str
    """`admin`, `agent` or `viewer`."""
    space: str
    name: str
    """Whose it is: what an admin does is told under this name."""
    prefixes: tuple[str, ...]
    """None: every name of the space."""
    secret: str
    """Hash of the secret."""
    created_us: int
    principal: str = ""
    """The id of the first key of its principal: a principal keeps its leases while its keys rotate."""
    until_us: int = FOREVER
    """When it stops working; rotation sets this."""

    @property
    def created_at(self) -> datetime:
        """When it was made."""
        from leasehold.domain.timestamps import moment  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment(self.created_us)

    @property
    def until(self) -> datetime | None:
        """When it stops working; None: when it is revoked."""
        from leasehold.domain.timestamps import moment_or_never  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment_or_never(self.until_us)


if TYPE_CHECKING:
    Entry: TypeAlias = Hold | Waiter | End | Ref | Wish | Session | Request | Presence | Receipt | Key
    Note: TypeAlias = End | Ref | Wish | Session | Request | Presence | Receipt | Key


class Record(Noun):
    """All entries under one key. Never changed in place."""

    holds: dict[str, Hold]
    waiters: tuple[Waiter, ...]
    """In the order of service."""
    notes: dict[str, Note]


EMPTY = Record({}, (), {})


class Put(Noun):
    """Write this entry, replacing the one of the same id."""

    key: str
    entry: Entry


class Drop(Noun):
    """Remove the entry of this id, and no other."""

    key: str
    id: str


# ------------------------------------------------------------------------------------- what is told


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
    """The principal that took it, as `NAME:ID`, for admins; None where nobody has to show a key."""
    key: str | None = None
    """The id of the key that it was taken with, for admins."""

    @property
    def ttl(self) -> timedelta:
        """How long it lives unless it is renewed."""
        from leasehold.domain.timestamps import span  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return span(self.ttl_us)

    @property
    def acquired_at(self) -> datetime:
        """When it was granted."""
        from leasehold.domain.timestamps import moment  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment(self.acquired_us)

    @property
    def expires_at(self) -> datetime:
        """When it ends unless it is renewed."""
        from leasehold.domain.timestamps import moment  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment(self.expires_us)

    @property
    def as_of(self) -> datetime:
        """When it was seen like this, by the store's clock."""
        from leasehold.domain.timestamps import moment  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment(self.as_of_us)


class Blocker(Noun):
    """What stands in the way of a request: a lease, a waiter ahead, or a resource closed after an accident."""

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

    @property
    def since(self) -> datetime:
        """Since when it is in the way."""
        from leasehold.domain.timestamps import moment  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment(self.since_us)

    @property
    def until(self) -> datetime | None:
        """Until when it is in the way at the latest; None: until somebody clears it."""
        from leasehold.domain.timestamps import moment_or_never  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment_or_never(self.until_us)

    @property
    def as_of(self) -> datetime:
        """When it was seen like this, by the store's clock."""
        from leasehold.domain.timestamps import moment  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment(self.as_of_us)

    @property
    def watched_since(self) -> datetime | None:
        """As `watched_us`."""
        from leasehold.domain.timestamps import moment_or_never  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment_or_never(self.watched_us)

    @property
    def recorded_until(self) -> datetime | None:
        """As `recorded_us`."""
        from leasehold.domain.timestamps import moment_or_never  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment_or_never(self.recorded_us)


class Queue(Noun):
    """How many wait, and which place the asker has or would have (1 is next)."""

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
        from leasehold.domain.timestamps import moment  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment(self.since_us)

    @property
    def deadline(self) -> datetime:
        """When it gives up."""
        from leasehold.domain.timestamps import moment  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment(self.deadline_us)


class Inspection(Noun):
    """How a resource stands at one moment (`now`, on the store's clock)."""

    resource: str
    now_us: int
    leases: tuple[Lease, ...]
    """Who holds it, or a part of it, or something that covers it."""
    waiting: tuple[Waiting, ...]
    closed: tuple[Blocker, ...]
    """What an unclean end has closed: grace or quarantine."""

    @property
    def now(self) -> datetime:
        """When it was seen like this, by the store's clock."""
        from leasehold.domain.timestamps import moment  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment(self.now_us)


class Event(Noun):
    """One change, for history and for those who watch."""

    kind: str
    """granted queued renewed updated released expired forced refused deadlock cancelled lost timeout
    quarantined cleared session_started session_ended key_created key_revoked"""
    at_us: int
    space: str
    resources: tuple[str, ...]
    holder: str
    session: str | None
    lease: str | None
    fence: int
    detail: Mapping[str, object]
    """JSON values that belong to this kind of event."""
    seq: int = 0
    """Given by the store."""

    @property
    def at(self) -> datetime:
        """When it happened, by the store's clock."""
        from leasehold.domain.timestamps import moment  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment(self.at_us)


LOSS_KINDS = frozenset({"forced", "session_ended"})
"""Kinds of events by which a lease may end without its holder having asked for that, before it expires."""


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
        from leasehold.domain.timestamps import moment  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment(self.since_us)

    @property
    def until(self) -> datetime:
        """When it waits no longer, at the latest."""
        from leasehold.domain.timestamps import moment  # noqa: PLC0415 (only callers that look at it need `datetime`)

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
        from leasehold.domain.timestamps import moment  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return moment(self.now_us)


# ------------------------------------------------------------------------------------------ outcomes


class Granted(Success):
    """You have it."""

    lease: Lease
    token: str
    fresh: bool
    """False when this lease was yours already: a retry, or a re-entrant acquire."""
    unapplied: tuple[str, ...] = ()
    """Arguments of a re-entrant acquire that the lease it came back with does not have, such as `mode` or `grace`."""


class Held(Refusal):
    """Somebody else has it, or is before you."""

    resources: tuple[str, ...]
    blockers: tuple[Blocker, ...]
    queue: Queue
    retry_us: int

    @property
    def retry_after(self) -> timedelta:
        """When it is worth trying again, at the earliest."""
        from leasehold.domain.timestamps import span  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return span(self.retry_us)


class TimedOut(Refusal):
    """You waited as long as you wanted to, and it is still not yours."""

    resources: tuple[str, ...]
    blockers: tuple[Blocker, ...]
    queue: Queue
    retry_us: int

    @property
    def retry_after(self) -> timedelta:
        """When it is worth trying again, at the earliest."""
        from leasehold.domain.timestamps import span  # noqa: PLC0415 (only callers that look at it need `datetime`)

        return span(self.retry_us)


class Deadlock(Refusal):
    """Waiting would never end: `cycle` is agent, resource, agent, resource, … and closes at the first agent."""

    resources: tuple[str, ...]
    cycle: tuple[str, ...]


class Queued(Refusal):
    """You wait (seen by the engine only; callers get what the wait ends in)."""

    waiter: str
    queue: Queue


class Renewed(Success):
    """The clock is back at a full TTL."""

    lease: Lease


class Updated(Success):
    """The context was replaced or merged."""

    lease: Lease


class Lost(Refusal):
    """The lease is gone: `expired`, `released`, `forced by …`. It is never revived."""

    lease: str
    reason: str


class Released(Answer):
    """`released` is True for exactly one call; afterwards False, with the reason."""

    lease: str
    released: bool
    reason: str
    resources: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.released


class Cancelled(Success):
    """The request was withdrawn and can never be granted; `was` is `waiting`, `granted` or `unknown`."""

    was: str


class SessionStarted(Success):
    """A session lives until `session.expires_at` unless its heartbeat comes."""

    session: Session
    secret: str


class SessionRenewed(Success):
    """The session and all of its leases have a full TTL again."""

    session: Session
    leases: tuple[Lease, ...]


class SessionEnded(Answer):
    """All that the session held is released; False when it had ended before."""

    session: str
    ended: bool
    released: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.ended


class Cleared(Answer):
    """A quarantine was lifted; False when there was none."""

    resources: tuple[str, ...]
    cleared: bool

    def __bool__(self) -> bool:
        return self.cleared


class KeyCreated(Success):
    """A key works from now on; `credential` is what its owner shows, told here and never again."""

    key: Key
    credential: str


class Whoami(Noun):
    """The caller, as the store or its server knows it, and what it may do there."""

    name: str
    role: str
    """`admin`, `agent`, `viewer` or `session`."""
    space: str | None
    """The only space that its key is for; None: every space."""
    prefixes: tuple[str, ...] = ()
    """What names must begin with; none: every name."""
    principal: str | None = None
    """None: nobody has to show a key."""
    key: str | None = None
    session: str | None = None
    """The id of the session that asks."""


class KeyRotated(Success):
    """The principal has another key from now on; the one before it counts until `before.until`."""

    key: Key
    credential: str
    before: Key


class KeyRevoked(Answer):
    """The key does not work any more; False when there was none of this id."""

    key: str
    revoked: bool

    def __bool__(self) -> bool:
        return self.revoked


class Collected(Success):
    """How much a clean-up found: records that had lapsed, events older than the history is kept."""

    swept: int
    forgotten: int
    kept: tuple[Blocker, ...] = ()
    """Over git: leases that look expired, and that this observer may not remove yet."""


class Refused(Refusal):
    """The request cannot be served as it stands: `code` is stable, `field` names the culprit."""

    code: str
    """invalid, not_found, not_allowed, slots_mismatch, too_many, cancelled, spent, conflict, paused, session_over;
    and whatever else a server says no with (docs/http.md)"""
    field: str
    message: str


class Done(Success):
    """An internal command (a sweep, a heartbeat of the engine) was carried out."""

    gone: tuple[str, ...] = ()


if TYPE_CHECKING:
    Acquired: TypeAlias = Granted | Held | TimedOut | Deadlock | Refused
    Outcome: TypeAlias = (
        Granted
        | Held
        | TimedOut
        | Deadlock
        | Queued
        | Renewed
        | Updated
        | Lost
        | Released
        | Cancelled
        | SessionStarted
        | SessionRenewed
        | SessionEnded
        | Cleared
        | KeyCreated
        | KeyRotated
        | KeyRevoked
        | Collected
        | Refused
        | Done
    )

"""The entries of records, which a store keeps, and the changes to them. No behaviour, no I/O.

Times are whole microseconds of the store's own clock, durations are whole microseconds.

A **record** is everything the store keeps under one key, as a set of **entries**. There are five kinds
of record, told apart by the first letter of the key:

====  =========  ==========================================================================
key   record of  entries
====  =========  ==========================================================================
`n…`  a node     `Hold` (also an ancestor's intention), `Waiter`, `End`, `PlanMark`
`a…`  an actor   `Ref` to each of its leases and waits, `PlanTerms`, `Poll`, and `Session` if it is one
`q…`  a request  `Request`: what became of a request_id
`e…`  an engine  `Presence`: until when its waiters count as alive; `Receipt` of its last batch
`k…`  a key      `Key`: what a caller may ask a server for
====  =========  ==========================================================================

A **node** is a resource, or an ancestor of one (`path:src` of `path:src/a.py`). An **actor** can hold and wait: a
session, or a holder without one.
"""

from __future__ import annotations

from leasehold.domain.nouns import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, TypeAlias

    from leasehold.domain.api_keys import Key
    from leasehold.domain.sessions import Session

# How a node is held. Own modes are what callers ask for; intentions mark the ancestors.
EXCLUSIVE: Final = "X"
SHARED: Final = "S"
SLOTS: Final = "N"
INTENT_EXCLUSIVE: Final = "IX"
INTENT_SHARED: Final = "IS"
PATTERN_EXCLUSIVE: Final = "IPX"
PATTERN_SHARED: Final = "IPS"
"""Of a pattern, on the directory that all its matches lie in: what else lies there is compared by name."""
PATTERN_MODES: Final = (PATTERN_EXCLUSIVE, PATTERN_SHARED)
POOL: Final = "P"
"""Of a member of a pool, on the pool's node: counted, and compared by name."""
NAMED_MODES: Final = (*PATTERN_MODES, POOL)
"""Modes that exclude each other only where the names meet."""
OWN_MODES: Final = (EXCLUSIVE, SHARED, SLOTS)
MODE_NAMES: Final = {EXCLUSIVE: "exclusive", SHARED: "shared", SLOTS: "slots"}
"""Own modes as everybody says them."""


class Claim(Noun):
    """One node that a request needs, and how."""

    node: str
    mode: str
    of: int = 0
    """Which of the option's resources needs it."""


class Alternative(Noun):
    """One way to satisfy a request: these resources, by these claims (own nodes first)."""

    resources: tuple[str, ...]
    claims: tuple[Claim, ...]


class LeaseRequest(Noun):
    """The request of a caller: kept by a waiter, and by a hold as its terms."""

    space: str
    options: tuple[Alternative, ...]
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
    """The principal of the caller (`keys.principal`); None on a store or server without keys."""
    key: str | None = None
    """The id of the key that it showed."""
    body: str = ""
    """Digest of what a request_id stands for: another body is another request."""
    trace: str | None = None
    """The trace of the caller, as the caller spells it."""
    host: str | None = None
    """The machine of the caller, as the caller names it."""


class Hold(Noun):
    """A lease's grip on one node. Only the hold in the lease's home, its first node, has the `ask`."""

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
    ask: LeaseRequest | None = None
    ticket: str | None = None
    """The waiter that this lease was promised to, until that waiter's engine has picked it up."""
    closed: bool = False
    """The lease is over, uncleanly; the node stays closed until `expires_at` (grace, or FOREVER: quarantine)."""


class Waiter(Noun):
    """A place in a node's queue. Only the one in its home, the first node of its first option, has the `ask`."""

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
    ask: LeaseRequest | None = None
    shown: tuple[str, ...] = ()
    """Hashes of the tokens that came with the request: what they open is the waiter's own."""


class End(Noun):
    """The reason of an unclean end, kept for a day for the lease's holder."""

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
    """True once its old holder has learned it."""


class Ref(Noun):
    """An actor's own note of one of its leases or waits (`id` tells which)."""

    id: str


class Poll(Noun):
    """A polling actor's last refused try: for a short while it counts as waiting."""

    id: str
    options: tuple[Alternative, ...]
    slots: int
    until: int
    space: str = ""
    holder: str = ""
    """For others to see who polls."""


class PlanTerms(Noun):
    """A plan, in the record of the actor that announced it."""

    id: str
    ask: LeaseRequest
    """The request of a lease on all of it; each planned resource is an option of its own."""
    since: int
    until: int
    mine: tuple[str, ...] = ()
    """Leases without a session that the agent proved to be its own: they are no overlap."""


class PlanMark(Noun):
    """A node that a lease on a part of this plan would need."""

    id: str
    """The plan's id, which also says where its terms are."""
    mode: str


class Request(Noun):
    """The result of a request_id: the id of its lease or waiter, or None once it was cancelled."""

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
    """Written with a batch where the outcome of a commit can stay unknown: if it is there, the commit happened."""

    id: str
    batch: str
    until: int


class PoolMembers(Noun):
    """The members that an admin declared for a pool, in the record of its node."""

    id: str
    members: tuple[str, ...]
    """Each with its labels after it, separated by blanks."""


if TYPE_CHECKING:
    Note: TypeAlias = (
        End | Ref | PlanTerms | PlanMark | Poll | Session | Request | Presence | Receipt | Key | PoolMembers
    )
    Entry: TypeAlias = Hold | Waiter | Note


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

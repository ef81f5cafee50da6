"""What can be asked of the rules: one frozen noun a verb, already checked (see ``checks``). Pure.

Secrets never get this far: a command carries the hashes of tokens and secrets.
"""

from __future__ import annotations

from leasehold.domain.nouns import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from leasehold.domain.entries import LeaseRequest
    from leasehold.requests.calls import Authority


class Proof(Noun):
    """What entitles somebody to touch a lease: its token, its session's secret, or being an admin."""

    token: str | None = None
    secret: str | None = None
    admin: str | None = None
    """The admin's name."""
    authority: Authority | None = None
    """The principal that shows it: a proof may be handed on, and does not widen what a key is for."""


class Acquire(Noun):
    """Take a lease now, or wait for it."""

    actor: str
    ask: LeaseRequest
    engine: str
    """Key of the presence record of the engine that waits on the caller's behalf."""
    wait: int = 0
    priority: int = 0
    reentrant: bool = False
    intent: bool = False
    """Whether a refused try counts as waiting for a while (the surfaces for agents that poll)."""
    secret: str | None = None
    """Hash of the session's secret, when the lease is taken in a session's name."""
    first: bool = False
    """Whether its request_id was never sent before: what it is granted need not be noted under it (docs/adr/0029)."""
    shown: tuple[str, ...] = ()
    """Hashes of tokens that the caller has: a lease that one of them opens is the caller's own."""


class Renew(Noun):
    """Set the clock of a lease back to a full TTL."""

    lease: str
    proof: Proof
    ttl: int | None = None


class Release(Noun):
    """Give a lease back."""

    lease: str
    proof: Proof
    status: str = "completed"
    error: str | None = None


class Update(Noun):
    """Replace or merge the context of a lease that is held."""

    lease: str
    proof: Proof
    context: str
    merge: bool = False


class Cancel(Noun):
    """Withdraw a request: by the key of its request record, by its place in the queue, or both."""

    request: str | None = None
    waiter: str | None = None
    actor: str | None = None
    """Whose request it is: a lease whose request was not noted (docs/adr/0029) is found among this actor's."""
    secret: str | None = None
    """Where that is a session: the hash of its secret, without which nobody withdraws anything of it."""


class GiveUp(Noun):
    """Whoever asked with this token is gone: its place in a queue, or its lease, goes too.

    Unless the same was asked for again, with another token (a retry, a re-entrant acquire): then only the token goes.
    """

    id: str
    """Of the waiter, or of the lease."""
    token: str
    request: str | None = None
    """Key of the request record, if there is one: it knows the lease that became of the waiter."""


class StartSession(Noun):
    """Begin the life of an agent run."""

    actor: str
    space: str
    session: str
    holder: str
    secret: str
    ttl: int
    name: str | None = None
    authority: Authority | None = None


class RenewSession(Noun):
    """One heartbeat for the session and everything that it holds."""

    actor: str
    proof: Proof


class EndSession(Noun):
    """Release everything that the session holds and leave every queue."""

    actor: str
    session: str
    proof: Proof
    reason: str | None = None
    """Why, if an admin does it."""


class Force(Noun):
    """An admin ends somebody's lease: this one, or whatever is held on this node."""

    by: str
    reason: str
    lease: str | None = None
    node: str | None = None
    resource: str = ""
    authority: Authority | None = None


class Steal(Noun):
    """An admin takes over what others hold, in one step."""

    by: str
    reason: str
    acquire: Acquire
    authority: Authority | None = None


class Clear(Noun):
    """An admin opens a resource that was closed after an unclean end."""

    by: str
    reason: str
    space: str
    resource: str
    node: str
    authority: Authority | None = None


class AddKey(Noun):
    """Let somebody in at the servers of this store."""

    id: str
    role: str
    space: str
    name: str
    prefixes: tuple[str, ...]
    secret: str
    by: str | None = None
    reason: str | None = None


class RotateKey(Noun):
    """Add a key to the principal of this one, which then counts for so long yet."""

    before: str
    id: str
    secret: str
    overlap: int
    by: str | None = None
    reason: str | None = None


class RevokeKey(Noun):
    """Let the owner of this key in no more."""

    id: str
    by: str | None = None
    reason: str | None = None


class Check(Noun):
    """An engine asks how the wait of one of its callers stands, and picks up the grant if there is one."""

    waiter: str
    ask: LeaseRequest
    is_over: bool = False
    """The caller's time to wait is over by its engine's clock, whatever the store's clock says."""


class Reconsider(Noun):
    """After an engine was not heard of for a while: see which of these waits are in a cycle that was closed since."""

    waiters: tuple[str, ...]


class Beat(Noun):
    """An engine says that its waiters are alive until then; None: it has none left."""

    engine: str
    life: int | None


class Sweep(Noun):
    """Look at these records: what has lapsed goes, and who can be served is."""

    keys: tuple[str, ...]


if TYPE_CHECKING:
    Command: TypeAlias = (
        Acquire
        | Renew
        | Release
        | Update
        | Cancel
        | GiveUp
        | StartSession
        | RenewSession
        | EndSession
        | Force
        | Steal
        | Clear
        | AddKey
        | RotateKey
        | RevokeKey
        | Check
        | Reconsider
        | Beat
        | Sweep
    )

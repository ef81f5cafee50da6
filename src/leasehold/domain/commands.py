"""The commands of the rules: one frozen noun for each verb, already checked (see ``checks``). Pure.

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
    """The right to change a lease: its token, its session's secret, or the name of an admin."""

    token: str | None = None
    secret: str | None = None
    admin: str | None = None
    """The admin's name."""
    authority: Authority | None = None
    """The principal that shows it: a proof may be handed on, and does not widen what a key is for."""


NO_PROOF = Proof()


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
    """True if a refused try counts as waiting for a while (for agents that poll)."""
    secret: str | None = None
    """Hash of the session's secret, when the lease is taken in a session's name."""
    first: bool = False
    """True if its request_id was never sent before: a grant need not be noted under it (docs/adr/0029)."""
    shown: tuple[str, ...] = ()
    """Hashes of tokens that the caller has: a lease that one of them opens is the caller's own."""


class Renew(Noun):
    """Reset the TTL of a lease."""

    lease: str
    proof: Proof
    ttl: int | None = None


class Release(Noun):
    """Release a lease."""

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
    proof: Proof = NO_PROOF
    """The session's secret, needed to withdraw a request of a session; for a lease that was granted, see `Proof`."""
    is_from_requester: bool = False
    """True if the caller showed the secret whose hash the request_id is, which only its drawer can know."""


class GiveUp(Noun):
    """Give up the place in a queue, or the lease, of a caller that disconnected.

    If the request came again with another token (a retry, a re-entrant acquire), only this token goes.
    """

    id: str
    """Of the waiter, or of the lease."""
    token: str
    request: str | None = None
    """Key of the request record, if there is one: it knows the lease that became of the waiter."""
    expires: int | None = None
    """The end of the lease in the answer to the caller: if it ends later now, the caller renewed it, and keeps it."""


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
    is_quiet: bool = False
    """True to keep it out of the history: servers send such heartbeats all the time."""


class EndSession(Noun):
    """Release everything that the session holds and leave every queue."""

    actor: str
    session: str
    proof: Proof
    reason: str | None = None
    """Why, if an admin does it."""


class Force(Noun):
    """An admin ends a lease of any holder: this one, or every one on this node."""

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


class ReportTrespass(Noun):
    """Record that an agent changed what another one holds."""

    lease: str
    paths: tuple[str, ...]
    by: str
    authority: Authority | None = None


class Extend(Noun):
    """An admin gives the holder of a lease more time: a full TTL from now on."""

    by: str
    reason: str
    lease: str
    ttl: int
    authority: Authority | None = None


class Announce(Noun):
    """Say what an agent is about to touch: every option of this request."""

    acquire: Acquire


class EndPlan(Noun):
    """End a plan."""

    plan: str
    proof: Proof


class AddNote(Noun):
    """Leave a note on a resource for everybody who looks at it; None removes it."""

    by: str
    space: str
    resource: str
    text: str | None = None
    authority: Authority | None = None


class DeclarePool(Noun):
    """Declare the members of a pool; none forgets them, None changes nothing and asks which they are."""

    by: str
    space: str
    resource: str
    node: str
    members: tuple[str, ...] | None = None
    authority: Authority | None = None


class AddKey(Noun):
    """Create a key for the servers of this store."""

    id: str
    role: str
    space: str
    name: str
    prefixes: tuple[str, ...]
    secret: str
    by: str | None = None
    reason: str | None = None
    authority: Authority | None = None


class RotateKey(Noun):
    """Add a key to the principal of this one, which then works for `overlap` longer."""

    before: str
    id: str
    secret: str
    overlap: int
    by: str | None = None
    reason: str | None = None
    authority: Authority | None = None


class RevokeKey(Noun):
    """Revoke this key."""

    id: str
    by: str | None = None
    reason: str | None = None
    authority: Authority | None = None


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
    """Remove what has expired in these records, and serve the waiters that can be served."""

    keys: tuple[str, ...]


if TYPE_CHECKING:
    Command: TypeAlias = (
        Acquire
        | Renew
        | Release
        | Update
        | Announce
        | EndPlan
        | Cancel
        | GiveUp
        | StartSession
        | RenewSession
        | EndSession
        | Force
        | Steal
        | Clear
        | ReportTrespass
        | Extend
        | AddNote
        | DeclarePool
        | AddKey
        | RotateKey
        | RevokeKey
        | Check
        | Reconsider
        | Beat
        | Sweep
    )

"""The outcomes of commands about leases. A refusal is a value, not an exception; its truth value is false."""

from __future__ import annotations

from leasehold.domain.nouns import OutcomeNoun, Refusal, Success
from leasehold.domain.timestamps import span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import TypeAlias

    from leasehold.domain.api_keys import KeyCreated, KeyRevoked, KeyRotated
    from leasehold.domain.leases import Blocker, Lease, Queue
    from leasehold.domain.plans import Plan
    from leasehold.domain.sessions import SessionEnded, SessionRenewed, SessionStarted


class Granted(Success):
    """You have it."""

    lease: Lease
    token: str
    fresh: bool
    """False when this lease was yours already: a retry, or a re-entrant acquire."""
    unapplied: tuple[str, ...] = ()
    """Arguments of a re-entrant acquire that the lease it came back with does not have, such as `mode` or `grace`."""


class Held(Refusal):
    """Another caller has it, or is before you in the queue."""

    resources: tuple[str, ...]
    blockers: tuple[Blocker, ...]
    queue: Queue
    retry_us: int

    @property
    def retry_after(self) -> timedelta:
        """When it is worth trying again, at the earliest."""
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


class Released(OutcomeNoun):
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


class Cleared(OutcomeNoun):
    """A quarantine was lifted; False when there was none."""

    resources: tuple[str, ...]
    cleared: bool

    def __bool__(self) -> bool:
        return self.cleared


class TrespassReported(OutcomeNoun):
    """The history has the trespass; False when the lease was over already."""

    lease: str
    reported: bool

    def __bool__(self) -> bool:
        return self.reported


class Planned(Success):
    """The plan is announced, and shows what overlaps. Its token ends or replaces it, and proves it at an acquire."""

    plan: Plan
    token: str


class Noted(Success):
    """The history has the note."""

    resource: str
    text: str | None = None
    """None: the note before it is removed."""


class PoolDeclared(Success):
    """The members of a pool that an admin declared."""

    resource: str
    members: tuple[str, ...] = ()
    """Each with its labels after it, separated by blanks; empty if none are declared."""


class Collected(Success):
    """The result of a cleanup: records swept, and events deleted that were older than the retention."""

    swept: int
    forgotten: int
    kept: tuple[Blocker, ...] = ()
    """Over git: leases that look expired, and that this observer may not remove yet."""


class Refused(Refusal):
    """The request cannot be served as it stands: `code` is stable, `field` names the culprit."""

    code: str
    """invalid, not_found, not_allowed, slots_mismatch, too_many, cancelled, spent, conflict, paused, session_over;
    and whatever else a server says no with (docs/reference/http.md)"""
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
        | TrespassReported
        | Planned
        | Noted
        | PoolDeclared
        | KeyCreated
        | KeyRotated
        | KeyRevoked
        | Collected
        | Refused
        | Done
    )

"""Sessions: the life of one agent run, and what ends with it. Pure."""

from __future__ import annotations

from leasehold.domain import keys
from leasehold.domain.events import Event
from leasehold.domain.outcomes import Lost, Refused
from leasehold.domain.rules import plans
from leasehold.domain.rules.ending import by_key, end_uncleanly, take_away, terms, told_at_end
from leasehold.domain.rules.granting import (
    NOT_ALLOWED,
    SESSION,
    WISH,
    end_cleanly,
    expiry,
    find_waiter,
    forget_request,
    lease_of,
    leave,
    live_lease,
    refs_of,
    session_of,
    settle,
    still_held,
    waiting_for,
)
from leasehold.domain.rules.leases import renewed
from leasehold.domain.sessions import Session, SessionEnded, SessionRenewed, SessionStarted
from leasehold.domain.timestamps import FOREVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.domain.commands import EndSession, Proof, RenewSession, StartSession
    from leasehold.domain.entries import Hold, LeaseRequest
    from leasehold.domain.outcomes import Outcome
    from leasehold.domain.rules import Draft


def start(draft: Draft, command: StartSession) -> Outcome:
    """Begin a session. Started again with the same secret by the same holder and principal, it is the same session."""
    known = draft.record(command.actor).notes.get(SESSION)
    if isinstance(known, Session):
        if session_of(draft, command.actor) is not None:
            return _begun_before(known, command)
        end_lapsed(draft, command.actor)
        settle(draft)
    session = Session(
        SESSION,
        command.space,
        command.session,
        command.holder,
        command.secret,
        command.name,
        command.ttl,
        draft.now,
        draft.now + command.ttl,
        *(() if command.authority is None else command.authority[:2]),
    )
    draft.put(command.actor, session)
    _tell(draft, "session_started", session, ttl=session.ttl_us)
    return SessionStarted(session._replace(secret=""), "")


def _begun_before(session: Session, command: StartSession) -> Outcome:
    """Answer a retry whose first answer was lost with the session as it is; refuse anybody else."""
    principal = None if command.authority is None else command.authority.principal
    if (session.secret, session.holder, session.principal) == (command.secret, command.holder, principal):
        return SessionStarted(session._replace(secret=""), "")
    return Refused("conflict", "session", "a session of this id is alive; take another id or end it first")


def _tell(draft: Draft, kind: str, session: Session, **detail: object) -> None:
    detail["name"] = session.name
    if session.principal is not None:
        detail |= {"principal": session.principal, "key": session.key}
    draft.events.append(Event(kind, draft.now, session.space, (), session.holder, session.session, None, 0, detail))


def _may(session: Session, proof: Proof) -> bool:
    return proof.admin is not None or proof.secret == session.secret


def heartbeat(draft: Draft, command: RenewSession) -> Outcome:
    """Renew a session and all of its leases in one transaction."""
    session = session_of(draft, command.actor)
    if session is None:
        end_lapsed(draft, command.actor)
        settle(draft)
        return Lost("", "this session has ended, or no heartbeat came in time; start a new one")
    if not _may(session, command.proof):
        return NOT_ALLOWED
    session = session._replace(expires_us=draft.now + session.ttl_us)
    draft.put(command.actor, session)
    plans.end_due(draft, command.actor, draft.now)
    for plan in plans.all_of(draft.record(command.actor)):
        draft.put(command.actor, plan._replace(until=expiry(draft, command.actor, plan.ask)))
    leases = []
    for id_ in refs_of(draft, command.actor, keys.is_lease_id):
        hold = live_lease(draft, id_)
        if hold is not None and hold.ticket is None:  # what is only promised yet gets its full TTL when it is picked up
            hold, ask = renewed(draft, hold, terms(draft, hold))
            leases.append(lease_of(hold, ask, draft.now))
    if not command.is_quiet:
        _tell(draft, "renewed", session, leases={lease.id: lease.expires_us for lease in leases})
    return SessionRenewed(session._replace(secret=""), tuple(leases))


def end(draft: Draft, command: EndSession) -> Outcome:
    """Release everything, leave every queue, and be gone."""
    session = session_of(draft, command.actor)
    if session is None:
        end_lapsed(draft, command.actor)
        settle(draft)
        return SessionEnded(command.session, ended=False, released=())
    if not _may(session, command.proof):
        return NOT_ALLOWED
    released: list[str] = []
    _leave_queues(draft, command.actor, "ended")  # first, so that its own leases are not granted to it
    for id_ in refs_of(draft, command.actor, keys.is_lease_id):
        hold = still_held(draft, id_)
        if hold is not None:
            ask = terms(draft, hold)
            _end_lease(draft, hold, ask, command)
            released.extend(ask.options[0].resources)
    why: dict[str, object] = {}
    if command.proof.admin is not None:
        why = {"by": command.proof.admin, "why": command.reason, **by_key(command.proof.authority)}
    _close(draft, session, command.actor, "ended", **why)
    settle(draft)
    return SessionEnded(command.session, ended=True, released=tuple(released))


def _end_lease(draft: Draft, hold: Hold, ask: LeaseRequest, command: EndSession) -> None:
    """Given back with the session; or, if an admin ends that, taken away like any other lease that an admin ends.

    Unless it was only promised: then no caller ever worked under it.
    """
    by = command.proof.admin
    if by is None or hold.ticket is not None:
        end_cleanly(draft, hold, ask, "cancelled", "its session ended")
    else:
        take_away(draft, hold, by, command.reason or "its session was ended", command.proof.authority)


def _leave_queues(draft: Draft, actor: str, reason: str) -> None:
    for id_ in refs_of(draft, actor, keys.is_waiter_id):
        waiter = find_waiter(draft, id_)
        if waiter is not None:
            ask = waiting_for(draft, waiter)
            leave(draft, waiter, ask)
            forget_request(draft, ask, "timeout")
            draft.tell("cancelled", ask, waiter=id_, reason=f"its session {reason}", session_over=True)


def _close(draft: Draft, session: Session, actor: str, reason: str, **why: object) -> None:
    """Remove the session itself. The caller serves the waiters for what it held."""
    draft.discard(actor, WISH)
    plans.end_due(draft, actor, FOREVER, f"its session {reason}")
    draft.drop(actor, SESSION)
    _tell(draft, "session_ended", session, reason=reason, **why)


def end_lapsed(draft: Draft, actor: str) -> None:
    """End a session without heartbeat, and all that it holds. Serves no waiter yet."""
    session = draft.record(actor).notes.get(SESSION)
    if not isinstance(session, Session) or session.expires_us > draft.now:
        return
    _leave_queues(draft, actor, "expired")
    for id_ in refs_of(draft, actor, keys.is_lease_id):
        hold = still_held(draft, id_)
        if hold is not None:  # cannot be: a lease never outlives its session; but nothing may stay behind
            ask = terms(draft, hold)
            draft.tell("expired", ask, hold, expired_at=session.expires_us, **told_at_end(hold, ask))
            end_uncleanly(draft, hold, ask, "expired with its session", session.expires_us)
    _close(draft, session, actor, "expired")

"""The commands of an engine for its waiters: check, give up, cancel, heartbeat, sweep. Pure."""

from __future__ import annotations

from leasehold.domain import keys
from leasehold.domain.entries import End, Hold, Poll, Presence, Receipt, Request
from leasehold.domain.outcomes import Cancelled, Done, Granted, Queued, Refused, TimedOut
from leasehold.domain.rules import plans
from leasehold.domain.rules.acquiring import freshen, rewrite
from leasehold.domain.rules.conflicts import PRESENCE
from leasehold.domain.rules.ending import REQUEST, lapse, terms
from leasehold.domain.rules.granting import (
    REQUEST_MEMORY,
    SESSION_OVER,
    end_cleanly,
    expiry,
    find_waiter,
    forget_request,
    is_entitled,
    is_within,
    lease_of,
    leave,
    live_lease,
    refs_of,
    session_of,
    settle,
    turn_away,
    waiting_for,
)
from leasehold.domain.rules.keyring import expire
from leasehold.domain.rules.sessions import end_lapsed
from leasehold.domain.rules.telling import held, queued
from leasehold.domain.timestamps import SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.domain.commands import Beat, Cancel, Check, GiveUp, Sweep
    from leasehold.domain.entries import LeaseRequest, Waiter
    from leasehold.domain.outcomes import Outcome
    from leasehold.domain.rules import Draft

CANCELLED_MEMORY = 24 * 3600 * SECOND
"""A cancelled request_id is kept this long, so that no delayed copy of it is granted."""


def check(draft: Draft, command: Check) -> Outcome:
    """Check a wait: granted (and picked up now), over, or still in the queue; `Done` if its place is gone."""
    waiter = find_waiter(draft, command.waiter)
    is_ours = waiter is not None and waiter.engine == draft.engine
    if waiter is not None and waiter.ask is not None and is_ours and waiter.deadline <= draft.now:
        return _time_out(draft, waiter, waiter.ask)
    freshen(draft, command.ask)
    for id_, lease in draft.picked_up:
        if id_ == command.waiter:
            return Granted(lease, "", fresh=True)
    promised = _promised(draft, command.waiter, command.ask)
    if promised is not None:
        ask = terms(draft, promised)
        ask = ask._replace(tokens=tuple(dict.fromkeys((*ask.tokens, *command.ask.tokens))))
        hold = rewrite(draft, promised, ask, expiry(draft, promised.actor, ask))
        draft.tell("renewed", ask, hold, expires_at=hold.expires_at, waiter=command.waiter)
        return Granted(lease_of(hold, ask, draft.now), "", fresh=True)
    waiter = find_waiter(draft, command.waiter)
    if waiter is None or waiter.ask is None or waiter.engine != draft.engine:
        return _gone(draft, command)
    outcome = _serve_or_stay(draft, command)
    waiter = find_waiter(draft, command.waiter)
    if command.is_over and waiter is not None and isinstance(outcome, Queued):
        return _time_out(draft, waiter, waiter.ask or command.ask)
    return outcome


def _gone(draft: Draft, command: Check) -> Outcome:
    """Answer a waiter that is no longer queued: its session is over, or it was dropped or asked again elsewhere."""
    ask = command.ask
    if ask.session is not None and session_of(draft, keys.actor(ask.space, ask.holder, ask.session)) is None:
        return SESSION_OVER
    return Done((command.waiter,))


def _serve_or_stay(draft: Draft, command: Check) -> Outcome:
    """Serve this queue if it can move: its wake-up may be lost."""
    draft.dirty.update(dict.fromkeys(claim.node for option in command.ask.options for claim in option.claims))
    settle(draft)
    for id_, lease in draft.picked_up:
        if id_ == command.waiter:
            return Granted(lease, "", fresh=True)
    waiter = find_waiter(draft, command.waiter)
    return queued(draft, waiter, waiter.ask or command.ask) if waiter is not None else Done((command.waiter,))


def _time_out(draft: Draft, waiter: Waiter, ask: LeaseRequest) -> TimedOut:
    answer = held(draft, ask, waiter.order, waiter.actor, waiter.shown)
    leave(draft, waiter, ask)
    forget_request(draft, ask, "timeout")
    draft.tell("timeout", ask, waiter=waiter.id)
    settle(draft)
    return TimedOut(answer.resources, answer.blockers, answer.queue, answer.retry_us)


def _promised(draft: Draft, waiter: str, ask: LeaseRequest) -> Hold | None:
    for option in ask.options:
        for hold in draft.record(option.claims[0].node).holds.values():
            if hold.ticket == waiter and not hold.closed:
                return hold
    return None


IS_GRANTED = Refused(
    "not_allowed",
    "token",
    "this request was granted, and only the lease's token, its session or an admin may end it: "
    "send the same acquire again with the same request_id for its token, and release it with that token",
)


def cancel(draft: Draft, command: Cancel) -> Outcome:
    """Withdraw a request: leave the queue, or release its lease; it is never granted later.

    Ending a lease takes proof, as any caller can guess a holder and a request_id. A client that could not read the
    answer to its acquire has no token: it shows the secret from which it drew the request_id.
    """
    if command.actor is not None and command.proof.secret is not None:
        session = session_of(draft, command.actor)
        if session is not None and session.secret != command.proof.secret:
            return Refused("not_allowed", "session", "the secret does not belong to this session")
    became = _became(draft, command)
    was = "unknown"
    if became is not None and keys.is_waiter_id(became):
        was = _cancel_wait(draft, became)
    hold = _granted_to(draft, became, command.request)
    if hold is not None:
        ask = terms(draft, hold)
        is_requester = command.is_from_requester and is_within(ask, command.proof.authority)
        is_received = hold.ticket is None  # with a ticket, its caller still waits for it
        if is_received and not is_requester and not is_entitled(draft, hold.actor, ask, command.proof):
            settle(draft)
            return IS_GRANTED
        end_cleanly(draft, hold, ask, "cancelled", "the request was cancelled", command.proof)
        was = "granted"
    if command.request is not None:
        draft.put(command.request, Request(REQUEST, None, "", draft.now + CANCELLED_MEMORY))
    settle(draft)
    return Cancelled(was)


def _became(draft: Draft, command: Cancel) -> str | None:
    """Return the id of the wait or of the lease that came of the request."""
    if command.request is None:
        return command.waiter
    known = draft.record(command.request).notes.get(REQUEST)
    return known.became if isinstance(known, Request) else command.waiter or _unnoted(draft, command)


def _unnoted(draft: Draft, command: Cancel) -> str | None:
    """Find the lease that the first copy of a request was granted: only the lease itself names that request."""
    if command.actor is None:
        return None
    for id_ in refs_of(draft, command.actor, keys.is_lease_id):
        hold = draft.record(keys.home(id_)).holds.get(id_)
        if hold is not None and hold.ask is not None and hold.ask.request == command.request:
            return id_
    return None


def _cancel_wait(draft: Draft, waiter_id: str) -> str:
    waiter = find_waiter(draft, waiter_id)
    if waiter is not None:
        ask = waiting_for(draft, waiter)
        leave(draft, waiter, ask)
        draft.tell("cancelled", ask, waiter=waiter_id)
        return "waiting"
    return "unknown"


def _granted_to(draft: Draft, became: str | None, request: str | None) -> Hold | None:
    """Return the live lease that began with this request; one that the request only extended stays."""
    if became is None or not keys.is_lease_id(became):
        return None
    node = keys.home(became)
    lapse(draft, node)
    hold = draft.record(node).holds.get(became)
    return None if hold is None or hold.closed or terms(draft, hold).request != request else hold


def _given(draft: Draft, id_: str) -> Waiter | Hold | None:
    if keys.is_waiter_id(id_):
        return find_waiter(draft, id_)
    return live_lease(draft, id_) if keys.is_lease_id(id_) else None


def give_up(draft: Draft, command: GiveUp) -> Outcome:
    """Give up what was asked for with this token; a retry with another token keeps it, and so does a renewal."""
    entry = _given(draft, command.id)
    if entry is None and command.request is not None:
        known = draft.record(command.request).notes.get(REQUEST)
        entry = _given(draft, known.became) if isinstance(known, Request) and known.became is not None else None
    if entry is None or entry.ask is None or command.token not in entry.ask.tokens:
        return Done()
    if isinstance(entry, Hold) and command.expires is not None and entry.expires_at > command.expires:
        return Done()  # it was renewed since: its caller has it
    others = tuple(token for token in entry.ask.tokens if token != command.token)
    if others:
        draft.put(keys.home(entry.id), entry._replace(ask=entry.ask._replace(tokens=others)))
        return Done()
    if isinstance(entry, Hold):
        end_cleanly(draft, entry, entry.ask, "cancelled", "its caller is gone")
    else:
        leave(draft, entry, entry.ask)
        draft.tell("cancelled", entry.ask, waiter=entry.id, reason="its caller is gone")
    if entry.ask.request is not None:
        draft.discard(entry.ask.request, REQUEST)  # it was not withdrawn: a retry is a new request
    settle(draft)
    return Done()


def beat(draft: Draft, command: Beat) -> Outcome:
    """Keep the engine's waiters alive for another while, or note that it has none left."""
    if command.life is not None:
        draft.put(command.engine, Presence(PRESENCE, draft.now + command.life))
    else:
        draft.discard(command.engine, PRESENCE)
    return Done()


def sweep(draft: Draft, command: Sweep) -> Outcome:
    """Remove what has expired in these records, and serve the waiters that can be served."""
    draft.require(list(command.keys))
    for key in command.keys:
        if key.startswith("n"):
            lapse(draft, key)
            for waiter in draft.record(key).waiters:  # also behind others that go on waiting
                if waiter.deadline <= draft.now and waiter.ask is not None:
                    turn_away(draft, waiter, waiter.ask)
            draft.dirty[key] = None
        elif key.startswith("a"):
            end_lapsed(draft, key)
            plans.end_due(draft, key, draft.now)
        elif key.startswith("k"):
            expire(draft, key)
        _drop_old_notes(draft, key)
    settle(draft)
    return Done()


def _drop_old_notes(draft: Draft, key: str) -> None:
    for note in tuple(draft.record(key).notes.values()):
        if isinstance(note, End | Poll | Request | Presence | Receipt) and note.until <= draft.now:
            if isinstance(note, Request) and _is_in_use(draft, note):
                draft.put(key, note._replace(until=draft.now + REQUEST_MEMORY))
            else:
                draft.drop(key, note.id)


def _is_in_use(draft: Draft, request: Request) -> bool:
    """Return True while the lease or the wait of this request_id lives: it must not be forgotten then."""
    became = request.became
    if became is None or not (keys.is_lease_id(became) or keys.is_waiter_id(became)):
        return False
    return became in draft.record(keys.home(became)).holds or find_waiter(draft, became) is not None

"""Acquire: granted now, the same lease again, a place in the queue, or a refusal that helps. Pure."""

from __future__ import annotations

from leasehold.domain import keys
from leasehold.domain.entries import EMPTY, POOL, Poll, Ref, Request, Waiter
from leasehold.domain.outcomes import Deadlock, Granted, Held, Queued, Refused
from leasehold.domain.records import resources_of
from leasehold.domain.rules.conflicts import is_alive, modes_of, slots_clash
from leasehold.domain.rules.ending import REQUEST, lapse, take_out_of_plans, terms, why_gone
from leasehold.domain.rules.granting import (
    REQUEST_MEMORY,
    SESSION_OVER,
    WISH,
    expiry,
    find_waiter,
    grant,
    in_the_way,
    lease_of,
    nodes_of,
    remember_request,
    session_of,
    settle,
    turn_away,
)
from leasehold.domain.rules.limits import LEASES_PER_ACTOR, WAITERS_PER_NODE
from leasehold.domain.rules.owning import is_own_obstacle, own_lease, unapplied
from leasehold.domain.timestamps import SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from leasehold.domain.commands import Acquire
    from leasehold.domain.entries import Hold, LeaseRequest
    from leasehold.domain.outcomes import Outcome
    from leasehold.domain.rules import Draft

INTENT_LIFE: Final = 60 * SECOND
"""A polling agent's refused try counts as waiting this long."""
TOKENS_KEPT: Final = 32
"""A lease that is acquired again and again by its holder keeps its first token and the latest ones."""
LATE = Refused("spent", "request_id", "a later copy of this request is waiting; take a new request_id")
"""For a delayed first copy: its caller has sent another one since, and must not lose its place to this one."""


def acquire(draft: Draft, command: Acquire) -> Outcome:
    """Decide one request."""
    ask = command.ask
    if ask.session is not None:
        refusal = refuse_session(draft, command)
        if refusal is not None:
            return refusal
        session = session_of(draft, command.actor)
        if session is not None:  # it acts in its own name, whichever holder the caller names
            ask = ask._replace(holder=session.holder)
            command = command._replace(ask=ask)
    if ask.request is not None:
        answer = _seen_before(draft, command, ask.request)
        if answer is not None:
            return answer
    if ask.options[0].claims[0].mode == POOL:
        from leasehold.domain.rules import pools  # noqa: PLC0415 (rare)

        named = pools.with_members(draft, ask)
        if isinstance(named, Refused):
            return named
        command = command._replace(ask=named)
    if not _is_untouched(draft, ask):
        answer = _meet_others(draft, command)
        if answer is not None:
            return answer
    if len(draft.record(command.actor).notes) >= LEASES_PER_ACTOR:
        most = f"at most {LEASES_PER_ACTOR} leases and waits a holder; release some first"
        return Refused("too_many", "holder", most)
    return _grant_or_queue(draft, command)


def _is_untouched(draft: Draft, ask: LeaseRequest) -> bool:
    """Return True if no wanted node has an entry: then nothing can have expired or be in the way."""
    for option in ask.options:
        for claim in option.claims:
            if draft.record(claim.node) is not EMPTY:
                return False
    return True


def _meet_others(draft: Draft, command: Acquire) -> Outcome | None:
    """Return the answer that existing leases give; None if the request may be granted or queued."""
    freshen(draft, command.ask)
    if command.reentrant:
        mine = own_lease(draft, command.ask, command.actor, command.shown)
        if mine is not None:
            remember_request(draft, command.ask, mine.id)
            return _again(draft, mine, command.ask, command.actor)
    return _refuse_other_slots(draft, command.ask)


def freshen(draft: Draft, ask: LeaseRequest) -> None:
    """Remove what has expired on the wanted nodes, and serve earlier waiters."""
    nodes = nodes_of(ask)
    if len(nodes) > 1:
        draft.require(nodes)
    for node in nodes:
        if draft.record(node).holds:
            lapse(draft, node)
    if draft.dirty:
        settle(draft)


def refuse_session(draft: Draft, command: Acquire) -> Refused | None:
    """Refuse a request in a session's name without its secret, or after its end."""
    if command.ask.session is None:
        return None
    session = session_of(draft, command.actor)
    if session is None:
        return SESSION_OVER
    if session.secret != command.secret:
        return Refused("not_allowed", "session", "the secret does not belong to this session")
    return None


def _seen_before(draft: Draft, command: Acquire, request: str) -> Outcome | None:
    """Return the answer to a request_id that was used before; None if it is new."""
    known = draft.record(request).notes.get(REQUEST)
    if not isinstance(known, Request):
        return None if command.first else _granted_unnoted(draft, command, request)
    if known.became is None:
        return Refused("cancelled", "request_id", "this request was cancelled; ask again with a new request_id")
    if known.body != command.ask.body:
        return _another()
    if keys.is_waiter_id(known.became):
        return LATE if command.first else _still_waiting(draft, command, known.became)
    if keys.is_lease_id(known.became):
        lapse(draft, keys.home(known.became))
        settle(draft)
        if REQUEST not in draft.record(request).notes:
            return None  # it was promised to a waiter, whose engine did not pick it up
        hold = draft.record(keys.home(known.became)).holds.get(known.became)
        if hold is not None and not hold.closed:
            if command.first and hold.ticket is not None:
                return LATE
            return _again(draft, hold, command.ask, command.actor, extend=False)
        gone = f"its lease is gone ({why_gone(draft, known.became)})"
    else:
        gone = "it timed out"
    return _spent(gone)


def _granted_unnoted(draft: Draft, command: Acquire, request: str) -> Granted | Refused | None:
    """Return the lease of the first copy of this request, and note it from now on, for there may be more copies."""
    for option in command.ask.options:
        for hold in draft.record(option.claims[0].node).holds.values():
            ask = hold.ask
            if ask is None or ask.request != request or hold.closed or hold.expires_at <= draft.now:
                continue
            if ask.body != command.ask.body:
                return _another()
            remember_request(draft, ask, hold.id)
            return _again(draft, hold, command.ask, command.actor, extend=False)
    return None


def _another() -> Refused:
    why = "this request_id was used for another request: its resources and terms differ; take a new one"
    return Refused("conflict", "request_id", why)


def _spent(gone: str) -> Refused:
    return Refused("spent", "request_id", f"this request was answered before and {gone}; take a new request_id")


def _still_waiting(draft: Draft, command: Acquire, waiter_id: str) -> Outcome | None:
    """Return the same place in the queue; from now on this caller waits for it, for as long as it now says."""
    waiter = find_waiter(draft, waiter_id)
    if waiter is None or waiter.ask is None:
        return None  # it was dropped with its engine: let it queue anew
    if waiter.deadline <= draft.now:
        turn_away(draft, waiter, waiter.ask)
        settle(draft)
        return _spent("it timed out")
    # Only callers at the waiter's engine learn of its grant; others have to ask again, and join then.
    known = waiter.ask.tokens if waiter.engine == command.engine else ()
    tokens = tuple(dict.fromkeys((*known, *command.ask.tokens)))
    ask = waiter.ask._replace(tokens=tokens)
    moved = waiter._replace(engine=command.engine, deadline=draft.now + command.wait, ask=ask)
    modes = modes_of(ask)
    for node in nodes_of(ask)[1:]:
        draft.put(node, moved._replace(mode=modes[node], ask=None))
    draft.put(keys.home(waiter_id), moved)
    if not is_alive(draft, waiter):  # its engine was silent, so it did not count
        from leasehold.domain.rules.returning import give_way  # noqa: PLC0415 (rare)

        deadlock = give_way(draft, moved, ask)
        if deadlock is not None:
            return deadlock
    return _tell_queued(draft, moved, ask, again=True)


def _again(draft: Draft, home: Hold, ask: LeaseRequest, actor: str, *, extend: bool = True) -> Granted:
    """Return the lease that the caller has already, with the new token valid too, extended by a re-acquire."""
    known = terms(draft, home)
    new = tuple(token for token in ask.tokens if token not in known.tokens)
    known = known._replace(tokens=(known.tokens + new)[:1] + (known.tokens + new)[1:][-(TOKENS_KEPT - 1) :])
    said: dict[str, Any] = {}
    if extend:
        anew = {"name": ask.name, "context": ask.context, "reason": ask.reason}
        had = {"name": known.name, "context": known.context, "reason": known.reason}
        said = {field: value for field, value in anew.items() if value is not None and value != had[field]}
        # A re-acquire extends a lease, never shortens it.
        known = known._replace(ttl=max(known.ttl, ask.ttl), **said)
    is_picked_up = home.ticket is not None  # promised to a wait of this very request
    until = expiry(draft, home.actor, known) if extend or is_picked_up else home.expires_at
    home = rewrite(draft, home, known, until)
    if extend or is_picked_up:
        draft.tell("renewed", known, home, expires_at=home.expires_at, **said)
        draft.discard(actor, WISH)
    return Granted(lease_of(home, known, draft.now), "", False, unapplied(known, ask) if extend else ())


def rewrite(draft: Draft, home: Hold, ask: LeaseRequest, expires_at: int) -> Hold:
    """Write a lease with new terms and a new expiry, on every node that it covers."""
    for claim in ask.options[0].claims[1:]:
        grip = draft.record(claim.node).holds[home.id]
        if grip.expires_at != expires_at:
            draft.put(claim.node, grip._replace(expires_at=expires_at))
    home = home._replace(ask=ask, expires_at=expires_at, ticket=None)
    draft.put(keys.home(home.id), home)
    return home


def _refuse_other_slots(draft: Draft, ask: LeaseRequest) -> Refused | None:
    clash = slots_clash(draft, ask)
    if clash is None:
        return None
    return Refused("slots_mismatch", "slots", f"it is held with slots={clash}; ask with slots={clash}")


def _grant_or_queue(draft: Draft, command: Acquire) -> Outcome:
    """Grant the first free option; otherwise refuse, queue, or report the deadlock that waiting would close."""
    ask, actor = command.ask, command.actor
    order = (-command.priority, draft.fence)
    for option in ask.options:
        if not in_the_way(draft, option, ask.slots, order):
            told: dict[str, object] | None = {"priority": command.priority} if command.priority else None
            hold = grant(draft, actor, ask, option, told=told, noted=not command.first)
            if (command.shown or ask.session is not None) and any(draft.record(it.node).notes for it in option.claims):
                take_out_of_plans(draft, hold, command.shown)
            return Granted(lease_of(hold, hold.ask or ask, draft.now), "", True)
    if command.wait <= 0:
        return _refuse_now(draft, command, order)
    if (command.shown or ask.session is not None) and is_own_obstacle(draft, ask, actor, command.shown):
        return _refuse_now(draft, command._replace(intent=False), order)
    for node in nodes_of(ask):
        if len(draft.record(node).waiters) >= WAITERS_PER_NODE:
            return Refused("too_many", "wait", f"{WAITERS_PER_NODE} are waiting already; try again later without wait")
    deadlock = _deadlock(draft, command, order)
    return _enqueue(draft, command, order) if deadlock is None else deadlock


def paused(draft: Draft) -> Refused:
    """Refuse every grant during the pause after a restore or a promotion."""
    left = -((draft.now - draft.opens_at) // SECOND)
    return Refused(
        "paused",
        "resources",
        f"nothing new is granted for another {left} s: the database was promoted or restored, and leases that it may "
        "have lost still count; try again then, or wait",
    )


def _refuse_now(draft: Draft, command: Acquire, order: tuple[int, ...]) -> Outcome:
    from leasehold.domain.rules.telling import held  # noqa: PLC0415 (only who is refused pays for it)

    if draft.now < draft.opens_at:
        return paused(draft)
    return _refuse_try(draft, command, held(draft, command.ask, order, command.actor, command.shown))


def _refuse_try(draft: Draft, command: Acquire, answer: Held) -> Outcome:
    from leasehold.domain.rules.waitgraph import LAST  # noqa: PLC0415 (see `_refuse_now`)

    if command.intent:
        deadlock = _deadlock(draft, command, LAST)
        if deadlock is not None:
            return deadlock
        ask = command.ask
        draft.put(command.actor, Poll(WISH, ask.options, ask.slots, draft.now + INTENT_LIFE, ask.space, ask.holder))
    draft.tell("refused", command.ask, by=[blocker.holder for blocker in answer.blockers])
    return answer


def _deadlock(draft: Draft, command: Acquire, order: tuple[int, ...]) -> Deadlock | None:
    if not may_close_cycle(draft, command.actor, command.ask, order):
        return None
    from leasehold.domain.rules.waitgraph import cycle_closed_by  # noqa: PLC0415 (see `_refuse_now`)

    cycle = cycle_closed_by(draft, command.actor, command.ask, order)
    if cycle is None:
        return None
    draft.tell("deadlock", command.ask, cycle=list(cycle))
    draft.discard(command.actor, WISH)  # its next try is a new decision
    return Deadlock(resources_of(command.ask), cycle)


def _enqueue(draft: Draft, command: Acquire, order: tuple[int, ...]) -> Queued:
    """Queue the request at each of its nodes. Its first node is the home of the waiter and keeps the request."""
    ask = command.ask
    nodes, modes = nodes_of(ask), modes_of(ask)
    id_ = keys.waiter_id(draft.number(), nodes[0])
    mode, now, engine = modes[nodes[0]], draft.now, command.engine
    waiter = Waiter(
        id_,
        order,
        mode,
        ask.slots,
        command.actor,
        ask.holder,
        engine,
        now,
        now + command.wait,
        ask,
        command.shown,
    )
    for node in nodes[1:]:
        draft.put(node, waiter._replace(mode=modes[node], ask=None))
    draft.put(nodes[0], waiter)
    draft.put(command.actor, Ref(id_))
    if ask.request is not None:
        until = waiter.deadline + ask.ttl + REQUEST_MEMORY
        draft.put(ask.request, Request(REQUEST, id_, ask.body, until))
    return _tell_queued(draft, waiter, ask, again=False)


def _tell_queued(draft: Draft, waiter: Waiter, ask: LeaseRequest, *, again: bool) -> Queued:
    """Record that the request is queued, and return its place."""
    from leasehold.domain.rules.telling import queued  # noqa: PLC0415 (only a request that waits needs it)

    answer = queued(draft, waiter, ask)
    draft.tell(
        "queued",
        ask,
        waiter=waiter.id,
        again=again,
        position=answer.queue.position,
        deadline=waiter.deadline,
        engine=waiter.engine,
        priority=-waiter.order[0],
        mode=ask.mode,
        slots=ask.slots,
        any_of=len(ask.options) > 1,
    )
    return answer


def may_close_cycle(draft: Draft, actor: str, ask: LeaseRequest, order: tuple[int, ...]) -> bool:
    """Return True if another actor could wait for this one if it queued: otherwise no cycle can close.

    That is so if the actor holds something or waits already, or if its place is before that of a waiter.
    """
    for note in draft.record(actor).notes.values():
        if isinstance(note, Ref):
            return True
    for node in nodes_of(ask):
        queue = draft.record(node).waiters
        if queue and queue[-1].order > order:
            return True
    return False

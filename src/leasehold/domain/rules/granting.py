"""Grant a request, release a lease, and serve the next in the queue. Pure."""

from __future__ import annotations

from leasehold.domain import keys, names
from leasehold.domain.entries import (
    EXCLUSIVE,
    MODE_NAMES,
    POOL,
    SLOTS,
    Hold,
    Ref,
    Request,
)
from leasehold.domain.leases import Lease
from leasehold.domain.nouns import new
from leasehold.domain.outcomes import Refused, Released
from leasehold.domain.records import place_of, resources_of
from leasehold.domain.rules.conflicts import (
    holds_in_the_way,
    is_alive,
    waiters_in_the_way,
)
from leasehold.domain.rules.ending import (
    REQUEST,
    by_another,
    finish,
    lapse,
    take_out_of_plans,
    terms,
    told_at_end,
    why_gone,
)
from leasehold.domain.sessions import Session
from leasehold.domain.timestamps import FOREVER, SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from leasehold.domain.commands import Proof, Release
    from leasehold.domain.entries import Alternative, Claim, LeaseRequest, Waiter
    from leasehold.domain.outcomes import Outcome
    from leasehold.domain.rules import Draft
    from leasehold.requests.calls import Authority

PICK_UP: Final = 2 * SECOND
"""A lease that another engine granted waits this long for its waiter's engine to pick it up."""
SESSION: Final = "session"
WISH: Final = "wish"
"""Ids of the entries of which a record has at most one."""
REQUEST_MEMORY: Final = 600 * SECOND
"""A request_id is kept this long beyond the TTL of its request."""

SESSION_OVER: Final = Refused(
    "session_over", "session", "this session has ended, or there never was one: start a new session"
)
"""The answer to a request in the name of a session that is not alive, also to one that waits."""
NOT_ALLOWED: Final = Refused(
    "not_allowed", "token", "this is neither the lease's token nor its session's secret; only they or an admin may"
)
"""The answer to a call without the right proof."""


def in_the_way(draft: Draft, option: Alternative, slots: int, order: tuple[int, ...]) -> bool:
    """Return True if anything keeps this option from being granted."""
    if draft.now < draft.opens_at:
        return True
    for claim in option.claims:
        record = draft.record(claim.node)
        if record.holds and holds_in_the_way(draft, claim.node, claim.mode, slots, option.resources):
            return True
        if record.waiters and waiters_in_the_way(draft, claim.node, claim.mode, slots, option.resources, order, 1):
            return True
    return False


def nodes_of(ask: LeaseRequest) -> list[str]:
    """Return every node that this request needs in any of its options, its home first."""
    if len(ask.options) == 1:
        return [claim.node for claim in ask.options[0].claims]
    return list(dict.fromkeys(claim.node for option in ask.options for claim in option.claims))


# ---------------------------------------------------------------------------------------- granting


def lease_of(hold: Hold, ask: LeaseRequest, now: int) -> Lease:
    """Return the lease as others may see it."""
    # fmt: off
    (space, options, mode, slots, ttl, holder, session, _, name, context, reason, _, _, _, principal, key, _, trace,
     host) = ask
    # fmt: on
    resources, kind = options[0].resources, MODE_NAMES[mode]
    id_, fence, since, until = hold.id, hold.fence, hold.acquired_at, hold.expires_at
    # `new` saves 140 of the constructor's 270 ns, compiled; each grant, renewal and listing makes a lease.
    # fmt: off
    told = (id_, space, resources, holder, session, kind, slots, fence, ttl, since, until, name, reason, context, now,
            principal, key, trace, host)
    # fmt: on
    return new(Lease, told)


def session_of(draft: Draft, actor: str) -> Session | None:
    """Return the session that this actor is, while it lives."""
    session = draft.record(actor).notes.get(SESSION)
    return session if isinstance(session, Session) and session.expires_us > draft.now else None


def expiry(draft: Draft, actor: str, ask: LeaseRequest) -> int:
    """Return when a full TTL from now ends; a lease never outlives its session."""
    full = draft.now + ask.ttl
    if ask.session is None:
        return full
    session = session_of(draft, actor)
    return min(full, session.expires_us) if session is not None else draft.now


def grant(
    draft: Draft,
    actor: str,
    ask: LeaseRequest,
    option: Alternative,
    ticket: str | None = None,
    told: dict[str, object] | None = None,
    *,
    noted: bool = True,
) -> Hold:
    """Grant the actor this option of its request; return the hold in the lease's home.

    `told` are more details for its event. If not `noted`, only the lease itself knows which request it came of.
    """
    fence = draft.number()
    if option.claims[0].mode == POOL:
        from leasehold.domain.rules import pools  # noqa: PLC0415 (rare)

        option = pools.with_free_member(draft, option)
        ask = ask._replace(options=(option,))
    elif len(ask.options) > 1:
        ask = ask._replace(options=(option,))
    expires_at = expiry(draft, actor, ask)
    if ticket is not None:
        expires_at = min(expires_at, draft.now + PICK_UP)
    after = FOREVER if ask.quarantine else ask.grace
    now, claims = draft.now, option.claims
    first = claims[0]
    lease = keys.lease_id(fence, first.node)
    slots = _slots_at(first, ask)
    terms = (lease, first.mode, slots, actor, ask.holder, fence, now, expires_at, after, ask, ticket, False)
    home = new(Hold, terms)  # saves 110 of the constructor's 215 ns, compiled
    draft.put(first.node, home)
    for claim in claims[1:]:
        grip = home._replace(mode=claim.mode, slots=_slots_at(claim, ask), ask=None, ticket=None)
        draft.put(claim.node, grip)
    _note_grant(draft, home, ask, told)
    if noted:
        remember_request(draft, ask, home.id)
    return home


def _slots_at(claim: Claim, ask: LeaseRequest) -> int:
    return ask.slots if claim.mode == SLOTS else 1


def _note_grant(draft: Draft, home: Hold, ask: LeaseRequest, told: dict[str, object] | None) -> None:
    """Note the lease at its actor, drop the actor's intent, and record the event, with what `told` adds or replaces."""
    draft.put(home.actor, Ref(home.id))
    draft.discard(home.actor, WISH)
    detail: dict[str, object] = {
        "mode": ask.mode,
        "slots": ask.slots,
        "ttl": ask.ttl,
        "expires_at": home.expires_at,
        "name": ask.name,
        "reason": ask.reason,
        "waited": 0,
    }
    if told:
        detail.update(told)
    if home.after:
        detail |= {"grace": ask.grace, "quarantine": ask.quarantine}
    draft.note("granted", ask, home, detail)


def remember_request(draft: Draft, ask: LeaseRequest, became: str) -> None:
    """Note the result of the request of this id."""
    if ask.request is not None:
        until = draft.now + ask.ttl + REQUEST_MEMORY
        draft.put(ask.request, Request(REQUEST, became, ask.body, until))


def leave(draft: Draft, waiter: Waiter, ask: LeaseRequest) -> None:
    """Remove a waiter from every queue that it is in."""
    for node in nodes_of(ask):
        draft.drop(node, waiter.id)
        draft.dirty[node] = None
    draft.drop(waiter.actor, waiter.id)
    if waiter.engine != draft.engine:
        draft.to_wake[waiter.engine] = None


def find_waiter(draft: Draft, id_: str) -> Waiter | None:
    """Return the waiter of this id in its home, or None if it waits no longer."""
    queue = draft.record(keys.home(id_)).waiters
    place = place_of(queue, id_)
    return None if place is None else queue[place]


def waiting_for(draft: Draft, waiter: Waiter) -> LeaseRequest:
    """Return the request of a waiter in any of its queues."""
    if waiter.ask is not None:
        return waiter.ask
    home = find_waiter(draft, waiter.id)
    if home is None or home.ask is None:
        raise AssertionError(f"the home of {waiter.id} does not tell what it waits for")
    return home.ask


def refs_of(draft: Draft, actor: str, is_meant: Callable[[str], bool]) -> list[str]:
    """Ids of an actor's leases (`keys.is_lease_id`) or of its waits (`keys.is_waiter_id`), whose homes are loaded."""
    ids = [note.id for note in draft.record(actor).notes.values() if isinstance(note, Ref) and is_meant(note.id)]
    draft.require([keys.home(id_) for id_ in ids])
    return ids


def settle(draft: Draft) -> None:
    """Serve the waiters that can be served on the nodes in `dirty`, until nothing moves."""
    while draft.dirty:
        node = next(iter(draft.dirty))
        del draft.dirty[node]
        if draft.record(node).waiters:
            _serve(draft, node)


def _serve(draft: Draft, node: str) -> None:
    """Serve the first waiter of a node that can move: grant, turn away or send back. Check the node again then."""
    for waiter in draft.record(node).waiters:
        ask = waiting_for(draft, waiter)
        if not is_alive(draft, waiter) or not _lives(draft, waiter, ask):
            turn_away(draft, waiter, ask)
            draft.dirty[node] = None  # a waiter behind it may be next: check this queue again
            return
        option = _takeable(draft, waiter, ask)
        if option is not None:
            _promote(draft, waiter, ask, option)
            draft.dirty[node] = None
            return
        if _has_only_own_obstacles(draft, waiter, ask):
            _send_back(draft, waiter, ask)
            draft.dirty[node] = None
            return
        if waiter.mode == EXCLUSIVE:
            return  # no waiter behind an exclusive one can overtake it here


def _has_only_own_obstacles(draft: Draft, waiter: Waiter, ask: LeaseRequest) -> bool:
    if not waiter.shown and ask.session is None:
        return False
    from leasehold.domain.rules.owning import is_own_obstacle  # noqa: PLC0415 (it imports this module)

    return is_own_obstacle(draft, ask, waiter.actor, waiter.shown, waiter.order)


def _send_back(draft: Draft, waiter: Waiter, ask: LeaseRequest) -> None:
    """Remove a waiter that only leases of its own hinder. Its engine asks again, and gets a refusal."""
    leave(draft, waiter, ask)
    if ask.request is not None:
        draft.discard(ask.request, REQUEST)
    draft.tell("cancelled", ask, waiter=waiter.id, reason="only leases of its own are in its way", yours=True)


def turn_away(draft: Draft, waiter: Waiter, ask: LeaseRequest) -> None:
    """Remove a waiter that was not served: its time or its session is over, or its engine is gone."""
    leave(draft, waiter, ask)
    if waiter.deadline <= draft.now:
        forget_request(draft, ask, "timeout")
        draft.tell("timeout", ask, waiter=waiter.id)
    elif not _lives(draft, waiter, ask):
        draft.tell("cancelled", ask, waiter=waiter.id, reason="its session is over", session_over=True)
    else:
        draft.tell("cancelled", ask, waiter=waiter.id, reason="its caller is gone")


def _lives(draft: Draft, waiter: Waiter, ask: LeaseRequest) -> bool:
    """Return True if it asks in the name of no session, or of one that is alive."""
    return ask.session is None or session_of(draft, waiter.actor) is not None


def _takeable(draft: Draft, waiter: Waiter, ask: LeaseRequest) -> Alternative | None:
    for option in ask.options:
        for claim in option.claims:
            if draft.record(claim.node).holds:
                lapse(draft, claim.node)
        if not in_the_way(draft, option, ask.slots, waiter.order):
            return option
    return None


def _promote(draft: Draft, waiter: Waiter, ask: LeaseRequest, option: Alternative) -> None:
    leave(draft, waiter, ask)
    is_ours = waiter.engine == draft.engine
    told: dict[str, object] = {"waiter": waiter.id, "waited": draft.now - waiter.since}
    hold = grant(draft, waiter.actor, ask, option, None if is_ours else waiter.id, told)
    if waiter.shown or ask.session is not None:
        take_out_of_plans(draft, hold, waiter.shown)
    if is_ours and hold.ask is not None:
        draft.picked_up.append((waiter.id, lease_of(hold, hold.ask, draft.now)))


def forget_request(draft: Draft, ask: LeaseRequest, became: str) -> None:
    """Note that the request of this id failed, so that a late copy of it is not served."""
    remember_request(draft, ask, became)


# --------------------------------------------------------------------------------------- releasing


def live_lease(draft: Draft, lease: str) -> Hold | None:
    """Return the hold in the lease's home, or None once it has expired, even if no other caller has the resource."""
    node = keys.home(lease)
    lapse(draft, node)
    if draft.dirty:
        settle(draft)
        lapse(draft, node)
    return _open_hold(draft, node, lease)


def still_held(draft: Draft, lease: str) -> Hold | None:
    """Return the live hold in the lease's home, without serving waiters: for callers that end several leases."""
    node = keys.home(lease)
    lapse(draft, node)
    return _open_hold(draft, node, lease)


def _open_hold(draft: Draft, node: str, lease: str) -> Hold | None:
    hold = draft.record(node).holds.get(lease)
    return hold if hold is not None and not hold.closed else None


def is_within(ask: LeaseRequest, authority: Authority | None) -> bool:
    """True if the lease lies where the key of the principal is for: a proof that was handed on does not widen it."""
    if authority is None:
        return True
    if authority.space is not None and ask.space != authority.space:
        return False
    return not authority.prefixes or all(
        names.literal(name).startswith(authority.prefixes) for name in resources_of(ask)
    )


def is_entitled(draft: Draft, actor: str, ask: LeaseRequest, proof: Proof) -> bool:
    """Return True for the token, the session's secret or an admin, if the name is within the bounds of the key."""
    if not is_within(ask, proof.authority):
        return False
    if proof.admin is not None or (proof.token is not None and proof.token in ask.tokens):
        return True
    if proof.secret is None or ask.session is None:
        return False
    session = session_of(draft, actor)
    return session is not None and session.secret == proof.secret


def never_was(draft: Draft, lease: str) -> Refused | None:
    """Refuse an id whose number was not given out yet."""
    if keys.number(lease) < draft.fence:
        return None
    return Refused("not_found", "lease", f"there never was a lease {lease}")


def release(draft: Draft, command: Release) -> Outcome:
    """Give back exactly this lease; a second time it is no longer there."""
    hold = live_lease(draft, command.lease)
    if hold is None:
        never = never_was(draft, command.lease)
        return Released(command.lease, False, why_gone(draft, command.lease)) if never is None else never
    ask = terms(draft, hold)
    if not is_entitled(draft, hold.actor, ask, command.proof):
        return NOT_ALLOWED
    end_cleanly(draft, hold, ask, command.status, command.error, command.proof)
    settle(draft)
    return Released(command.lease, True, command.status, ask.options[0].resources)


def end_cleanly(
    draft: Draft, hold: Hold, ask: LeaseRequest, status: str, error: str | None = None, proof: Proof | None = None
) -> None:
    """End a lease cleanly. The history says how the work ended, and who ended it if that was not the holder."""
    told: dict[str, object] = {"status": status, "error": error}
    if proof is not None and proof.admin is not None:
        told["by"] = proof.admin
    if proof is not None and proof.authority is not None:
        told |= by_another(ask, proof.authority)
    draft.note("released", ask, hold, told_at_end(hold, ask, told))
    finish(draft, hold, ask)

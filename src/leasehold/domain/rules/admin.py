"""Force-release, steal, clear, extend, note: what an admin can do, always with a name and a reason. Pure."""

from __future__ import annotations

from leasehold.domain import keys, pools
from leasehold.domain.entries import OWN_MODES, POOL
from leasehold.domain.events import Event
from leasehold.domain.outcomes import Cleared, Granted, Noted, Refused, Released, Renewed
from leasehold.domain.rules.acquiring import freshen, paused, refuse_session
from leasehold.domain.rules.conflicts import holds_in_the_way
from leasehold.domain.rules.ending import by_another, by_key, finish, lapse, take_away, terms
from leasehold.domain.rules.granting import grant, lease_of, live_lease, settle
from leasehold.domain.rules.leases import lost, renewed
from leasehold.domain.rules.telling import held
from leasehold.domain.timestamps import FOREVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.domain.commands import AddNote, Clear, Extend, Force, Steal
    from leasehold.domain.entries import Hold, LeaseRequest
    from leasehold.domain.outcomes import Outcome
    from leasehold.domain.rules import Draft


def force(draft: Draft, command: Force) -> Outcome:
    """End this lease, or every lease on this resource; its holder learns it."""
    node = command.node or keys.home(command.lease or "")
    lapse(draft, node)
    settle(draft)
    holds = [
        hold
        for hold in draft.record(node).holds.values()
        if not hold.closed and (hold.id == command.lease if command.lease else _is_on(draft, hold, command.resource))
    ]
    for hold in holds:
        take_away(draft, _home(draft, hold), command.by, command.reason, command.authority)
    settle(draft)
    target = command.lease or command.resource
    if not holds:
        return Released(target, released=False, reason="not held")
    ids = ", ".join(hold.id for hold in holds)
    return Released(ids, released=True, reason=f"forced by {command.by}: {command.reason}", resources=(target,))


def _is_on(draft: Draft, hold: Hold, resource: str) -> bool:
    """Return True if this is a hold of the resource itself: other names may share its nodes, as all of `repo:` do."""
    return (hold.mode in OWN_MODES or hold.mode == POOL) and resource in terms(draft, hold).options[0].resources


def _home(draft: Draft, hold: Hold) -> Hold:
    return draft.record(keys.home(hold.id)).holds[hold.id]


def steal(draft: Draft, command: Steal) -> Outcome:
    """Take over whatever is held, in one step, before anybody who waits; a closed resource stays closed."""
    ask = command.acquire.ask
    if len(ask.options) > 1:
        return Refused("invalid", "any_of", "steal names exactly what it takes: it cannot be any_of")
    if ask.options[0].claims[0].mode == POOL and not pools.is_member(ask.options[0].resources[0]):
        return Refused("invalid", "resources", "steal names exactly what it takes: one member of the pool")
    refusal = refuse_session(draft, command.acquire)
    if refusal is None and draft.now < draft.opens_at:
        refusal = paused(draft)
    if refusal is not None:
        return refusal
    freshen(draft, ask)
    in_the_way = {
        hold.id: hold
        for claim in ask.options[0].claims
        for hold in holds_in_the_way(draft, claim.node, claim.mode, ask.slots, ask.options[0].resources)
    }
    if any(hold.closed for hold in in_the_way.values()):
        return held(draft, ask, (0, draft.fence))
    for hold in in_the_way.values():
        take_away(draft, _home(draft, hold), command.by, command.reason, command.authority, spare_successor=True)
    hold = grant(draft, command.acquire.actor, ask, ask.options[0], told={"stolen_by": command.by})
    settle(draft)
    return Granted(lease_of(hold, ask, draft.now), "", fresh=True)


def clear(draft: Draft, command: Clear) -> Outcome:
    """Open a resource that an unclean end has closed, with all else that the same end closed."""
    lapse(draft, command.node)
    holds = draft.record(command.node).holds.values()
    closed = [hold for hold in holds if hold.closed and _is_on(draft, hold, command.resource)]
    opened: dict[str, None] = {command.resource: None}
    for hold in closed:
        home = _home(draft, hold)
        ask = terms(draft, home)
        opened.update(dict.fromkeys(ask.options[0].resources))
        finish(draft, home, ask)
        draft.events.append(_cleared(draft, command, hold, ask))
    settle(draft)
    return Cleared(tuple(opened), cleared=bool(closed))


def extend(draft: Draft, command: Extend) -> Outcome:
    """Reset the clock of another holder's lease to this TTL; an expired lease is never revived."""
    hold = live_lease(draft, command.lease)
    if hold is None:
        return lost(draft, command.lease)
    hold, ask = renewed(draft, hold, terms(draft, hold), command.ttl)
    told = {"by": command.by, "why": command.reason, **by_another(ask, command.authority)}
    draft.tell("extended", ask, hold, expires_at=hold.expires_at, **told)
    return Renewed(lease_of(hold, ask, draft.now))


def note(draft: Draft, command: AddNote) -> Outcome:
    """Record a note about a resource in the history. No lease changes."""
    detail: dict[str, object] = {"by": command.by, "note": command.text}
    if command.authority is not None:
        detail |= {"principal": command.authority.principal, "key": command.authority.key}
    draft.events.append(
        Event("noted", draft.now, command.space, (command.resource,), command.by, None, None, 0, detail)
    )
    return Noted(command.resource, command.text)


def _cleared(draft: Draft, command: Clear, hold: Hold, ask: LeaseRequest) -> Event:
    was = "quarantine" if hold.expires_at == FOREVER else "grace"
    detail = {"by": command.by, "why": command.reason, **by_key(command.authority), "was": was}
    resources = ask.options[0].resources
    return Event("cleared", draft.now, command.space, resources, hold.holder, None, hold.id, hold.fence, detail)

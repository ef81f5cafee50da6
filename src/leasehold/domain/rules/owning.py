"""Which leases are the caller's own, by proof and never by a name, and what they cover. Pure."""

from __future__ import annotations

from leasehold.domain import keys, names
from leasehold.domain.entries import EXCLUSIVE, NAMED_MODES, OWN_MODES, POOL, SLOTS
from leasehold.domain.rules.conflicts import holds_in_the_way, waiters_in_the_way
from leasehold.domain.rules.ending import terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from leasehold.domain.entries import Alternative, Hold, LeaseRequest
    from leasehold.domain.rules import Draft


_COVERING: Final = (*OWN_MODES, *NAMED_MODES)
"""Modes of holds on a node that may cover what is asked for there."""


def is_own(draft: Draft, hold: Hold, ask: LeaseRequest, actor: str, shown: tuple[str, ...]) -> bool:
    """True if a token in `shown` opens this live lease, or if the session that asks has it.

    The secret of that session has been checked before.
    """
    if hold.closed:
        return False
    if ask.session is not None and hold.actor == actor:
        return True
    return bool(shown) and not set(shown).isdisjoint(terms(draft, hold).tokens)


def own_lease(draft: Draft, ask: LeaseRequest, actor: str, shown: tuple[str, ...]) -> Hold | None:
    """Find a live lease of the caller's own that covers the request, or one of its choices."""
    if ask.session is None and not shown:
        return None
    for option in ask.options:
        for claim in option.claims:
            for hold in draft.record(claim.node).holds.values():
                if hold.mode not in _COVERING or hold.expires_at <= draft.now:
                    continue
                if is_own(draft, hold, ask, actor, shown) and _covers(terms(draft, hold), ask, option):
                    return draft.record(keys.home(hold.id)).holds[hold.id]
    return None


def _covers(known: LeaseRequest, ask: LeaseRequest, option: Alternative) -> bool:
    """True if the lease keeps out everybody whom a lease on this option would keep out."""
    if known.mode != EXCLUSIVE and (known.mode != ask.mode or known.slots != ask.slots):
        return False
    held = known.options[0]
    if option.claims[0].mode == POOL:
        from leasehold.domain.rules import pools  # noqa: PLC0415 (rare)

        return pools.has_one_of(held, option)
    if known.mode == SLOTS:  # of what is below it, others may hold a part: it covers itself alone
        own = {claim.node for claim in held.claims if claim.mode == SLOTS}
        return all(claim.node in own for claim in option.claims if claim.mode == SLOTS)
    wanted = {claim.node for claim in option.claims}
    # A name is above another only where its scheme is declared to be a tree: then the request has a claim on its node.
    above = {claim.of for claim in held.claims if claim.mode in OWN_MODES and claim.node in wanted}
    above.update(place for place, name in enumerate(held.resources) if names.is_pattern(name))
    return all(any(names.lies_in(name, held.resources[place]) for place in above) for name in option.resources)


def unapplied(known: LeaseRequest, ask: LeaseRequest) -> tuple[str, ...]:
    """Arguments of a re-acquire that the lease does not have, and that only a new lease could have."""
    differs = {
        "mode": known.mode != ask.mode,
        "slots": known.slots != ask.slots,
        "holder": known.holder != ask.holder,
        "session": known.session != ask.session,
        "grace": known.grace < ask.grace,
        "on_expiry": ask.quarantine and not known.quarantine,
    }
    return tuple(name for name, is_so in differs.items() if is_so)


def is_own_obstacle(
    draft: Draft, ask: LeaseRequest, actor: str, shown: tuple[str, ...], order: tuple[int, ...] | None = None
) -> bool:
    """True if only leases of the caller's own keep it from each of its choices: a wait for them would never end.

    With an `order`, waiters before that place are in its way, too.
    """
    if draft.now < draft.opens_at:
        return False
    return all(_is_blocked_by_own(draft, ask, option, actor, shown, order) for option in ask.options)


def _is_blocked_by_own(
    draft: Draft,
    ask: LeaseRequest,
    option: Alternative,
    actor: str,
    shown: tuple[str, ...],
    order: tuple[int, ...] | None,
) -> bool:
    """Return True if the caller's own leases, and nothing else, stand in the way of this option."""
    is_blocked = False
    for claim in option.claims:
        for hold in holds_in_the_way(draft, claim.node, claim.mode, ask.slots, option.resources):
            if not is_own(draft, hold, ask, actor, shown):
                return False
            is_blocked = True
        if order is not None and waiters_in_the_way(
            draft, claim.node, claim.mode, ask.slots, option.resources, order, 1
        ):
            return False
    return is_blocked

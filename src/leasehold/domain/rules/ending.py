"""How leases end: released, lapsed, forced. Every removal names the lease's id. Pure."""

from __future__ import annotations

from leasehold.domain import keys
from leasehold.domain.entries import (
    EXCLUSIVE,
    INTENT_EXCLUSIVE,
    OWN_MODES,
    PATTERN_EXCLUSIVE,
    PATTERN_MODES,
    POOL,
    End,
    PlanMark,
)
from leasehold.domain.timestamps import FOREVER, SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from leasehold.domain.entries import Hold, LeaseRequest
    from leasehold.domain.rules import Draft
    from leasehold.requests.calls import Authority

REQUEST: Final = "request"
"""Id of the one entry in the record of a request."""
END_MEMORY: Final = 24 * 3600 * SECOND
"""The reason of an unclean end is kept this long for the old holder."""
ENDS_KEPT: Final = 32
"""At most this many such reasons a resource."""
FORGOTTEN: Final = "it was released, expired or was forced: too many others have ended since to tell"


def terms(draft: Draft, hold: Hold) -> LeaseRequest:
    """Return the request that the lease of this hold was granted."""
    told = hold if hold.ask is not None else draft.record(keys.home(hold.id)).holds[hold.id]
    if told.ask is None:
        raise AssertionError(f"the home of {hold.id} does not tell its terms")
    return told.ask


def finish(draft: Draft, home: Hold, ask: LeaseRequest) -> None:
    """Remove the lease from every node, cleanly, so that waiters can be served."""
    for claim in ask.options[0].claims:
        draft.drop(claim.node, home.id)
        draft.dirty[claim.node] = None
    draft.drop(home.actor, home.id)


def lapse(draft: Draft, node: str) -> None:
    """End the leases that have expired on this node, here and on all of their nodes."""
    now = draft.now
    for hold in [hold for hold in draft.record(node).holds.values() if hold.expires_at <= now]:
        home = draft.record(keys.home(hold.id)).holds[hold.id]
        ask = terms(draft, home)
        if home.closed:
            for claim in ask.options[0].claims:  # the resource opens again
                draft.drop(claim.node, home.id)
                draft.dirty[claim.node] = None
        else:
            _expire(draft, home, ask)


def _expire(draft: Draft, home: Hold, ask: LeaseRequest) -> None:
    if home.ticket is not None:
        # Promised to a waiter whose engine never came for it: no caller ever worked under this lease.
        finish(draft, home, ask)
        if ask.request is not None:
            draft.drop(ask.request, REQUEST)  # a retry with this request_id is a new request
        draft.tell("cancelled", ask, home, reason="the waiter did not pick it up")
        return
    draft.tell("expired", ask, home, expired_at=home.expires_at, **told_at_end(home, ask))
    end_uncleanly(draft, home, ask, "expired", home.expires_at)


def end_uncleanly(draft: Draft, home: Hold, ask: LeaseRequest, reason: str, at: int) -> None:
    """End a lease that was not released: keep the reason, and close the resource if its terms say so."""
    opens_at = FOREVER if home.after >= FOREVER else at + home.after
    if opens_at > draft.now:
        _close(draft, home, ask, opens_at)
    else:
        finish(draft, home, ask)
    until = draft.now + END_MEMORY
    resources = ask.options[0].resources
    end = End(keys.end_id(home.id), reason, at, until, ask.space, resources, ask.holder, ask.session)
    _remember(draft, keys.home(home.id), end)


def by_key(authority: Authority | None) -> dict[str, object]:
    """Return the principal and the key that did it, for the event; nothing on a store without a server's keys."""
    return {} if authority is None else {"by_principal": authority.principal, "by_key": authority.key}


def by_another(ask: LeaseRequest, authority: Authority | None) -> dict[str, object]:
    """Return the principal and the key that did it, for the event, if they are not those of the lease."""
    is_own = authority is not None and (authority.principal, authority.key) == (ask.principal, ask.key)
    return {} if is_own else by_key(authority)


def take_away(
    draft: Draft, home: Hold, by: str, reason: str, authority: Authority | None, *, spare_successor: bool = False
) -> None:
    """End a lease for an admin.

    `spare_successor`: neither grace nor quarantine applies, because the admin takes the lease over.
    """
    ask = terms(draft, home)
    told = {"by": by, "why": reason, **by_another(ask, authority), "stolen": spare_successor}
    draft.tell("forced", ask, home, **told, **told_at_end(home, ask))
    if spare_successor:
        home = home._replace(after=0)
    end_uncleanly(draft, home, ask, f"forced by {by}: {reason}", draft.now)


def _close(draft: Draft, home: Hold, ask: LeaseRequest, opens_at: int) -> None:
    for claim in ask.options[0].claims:
        grip = draft.record(claim.node).holds[home.id]
        intention = PATTERN_EXCLUSIVE if grip.mode in PATTERN_MODES else INTENT_EXCLUSIVE
        mode = POOL if grip.mode == POOL else EXCLUSIVE if grip.mode in OWN_MODES else intention
        draft.put(claim.node, grip._replace(mode=mode, closed=True, expires_at=opens_at))
        draft.dirty[claim.node] = None
    draft.drop(home.actor, home.id)
    if opens_at == FOREVER:
        draft.tell("quarantined", ask, home)


def take_out_of_plans(draft: Draft, hold: Hold, shown: tuple[str, ...]) -> None:
    """Take what a new lease covers out of its holder's own plans. Most resources are in no plan."""
    for claim in hold.ask.options[0].claims if hold.ask is not None else ():
        for note in draft.record(claim.node).notes.values():
            if isinstance(note, PlanMark):
                from leasehold.domain.rules import plans  # noqa: PLC0415 (rare)

                plans.take_out(draft, hold, shown)
                return


def _remember(draft: Draft, node: str, end: End) -> None:
    known = [note for note in draft.record(node).notes.values() if isinstance(note, End)]
    if len(known) >= ENDS_KEPT:
        draft.drop(node, min(known, key=lambda note: note.at).id)
    draft.put(node, end)


def why_gone(draft: Draft, lease: str) -> str:
    """Return the reason why this lease is no longer there."""
    end = end_of(draft, lease)
    if end is not None:
        return end.reason
    notes = draft.record(keys.home(lease)).notes.values()
    numbers = [keys.number(keys.ended(note.id)) for note in notes if isinstance(note, End)]
    # Once there are so many, its reason may have made way for those of leases that came later.
    is_forgotten = len(numbers) >= ENDS_KEPT and keys.number(lease) < max(numbers)
    return FORGOTTEN if is_forgotten else "released"


def end_of(draft: Draft, lease: str) -> End | None:
    """Return the note of a lease's unclean end, if it is not too old."""
    end = draft.record(keys.home(lease)).notes.get(keys.end_id(lease))
    return end if isinstance(end, End) else None


def told_at_end(home: Hold, ask: LeaseRequest, told: dict[str, object] | None = None) -> dict[str, object]:
    """Add what the last event of a lease says about it to `told`, so that history alone can show the run."""
    told = {} if told is None else told
    told["acquired_at"] = home.acquired_at
    told["name"] = ask.name
    told["reason"] = ask.reason
    told["context"] = ask.context
    told["mode"] = ask.mode
    return told

"""Renew and update: what the holder of a lease can do with it while it lives. Pure."""

from __future__ import annotations

from leasehold.domain import keys
from leasehold.domain.events import Event
from leasehold.domain.outcomes import Lost, Refused, Renewed, TrespassReported, Updated
from leasehold.domain.rules.acquiring import rewrite
from leasehold.domain.rules.ending import by_another, end_of, terms, why_gone
from leasehold.domain.rules.granting import (
    NOT_ALLOWED,
    expiry,
    is_entitled,
    is_within,
    lease_of,
    live_lease,
    never_was,
    settle,
    still_held,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.domain.commands import Renew, ReportTrespass, Update
    from leasehold.domain.entries import Hold, LeaseRequest
    from leasehold.domain.outcomes import Outcome
    from leasehold.domain.rules import Draft


def report_trespass(draft: Draft, command: ReportTrespass) -> Outcome:
    """Tell the history that an agent changed what this lease holds. The lease stays as it is."""
    hold = still_held(draft, command.lease)
    ask = None if hold is None else terms(draft, hold)
    is_told = hold is not None and ask is not None and is_within(ask, command.authority)
    if hold is not None and ask is not None and is_told:
        detail = {"by": command.by, "paths": list(command.paths), **by_another(ask, command.authority)}
        where = (ask.space, ask.options[0].resources, hold.holder, ask.session)
        draft.events.append(Event("trespass", draft.now, *where, hold.id, hold.fence, detail))
    settle(draft)
    return TrespassReported(command.lease, is_told)


def renew(draft: Draft, command: Renew) -> Outcome:
    """Back to a full TTL, or `Lost`: an expired lease is never revived."""
    hold = live_lease(draft, command.lease)
    if hold is None:
        return lost(draft, command.lease)
    ask = terms(draft, hold)
    if not is_entitled(draft, hold.actor, ask, command.proof):
        return NOT_ALLOWED
    hold, ask = renewed(draft, hold, ask, command.ttl)
    draft.tell("renewed", ask, hold, expires_at=hold.expires_at, **by_another(ask, command.proof.authority))
    return Renewed(lease_of(hold, ask, draft.now))


def renewed(draft: Draft, hold: Hold, ask: LeaseRequest, ttl: int | None = None) -> tuple[Hold, LeaseRequest]:
    """Return the lease with a full TTL from now on."""
    if ttl is not None:
        ask = ask._replace(ttl=ttl)
    return rewrite(draft, hold, ask, expiry(draft, hold.actor, ask)), ask


def lost(draft: Draft, lease: str) -> Lost | Refused:
    """Answer that a lease is over, and record once that its holder knows; refuse an id that there never was."""
    never = never_was(draft, lease)
    if never is not None:
        return never
    end = end_of(draft, lease)
    if end is not None and not end.told:
        draft.put(keys.home(lease), end._replace(told=True))
        about = (end.space, end.resources, end.holder, end.session, lease, keys.number(lease))
        draft.events.append(Event("lost", draft.now, *about, {"reason": end.reason}))
    return Lost(lease, why_gone(draft, lease))


def update(draft: Draft, command: Update) -> Outcome:
    """Replace the context, or merge into it, while the lease is held."""
    from leasehold.domain import contexts  # noqa: PLC0415 (acquire and release do without)

    hold = live_lease(draft, command.lease)
    if hold is None:
        return lost(draft, command.lease)
    ask = terms(draft, hold)
    if not is_entitled(draft, hold.actor, ask, command.proof):
        return NOT_ALLOWED
    context = _merged(ask.context, command.context) if command.merge else command.context
    if isinstance(context, Refused):
        return context
    if len(context.encode()) > contexts.BYTES:
        return Refused("invalid", "context", f"after merging it is longer than {contexts.BYTES} bytes of JSON")
    ask = ask._replace(context=context)
    hold = rewrite(draft, hold, ask, hold.expires_at)
    draft.tell("updated", ask, hold, context=context, **by_another(ask, command.proof.authority))
    return Updated(lease_of(hold, ask, draft.now))


def _merged(old: str | None, new: str) -> str | Refused:
    import json  # noqa: PLC0415 (only who merges pays for it)

    ours, theirs = json.loads(old or "{}"), json.loads(new)
    for which, found in (("given", theirs), ("held", ours)):
        if not isinstance(found, dict):
            why = f"merge=True needs an object on both sides: the context {which} is not one"
            return Refused("invalid", "context", why)
    return json.dumps({**ours, **theirs}, ensure_ascii=False, separators=(",", ":"))

"""Renew, release, update: what the holder of a lease can do with it. Pure."""

from __future__ import annotations

from leasehold.domain import keys, names
from leasehold.domain.events import Event
from leasehold.domain.outcomes import Lost, Refused, Released, Renewed, TrespassReported, Updated
from leasehold.domain.records import resources_of
from leasehold.domain.rules.acquiring import rewrite
from leasehold.domain.rules.ending import by_another, end_of, finish, lapse, terms, told_at_end, why_gone
from leasehold.domain.rules.granting import expiry, lease_of, session_of, settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.domain.commands import Proof, Release, Renew, ReportTrespass, Update
    from leasehold.domain.entries import Hold, LeaseRequest
    from leasehold.domain.outcomes import Outcome
    from leasehold.domain.rules import Draft
    from leasehold.requests.calls import Authority


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


NOT_ALLOWED = Refused(
    "not_allowed", "token", "this is neither the lease's token nor its session's secret; only they or an admin may"
)


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


def _never_was(draft: Draft, lease: str) -> Refused | None:
    if keys.number(lease) < draft.fence:
        return None
    return Refused("not_found", "lease", f"there never was a lease {lease}")


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
    never = _never_was(draft, lease)
    if never is not None:
        return never
    end = end_of(draft, lease)
    if end is not None and not end.told:
        draft.put(keys.home(lease), end._replace(told=True))
        about = (end.space, end.resources, end.holder, end.session, lease, keys.number(lease))
        draft.events.append(Event("lost", draft.now, *about, {"reason": end.reason}))
    return Lost(lease, why_gone(draft, lease))


def release(draft: Draft, command: Release) -> Outcome:
    """Give back exactly this lease; a second time it is no longer there."""
    hold = live_lease(draft, command.lease)
    if hold is None:
        never = _never_was(draft, command.lease)
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

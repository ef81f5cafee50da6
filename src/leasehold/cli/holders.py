"""The refusal of a release or renewal whose token the caller does not have: who holds the resource, and why not you."""

from __future__ import annotations

import os
import sys

from leasehold.cli.commands.own_leases import TargetResult
from leasehold.cli.output import clock, step
from leasehold.config.identity import NAMED, CommandIdentity
from leasehold.config.identity.descent import GONE, MINE, OTHERS, UNKNOWN
from leasehold.domain import keys
from leasehold.domain.leases import Inspection
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Lost, Refused, Released
from leasehold.wire.sentences import KEPT_ALIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context
    from leasehold.cli.tokens import SavedToken
    from leasehold.domain.leases import Lease


_ENDS = ("released", "expired", "forced")


def not_mine(context: Context, target: str, name: str) -> TargetResult:
    """Return the refusal for a resource, or a lease id, whose token the caller does not have."""
    held = _holding(context, name)
    if isinstance(held, Refused):  # an unknown key, or a space that the key does not cover
        return TargetResult(target, held)
    if not held:
        ended = _ended(context, name)
        return TargetResult(target, Refused("not_found", "", f"nobody holds {name}") if ended is None else ended)
    from leasehold.wire import shapes as wire  # noqa: PLC0415

    lease = held[0]
    work = f" ({lease.name})" if lease.name else ""
    more = f" and {len(held) - 1} more" if len(held) > 1 else ""
    until = f", {KEPT_ALIVE}" if lease.session is not None else f" until {clock(lease.expires_us, lease.as_of_us)}"
    holders = tuple(wire.lease(each) for each in held)
    if lease.id in context.own:  # by the name of something that it covers
        whole = context.suggest(context.verb, *lease.resources, more=" --context JSON" * (context.verb == "update"))
        text = f"{name} has no lease of its own: yours on {' '.join(lease.resources)} covers it{until}"
        advice = step(f"{context.verb} that lease as a whole", whole)
        return TargetResult(target, Refused("not_allowed", "", text), holders, advice)
    text = f"{name} is held by {lease.holder}{work}{more}{until}, and {why_not(context, name, lease)}"
    return TargetResult(target, Refused("not_allowed", "", text), holders, _advice(context, name, lease))


def _ended(context: Context, name: str) -> Released | Lost | None:
    """Return how the caller's former lease ended. Releasing it again is no failure; renewing it is."""
    lease, resource = (name, None) if keys.is_lease_id(name) else (None, name)
    found = context.locks.history(
        space=context.space, holder=context.holder, lease=lease, resource=resource, kinds=_ENDS, limit=1
    )
    if isinstance(found, Refused) or not found:
        return None
    event = found[0]
    from leasehold.wire import shapes as wire  # noqa: PLC0415

    over, reason = event.lease or "", event.kind
    if event.kind == "forced":
        reason = str(wire.why_forced(event) or event.kind)
    return Released(over, released=False, reason=reason) if context.verb == "release" else Lost(over, reason)


def _holding(context: Context, name: str) -> tuple[Lease, ...] | Refused:
    if not keys.is_lease_id(name):
        seen = context.locks.inspect(name)
        return seen.leases if isinstance(seen, Inspection) else seen
    listed = context.locks.list()
    return listed if isinstance(listed, Refused) else tuple(lease for lease in listed if lease.id == name)


def why_not(context: Context, name: str, lease: Lease) -> str:
    """Say why the caller may not use the token: it is not saved here, or another process owns it."""
    kept = _kept(context, name, lease)
    if kept is None:
        return "its token is not kept here"
    given = context.values.get("holder") or context.choice.holder
    if given is not None and kept.holder != given:
        return "its token is that of another holder"
    how = _judged(context, kept)
    if how == MINE:
        return "its token is that of another run in the same process"
    if how == OTHERS:
        return "the process that took it lives, and is none that this command comes from"
    return "the process that took it has ended" if how == GONE else "it was taken on another machine or in a container"


def _kept(context: Context, name: str, lease: Lease) -> SavedToken | None:
    """Return the saved token of this lease, whichever process of this user saved it."""
    return next((line for line in context.tokens.seen(name) if line.lease == lease.id), None)


def is_of_neighbour(context: Context, kept: SavedToken) -> bool:
    """True if the process that took it lives and is no ancestor of this command."""
    return _judged(context, kept) == OTHERS


def is_for_person(context: Context) -> bool:
    """True if a person reads this at a terminal: sub-agents with names of their own would follow such advice."""
    is_agent = isinstance(context.identity, CommandIdentity) and context.identity.is_agent
    return not is_agent and all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def _judged(context: Context, kept: SavedToken) -> str:
    """Judge by descent whose token this is."""
    return context.identity.lineage.judge(kept.chain) if isinstance(context.identity, CommandIdentity) else UNKNOWN


def _advice(context: Context, name: str, lease: Lease) -> str:
    kept = _kept(context, name, lease)
    if kept is not None and kept.layer != NAMED and _judged(context, kept) == MINE and is_for_person(context):
        as_holder = context.suggest(context.verb, *lease.resources, holder=lease.holder)
        return step(f"it was taken from here as {shown(lease.holder)}, so name that holder", as_holder)
    if context.is_of_run and lease.id == os.environ.get("LEASEHOLD_LEASE"):
        return "Next: go on under it: the `leasehold run` that this command is part of releases it at its end"
    if lease.session is not None:  # a `leasehold run` has one: nobody is advised to release its lease
        names = lease.resources if keys.is_lease_id(name) else (name,)
        wait = context.suggest("acquire", *names, more=" --wait 10m")
        return step(f"leave it alone until {shown(lease.holder)} has released it, or wait for it", wait)
    by_token = context.suggest(context.verb, name, more=" --token-file FILE")
    return step(f"ask {shown(lease.holder)}, or wait for it; if you have its token, give that", by_token)

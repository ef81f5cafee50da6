"""Who holds what the caller does not: for a release or a renewal of what was not taken from here."""

from __future__ import annotations

from leasehold import keys
from leasehold.cli import state
from leasehold.cli.keeping import Result
from leasehold.cli.output import clock, step
from leasehold.model import Inspection, Lost, Refused, Released
from leasehold.names import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context
    from leasehold.model import Lease


_ENDS = ("released", "expired", "forced")


def not_mine(context: Context, target: str, name: str) -> Result:
    """The refusal for a resource, or a lease's id, whose token is not known here."""
    held = _holding(context, name)
    if isinstance(held, Refused):  # nobody was asked: a key that is not known, a space that is not ours
        return Result(target, held)
    if not held:
        ended = _ended(context, name)
        return Result(target, Refused("not_found", "", f"nobody holds {name}") if ended is None else ended)
    from leasehold import wire  # noqa: PLC0415

    lease = held[0]
    work = f" ({lease.name})" if lease.name else ""
    more = f" and {len(held) - 1} more" if len(held) > 1 else ""
    until = clock(lease.expires_at, lease.as_of)
    text = f"{name} is held by {lease.holder}{work}{more} until {until}, and its token is not kept here"
    holders = tuple(wire.lease(each) for each in held)
    return Result(target, Refused("not_allowed", "", text), holders, _advice(context, name, lease))


def _ended(context: Context, name: str) -> Released | Lost | None:
    """What the caller had and has no more: to release it again is no failure, and to go on with it is one."""
    lease, resource = (name, None) if keys.is_lease_id(name) else (None, name)
    found = context.locks.history(
        space=context.space, holder=context.holder, lease=lease, resource=resource, kinds=_ENDS, limit=1
    )
    if isinstance(found, Refused) or not found:
        return None
    event = found[0]
    from leasehold import wire  # noqa: PLC0415

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


def _advice(context: Context, name: str, lease: Lease) -> str:
    url, space, _ = context.scope
    if context.is_mine(lease):
        again = context.suggest("acquire", *lease.resources)
        return step("give its token with --token-file FILE; or, as it is yours, acquire it again and go on", again)
    if any(state.recall(url, space, lease.holder, each) for each in lease.resources):
        as_holder = context.suggest(context.verb, *lease.resources, holder=lease.holder)
        return step(f"it was taken from here as {shown(lease.holder)}, so name that holder", as_holder)
    force = context.suggest("force-release", name, more=" --reason '…'")
    return step(f"ask {shown(lease.holder)}, wait for it, or, if you are in charge, end it", force)

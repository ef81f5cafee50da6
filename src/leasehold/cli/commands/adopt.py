"""adopt: at a terminal, take over the token of a lease that another of your own processes acquired.

It is for people alone: an agent that could adopt would release its neighbour's lease. No message offers it.
"""

from __future__ import annotations

import sys

from leasehold.cli import output
from leasehold.cli.holders import is_for_person, not_mine, why_not
from leasehold.cli.output import clock, write
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Granted, Refused
from leasehold.domain.timestamps import SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context
    from leasehold.cli.tokens import SavedToken
    from leasehold.domain.leases import Lease

_REASON_MOST = 1_024


def adopt(context: Context) -> int:
    """Show who acquired the lease, ask, and save its token for this terminal. The history records it."""
    if not is_for_person(context):
        return context.end(Refused("not_allowed", "", "this is for a person at a terminal"), "")
    target = context.values["target"]
    listed = context.locks.list(space=context.space)
    live = {} if isinstance(listed, Refused) else {lease.id: lease for lease in listed}
    kept = next((line for line in reversed(context.tokens.seen(target)) if line.lease in live), None)
    if kept is None:
        return context.end(not_mine(context, target, target).outcome, "")
    lease = live[kept.lease]
    if lease.id in context.own:
        context.out.say(f"{shown(target)} is yours already.")
        return output.DONE
    if not _is_wanted(context, target, lease):
        context.out.say("Nothing was changed.")
        return output.NOT_ALLOWED
    return _take_over(context, lease, kept)


def _is_wanted(context: Context, target: str, lease: Lease) -> bool:
    work = f" ({shown(lease.name)})" if lease.name else ""
    told = (
        f"{shown(target)} was taken by {shown(lease.holder)}{work}",
        f"  since   {clock(lease.acquired_us, lease.as_of_us)}",
        f"  until   {clock(lease.expires_us, lease.as_of_us)}",
        f"  and     {why_not(context, target, lease)}",
        "If an agent is still at work under it, two will be at work side by side. Adopt it? [y/N] ",
    )
    write(sys.stderr, "\n".join(told))
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _take_over(context: Context, lease: Lease, kept: SavedToken) -> int:
    before = f"; before: {lease.reason}" if lease.reason else ""
    reason = f"adopted by {context.holder}, from {lease.holder}{before}"
    outcome = context.locks.acquire(
        list(lease.resources),
        ttl=lease.ttl_us / SECOND,
        mode=lease.mode,
        slots=lease.slots,
        holder=lease.holder,
        reentrant=True,
        token=kept.token,
        reason=reason.encode()[:_REASON_MOST].decode("utf-8", "ignore"),
    )
    if not isinstance(outcome, Granted) or outcome.fresh:
        return context.end(outcome, "")
    context.tokens.remember(outcome.lease.resources, lease.id, outcome.token)
    return context.end(outcome, f"Adopted {shown(' '.join(lease.resources))}")

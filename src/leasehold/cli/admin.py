"""gc, force-release, steal, clear: what somebody in charge does, with a reason that is in the history."""

from __future__ import annotations

from leasehold import wire
from leasehold.cli import state
from leasehold.cli.skew import not_removed
from leasehold.cli.taking import keep_and_tell
from leasehold.errors import InvalidInput
from leasehold.model import Cleared, Granted, Refused, Released
from leasehold.names import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context


def _why(context: Context) -> dict[str, str]:
    reason = context.values["reason"]
    if not reason:
        raise InvalidInput("reason", "is missing: say why with --reason '…'; it is kept in the history")
    return {"by": context.values["by"] or context.holder, "reason": reason}


def force_release(context: Context) -> int:
    """End somebody's lease."""
    target = context.values["target"]
    outcome: Released | Refused = context.locks.force_release(target, **_why(context))
    if isinstance(outcome, Released) and not outcome.released:
        outcome = Refused("not_found", "", f"nobody holds {target}")
    return context.end(outcome, f"Released {shown(target)} by force; its holder learns it at its next call")


def steal(context: Context) -> int:
    """Take over what somebody else holds."""
    values = context.values
    outcome = context.locks.steal(values["resources"], ttl=context.ttl, name=values["name"], **_why(context))
    return keep_and_tell(context, outcome, "Taken over:") if isinstance(outcome, Granted) else context.end(outcome, "")


def clear(context: Context) -> int:
    """Open a resource that was closed after an unclean end."""
    name = context.values["resource"]
    outcome: Cleared | Refused = context.locks.clear(name, **_why(context))
    if isinstance(outcome, Cleared) and not outcome.cleared:
        outcome = Refused("not_found", "", f"{name} is not closed")
    opened = outcome.resources if isinstance(outcome, Cleared) else (name,)
    return context.end(outcome, f"{shown(' '.join(opened))} {'is' if len(opened) == 1 else 'are'} open again")


def collect(context: Context) -> int:
    """Sweep what has expired, trim the history, and forget tokens that nobody has used for long."""
    outcome = context.locks.gc()
    if isinstance(outcome, Refused):
        return context.end(outcome, "")
    tokens = state.tidy()
    data: dict[str, object] = {"swept": outcome.swept, "forgotten": outcome.forgotten, "tokens": tokens}
    data |= {"not_removed": [wire.blocker(each) for each in outcome.kept]}
    text = f"Swept {outcome.swept} expired records; forgot {outcome.forgotten} old events and {tokens} old token files"
    return context.end(outcome, "\n".join([text, *not_removed(outcome.kept)]), data)

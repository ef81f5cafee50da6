"""gc, and force-release, steal and clear: an admin ends or takes what others hold, with a reason for the history."""

from __future__ import annotations

from leasehold.cli import tokens as state
from leasehold.cli.commands.acquire import keep_and_tell
from leasehold.cli.git_clocks import not_removed
from leasehold.config.identity import CommandIdentity
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Cleared, Granted, Refused, Released
from leasehold.errors import InvalidInput
from leasehold.wire import shapes as wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context


def _refusal(context: Context) -> Refused | None:
    """Refuse people's commands to agents, unless the user's own configuration allows them. On a server, keys decide."""
    from leasehold.locks.connect import is_served  # noqa: PLC0415

    caller = context.identity
    if (
        is_served(context.choice.url)
        or context.verb in context.choice.agents_may
        or not isinstance(caller, CommandIdentity)
    ):
        return None
    if not caller.is_agent:
        return None
    why = "is for people, and an agent or a CI job runs this command; ask the person you work for"
    return Refused("not_allowed", "", f"{context.verb} {why}")


def _why(context: Context) -> dict[str, str]:
    reason = context.values["reason"]
    if not reason:
        raise InvalidInput("reason", "is missing: say why with --reason '…'; it is kept in the history")
    return {"by": context.values["by"] or context.holder, "reason": reason}


def force_release(context: Context) -> int:
    """End another holder's lease."""
    target = context.values["target"]
    why, refusal = _why(context), _refusal(context)
    if refusal is not None:
        return context.end(refusal, "")
    outcome: Released | Refused = context.locks.force_release(target, **why)
    if isinstance(outcome, Released) and not outcome.released:
        outcome = Refused("not_found", "", f"nobody holds {target}")
    return context.end(outcome, f"Released {shown(target)} by force; its holder learns it at its next call")


def steal(context: Context) -> int:
    """Take over a resource that another holder has."""
    values, why, refusal = context.values, _why(context), _refusal(context)
    if refusal is not None:
        return context.end(refusal, "")
    outcome = context.locks.steal(values["resources"], ttl=context.ttl, name=values["name"], **why)
    return keep_and_tell(context, outcome, "Taken over:") if isinstance(outcome, Granted) else context.end(outcome, "")


def clear(context: Context) -> int:
    """Reopen a resource that was closed after an unclean end."""
    name, why, refusal = context.values["resource"], _why(context), _refusal(context)
    if refusal is not None:
        return context.end(refusal, "")
    outcome: Cleared | Refused = context.locks.clear(name, **why)
    if isinstance(outcome, Cleared) and not outcome.cleared:
        outcome = Refused("not_found", "", f"{name} is not closed")
    opened = outcome.resources if isinstance(outcome, Cleared) else (name,)
    return context.end(outcome, f"{shown(' '.join(opened))} {'is' if len(opened) == 1 else 'are'} open again")


def collect(context: Context) -> int:
    """Remove expired records, old events, and tokens that were not used for long."""
    outcome = context.locks.gc()
    if isinstance(outcome, Refused):
        return context.end(outcome, "")
    tokens = state.tidy()
    data: dict[str, object] = {"swept": outcome.swept, "forgotten": outcome.forgotten, "tokens": tokens}
    data |= {"not_removed": [wire.blocker(each) for each in outcome.kept]}
    text = f"Swept {outcome.swept} expired records; forgot {outcome.forgotten} old events and {tokens} old token files"
    return context.end(outcome, "\n".join([text, *not_removed(outcome.kept, context)]), data)

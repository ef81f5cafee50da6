"""gc, note and pool; force-release, steal, clear and extend: what an admin does with the leases of others, and why."""

from __future__ import annotations

from leasehold.cli import tokens as state
from leasehold.cli.commands.acquire import keep_and_tell
from leasehold.cli.context import CommandRefused, accepted
from leasehold.cli.git_clocks import not_removed
from leasehold.config.identity import CommandIdentity
from leasehold.domain import durations
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Cleared, Granted, PoolDeclared, Refused, Released, Renewed
from leasehold.errors import InvalidInput
from leasehold.wire import shapes as wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context


def _permitted(context: Context) -> dict[str, str]:
    """Return the admin's name and reason. Refuses agents."""
    reason = context.values["reason"]
    if not reason:
        raise InvalidInput("reason", "is missing: say why with --reason '…'; it is kept in the history")
    refuse_agents(context, context.verb, context.verb)
    return {"by": context.values["by"] or context.holder, "reason": reason}


def refuse_agents(context: Context, verb: str, what: str) -> None:
    """Refuse what is for people to agents, unless the user's own configuration (`verb`) or a server's key allows it."""
    from leasehold.locks.connect import is_by_role  # noqa: PLC0415

    is_agent = isinstance(context.identity, CommandIdentity) and context.identity.is_agent
    if is_agent and verb not in context.choice.agents_may and not is_by_role(context.choice.url):
        why = "is for people, and an agent or a CI job runs this command; ask the person you work for"
        raise CommandRefused(Refused("not_allowed", "", f"{what} {why}"))


def force_release(context: Context) -> int:
    """End another holder's lease."""
    target = context.values["target"]
    outcome: Released | Refused = context.locks.force_release(target, **_permitted(context))
    if isinstance(outcome, Released) and not outcome.released:
        outcome = Refused("not_found", "", f"nobody holds {target}")
    told = "its holder learns it within a second, or with its next call"
    return context.end(outcome, f"Released {shown(target)} by force; {told}")


def steal(context: Context) -> int:
    """Take over a resource that another holder has."""
    values, why = context.values, _permitted(context)
    outcome = context.locks.steal(values["resources"], ttl=context.ttl, name=values["name"], **why)
    return keep_and_tell(context, outcome, "Taken over:") if isinstance(outcome, Granted) else context.end(outcome, "")


def clear(context: Context) -> int:
    """Reopen a resource that was closed after an unclean end."""
    name = context.values["resource"]
    outcome: Cleared | Refused = context.locks.clear(name, **_permitted(context))
    if isinstance(outcome, Cleared) and not outcome.cleared:
        outcome = Refused("not_found", "", f"{name} is not closed")
    opened = outcome.resources if isinstance(outcome, Cleared) else (name,)
    return context.end(outcome, f"{shown(' '.join(opened))} {'is' if len(opened) == 1 else 'are'} open again")


def extend(context: Context) -> int:
    """Give the holder of a lease more time."""
    lease = context.values["lease"]
    outcome = context.locks.extend(lease, ttl=context.ttl, **_permitted(context))
    if not isinstance(outcome, Renewed):
        return context.end(outcome, "")
    until = durations.format(outcome.lease.ttl_us)
    return context.end(outcome, f"Extended {shown(' '.join(outcome.lease.resources))}: {until} from now")


def note(context: Context) -> int:
    """Leave a note on a resource, or remove it."""
    name, text = context.values["resource"], context.values["text"]
    outcome = context.locks.note(name, text, by=context.values["by"] or context.holder)
    return context.end(outcome, f"{'Noted on' if text else 'Removed the note on'} {shown(name)}")


def collect(context: Context) -> int:
    """Remove expired records, old events, and tokens that were not used for long."""
    outcome = accepted(context.locks.gc())
    tokens = state.tidy()
    data: dict[str, object] = {"swept": outcome.swept, "forgotten": outcome.forgotten, "tokens": tokens}
    data |= {"not_removed": [wire.blocker(each) for each in outcome.kept]}
    text = f"Swept {outcome.swept} expired records; forgot {outcome.forgotten} old events and {tokens} old token files"
    return context.end(outcome, "\n".join([text, *not_removed(outcome.kept, context)]), data)


def pool(context: Context) -> int:
    """Declare the members of a pool, forget them, or print those that are declared."""
    values = context.values
    given: list[str] | None = values["members"] or None
    if values["forget"]:
        if given is not None:
            raise InvalidInput("forget", "does not go with members: leave one of them out")
        given = []
    name = values["pool"]
    outcome = context.locks.declare_pool(
        name if "://" in name else f"pool://{name}", given, by=values["by"] or context.holder
    )
    text = "\n".join(map(shown, outcome.members)) if isinstance(outcome, PoolDeclared) else ""
    return context.end(outcome, text or "No members are declared.")

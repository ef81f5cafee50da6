"""Texts for locks over git: how long this machine has watched a lease, when it may take it over, how to go quicker."""

from __future__ import annotations

from leasehold.cli.output import clock
from leasehold.domain.names import shown
from leasehold.wire.sentences import SKEW, is_quicker_by_the_wall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasehold.cli.context import Context
    from leasehold.domain.leases import Blocker
    from leasehold.domain.outcomes import Held, TimedOut

PAGE = "docs/explanation/git-clocks.md"


def watch_lines(it: Blocker) -> list[str]:
    """Return the lines of a refusal about how this machine counts the lease."""
    if it.watched_us is None:
        return []
    since = clock(it.watched_us, it.as_of_us)
    lines = [f"  {'watched':<12} since {since} from here; you may take it over at the time above"]
    if it.recorded_us is not None and is_quicker_by_the_wall(it):
        verb = "expired" if it.recorded_us <= it.as_of_us else "expires"
        lines.append(f"  {'':<12} by its holder's clock it {verb} {clock(it.recorded_us, it.as_of_us)}")
    return lines


def quicker(outcome: Held | TimedOut, context: Context) -> str:
    """Return the way to go quicker, with its command on a line of its own; empty if there is none."""
    found = [each for each in outcome.blockers if is_quicker_by_the_wall(each)]
    if not found:
        return ""
    what = f"To go quicker, if the clocks here and there differ by less than {SKEW} ({PAGE})"
    if "max_skew" not in context.values:
        return f"\n{what}:\n  export LEASEHOLD_MAX_SKEW={SKEW}"
    names = context.values.get("resources") or outcome.resources
    more = f" --max-skew {SKEW}{' -- …' if context.verb == 'run' else ''}"
    return f"\n{what}:\n  {context.suggest(context.verb, *names, more=more)}"


def not_removed(kept: Iterable[Blocker], context: Context) -> list[str]:
    """Return the lines about leases that a clean-up kept, and why."""
    lines = [
        f"  {shown(it.resource)} of {shown(it.holder)}: watched from here since {clock(it.watched_us, it.as_of_us)}, "
        f"so not before {clock(it.until_us, it.as_of_us)}"
        for it in kept
        if it.watched_us is not None
    ]
    if not lines:
        return []
    return [
        "Not removed, since a lease has expired only once this machine has seen it unchanged for its TTL:",
        *lines,
        f"To go by the clocks of their holders, if they differ by less than {SKEW} ({PAGE}):",
        f"  {context.suggest(context.verb, more=f' --max-skew {SKEW}')}",
    ]

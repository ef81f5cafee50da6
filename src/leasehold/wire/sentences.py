"""Refusals in one sentence that says what to do next. It decides nothing."""

from __future__ import annotations

from leasehold.domain import durations
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Deadlock, Held, Lost, Refused, TimedOut
from leasehold.domain.timestamps import FOREVER, SECOND
from leasehold.wire.shapes import rfc3339

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from leasehold.domain.leases import Blocker

SKEW: Final = "30s"
"""The `max_skew` that messages propose: clocks kept by NTP differ by far less."""
FOR_PEOPLE: Final = "force-release is for people: ask the person you work for"
"""The refusal of that tool to an agent for which neither a key nor the user's own configuration allows it."""

KEPT_ALIVE: Final = "renewed while its session lives"
"""The end of a lease that has a session: each heartbeat of the session moves the time at which it expires."""

_SHARED: Final = {"shared": "as a shared lease", "slots": "as one of its slots"}


def sentence(outcome: Held | TimedOut | Deadlock | Lost | Refused) -> str:
    """Return a refusal as one sentence that says what to do next."""
    if isinstance(outcome, Held) and is_yours(outcome):
        return on_own_leases(outcome.resources, outcome.blockers)
    if isinstance(outcome, Held):
        return f"{_what(outcome)} is {_by(outcome)}; try again later, or wait for it{_watched(outcome)}"
    if isinstance(outcome, TimedOut):
        return f"{_what(outcome)} is still {_by(outcome)}; the wait is over{_watched(outcome)}"
    if isinstance(outcome, Deadlock):
        path = " → ".join((*outcome.cycle, outcome.cycle[0]))
        return f"possible deadlock: {path}; release what you hold and try again"
    if isinstance(outcome, Lost):
        return f"the lease is gone ({outcome.reason}); stop working on it, or acquire it anew"
    return f"{outcome.field}: {outcome.message}" if outcome.field else outcome.message


def told_lost(name: str, reason: str) -> str:
    """Return the message for an agent that has lost a lease."""
    return shown(f"LOST: {name} is no longer yours ({reason}). Stop working on it now: another holder may have it.")


def is_yours(outcome: Held | TimedOut) -> bool:
    """Return True if only leases that the caller has proved to hold stand in the way."""
    return bool(outcome.blockers) and all(each.yours and each.state == "held" for each in outcome.blockers)


def on_own_leases(resources: Sequence[str], own: Sequence[Blocker]) -> str:
    """Return what to do if leases of the caller's own block its request: go on under them only if they suffice."""
    names, what = " + ".join(dict.fromkeys(each.resource for each in own)), " + ".join(resources)
    yours = f"{what} is yours since {(rfc3339(own[0].since_us) or '')[:19]}Z{'' if names == what else f', as {names}'}"
    less = allows_less(own)
    if less:
        return f"{yours}, but only {less}: release that before you ask for more"
    if names == what:
        return f"{yours}; go on under it; reentrant extends it"
    return f"{yours}; go on under that if it covers what you need, or release it first"


def allows_less(own: Sequence[Blocker]) -> str:
    """Return how the caller shares what blocks its request; empty if all of it is exclusive."""
    return next((_SHARED[each.mode] for each in own if each.mode in _SHARED), "")


def _what(outcome: Held | TimedOut) -> str:
    return " + ".join(outcome.resources)


def _watched(outcome: Held | TimedOut) -> str:
    """Say, over git, since when the blocking lease was watched, when it may be taken over, and how to do so sooner."""
    first = outcome.blockers[0] if outcome.blockers else None
    if first is None or first.watched_us is None or first.until_us >= FOREVER:
        return ""
    told = f". Watched from here since {rfc3339(first.watched_us)}; may be taken over at {rfc3339(first.until_us)}"
    if not is_quicker_by_the_wall(first):
        return told
    page = "docs/explanation/git-clocks.md"
    return f"{told}, or {SKEW} after it expires by its holder's clock with max_skew={SKEW} ({page})"


def is_quicker_by_the_wall(it: Blocker) -> bool:
    """Return True if an observer that trusts wall clocks may take over this lease sooner."""
    return it.recorded_us is not None and it.recorded_us + durations.parse(SKEW) < it.until_us


def _by(outcome: Held | TimedOut) -> str:
    if not outcome.blockers:
        return "held"
    first = outcome.blockers[0]
    work = f" ({first.name})" if first.name else ""
    if first.state == "quarantined":
        return f"closed after {first.holder}{work} ended uncleanly, until a person has opened it again"
    state = {"held": "held by", "waiting": "wanted before you by", "grace": "closed for a while after"}[first.state]
    alike = {(each.holder, each.lease) for each in outcome.blockers if each.state == first.state}
    more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""  # a waiter ahead holds nothing
    return f"{state} {first.holder}{work}{more}, {_left(first)}"


def _left(it: Blocker) -> str:
    """Say how long it is in the way."""
    if it.is_kept_alive:
        return KEPT_ALIVE
    left = max(0, it.until_us - it.as_of_us)
    exact = 1_000 if left < 10 * SECOND else SECOND  # rounded up: the text calls it the most that is left
    return f"for another {durations.format(-(-left // exact) * exact)} at most"

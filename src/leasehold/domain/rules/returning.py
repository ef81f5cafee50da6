"""Deadlock checks for waits that did not count as alive for a while, and do again. Pure.

A waiter at a silent engine blocks no request, and the search for cycles ignores it. So if such an engine comes back, or
its callers go on waiting at another one, their waits are checked as if they began now.
"""

from __future__ import annotations

from leasehold.domain import keys
from leasehold.domain.entries import PATTERN_MODES, Ref
from leasehold.domain.outcomes import Deadlock, Done
from leasehold.domain.records import resources_of
from leasehold.domain.rules.conflicts import modes_of
from leasehold.domain.rules.ending import REQUEST
from leasehold.domain.rules.granting import find_waiter, leave, settle
from leasehold.domain.rules.waitgraph import cycle_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.domain.commands import Reconsider
    from leasehold.domain.entries import LeaseRequest, Waiter
    from leasehold.domain.outcomes import Outcome
    from leasehold.domain.rules import Draft


def reconsider(draft: Draft, command: Reconsider) -> Outcome:
    """Remove those of these waits that are in a cycle, after their engine was silent; events report them."""
    draft.require([keys.home(id_) for id_ in command.waiters])
    modes: dict[str, set[str]] = {}
    for id_ in command.waiters:
        waiter = find_waiter(draft, id_)
        if waiter is None or waiter.ask is None or waiter.engine != draft.engine or waiter.deadline <= draft.now:
            continue  # at another engine by now, or over: its engine notices
        if _may_be_waited_for(draft, waiter, waiter.ask, modes):
            give_way(draft, waiter, waiter.ask)
    return Done()


def give_way(draft: Draft, waiter: Waiter, ask: LeaseRequest) -> Deadlock | None:
    """Leave the queue if this wait is part of a cycle. A retry with its request_id is a new request."""
    cycle = cycle_of(draft, waiter, ask)
    if cycle is None:
        return None
    leave(draft, waiter, ask)
    if ask.request is not None:
        draft.discard(ask.request, REQUEST)
    draft.tell("deadlock", ask, cycle=list(cycle), waiter=waiter.id)
    settle(draft)
    return Deadlock(resources_of(ask), cycle)


def _may_be_waited_for(draft: Draft, waiter: Waiter, ask: LeaseRequest, modes: dict[str, set[str]]) -> bool:
    """Return True if a search could find a cycle: thousands may be in one queue, and each needs a search.

    An actor with nothing but its place in one queue is only waited for by those behind it. If all of them want the
    same, they wait for everybody that it waits for: a cycle through it is one without it, too, and had its victim.
    """
    refs = sum(isinstance(note, Ref) for note in draft.record(waiter.actor).notes.values())
    if refs > 1 or len(ask.options) > 1 or len(ask.options[0].resources) > 1:
        return True
    for node, mode in modes_of(ask).items():
        if node not in modes:
            modes[node] = {each.mode for each in draft.record(node).waiters}
        if modes[node] - {mode} or mode in PATTERN_MODES:
            return True
    return False

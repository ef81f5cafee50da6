"""The details of a refusal: the obstacles, their work and times, and the length of the queue. Pure."""

from __future__ import annotations

from leasehold.domain import names
from leasehold.domain.entries import MODE_NAMES, OWN_MODES
from leasehold.domain.keys import home
from leasehold.domain.leases import Blocker, Queue
from leasehold.domain.outcomes import Held, Queued
from leasehold.domain.records import place_in, resources_of
from leasehold.domain.rules.conflicts import concerns, holds_in_the_way, load, modes_of, waiters_in_the_way
from leasehold.domain.rules.ending import terms
from leasehold.domain.rules.granting import waiting_for
from leasehold.domain.rules.owning import is_own
from leasehold.domain.timestamps import FOREVER, SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.domain.entries import Hold, LeaseRequest, Waiter
    from leasehold.domain.rules import Draft

BLOCKERS_TOLD = 8
"""A refusal names at most this many."""
RETRY_AT_MOST = 30 * SECOND
"""A lease may be released long before it expires, so no refusal proposes a longer pause than this."""


def held(draft: Draft, ask: LeaseRequest, order: tuple[int, ...], actor: str = "", shown: tuple[str, ...] = ()) -> Held:
    """Return the refusal of a request that is not granted now. `actor` and `shown` prove what is the caller's."""
    blockers = blockers_of(draft, ask, order, actor, shown)
    ends = (each.until_us for each in blockers if each.state != "waiting" and not each.is_kept_alive)
    first_end = min(ends, default=draft.now + RETRY_AT_MOST)
    retry_after = max(0, min(first_end - draft.now, RETRY_AT_MOST))
    return Held(resources_of(ask), blockers, queue_at(draft, ask, order), retry_after)


def blockers_of(
    draft: Draft, ask: LeaseRequest, order: tuple[int, ...], actor: str, shown: tuple[str, ...]
) -> tuple[Blocker, ...]:
    """Return the obstacles to any option, each lease and waiter once, the first few of them."""
    told: dict[str, Blocker] = {}
    for option in ask.options:
        for claim in option.claims:
            for hold in holds_in_the_way(draft, claim.node, claim.mode, ask.slots, option.resources):
                if hold.id not in told:
                    told[hold.id] = by_hold(draft, hold, is_own(draft, hold, ask, actor, shown), option.resources)
                if len(told) >= BLOCKERS_TOLD:
                    return tuple(told.values())
    for option in ask.options:
        for claim in option.claims:
            for waiter in waiters_in_the_way(
                draft, claim.node, claim.mode, ask.slots, option.resources, order, BLOCKERS_TOLD
            ):
                if waiter.id not in told:
                    yours = ask.session is not None and waiter.actor == actor
                    told[waiter.id] = _by_waiter(draft, waiter, yours, option.resources)
                if len(told) >= BLOCKERS_TOLD:
                    return tuple(told.values())
    return tuple(told.values())


def by_hold(draft: Draft, hold: Hold, yours: bool = False, asked: tuple[str, ...] = ()) -> Blocker:
    """Return a lease that is in the way, or what is left of it."""
    ask = terms(draft, hold)
    state = "held" if not hold.closed else "quarantined" if hold.expires_at == FOREVER else "grace"
    return Blocker(
        _overlapping(ask, asked),
        hold.holder,
        state,
        MODE_NAMES[ask.mode],
        ask.name,
        ask.reason,
        hold.acquired_at,
        hold.expires_at,
        hold.fence,
        hold.id,
        draft.now,
        yours,
        session=ask.session,
    )


def _overlapping(ask: LeaseRequest, asked: tuple[str, ...]) -> str:
    """Return the first resource of the lease or waiter that overlaps with what was asked for."""
    own = ask.options[0].resources
    if len(own) > 1:
        for resource in own:
            for name in asked:
                if names.lies_in(name, resource) or names.lies_in(resource, name) or names.overlaps(name, resource):
                    return resource
    return own[0]


def _by_waiter(draft: Draft, waiter: Waiter, yours: bool, asked: tuple[str, ...]) -> Blocker:
    """Return a waiter that is ahead as a blocker."""
    draft.require([home(waiter.id)])
    ask = waiting_for(draft, waiter)
    return Blocker(
        _overlapping(ask, asked),
        waiter.holder,
        "waiting",
        MODE_NAMES[ask.mode],
        ask.name,
        ask.reason,
        waiter.since,
        waiter.deadline,
        0,
        waiter.id,
        draft.now,
        yours,
        session=ask.session,
    )


def queued(draft: Draft, waiter: Waiter, ask: LeaseRequest) -> Queued:
    """Return the answer to a request that waits, with its place in the queue."""
    return Queued(waiter.id, queue_at(draft, ask, waiter.order))


def queue_at(draft: Draft, ask: LeaseRequest, order: tuple[int, ...]) -> Queue:
    """Return the number of waiters for what this request wants, or what overlaps with it, and its place among them."""
    wanted = tuple([name for option in ask.options for name in option.resources])
    found = [who_wait(draft, node, mode, wanted) for node, mode in modes_of(ask).items()]
    queues = [queue for queue in found if queue]
    if len(queues) <= 1:  # nearly always
        queue = queues[0] if queues else ()
        place = place_in(queue, order)
        is_in = place < len(queue) and queue[place].order == order
        return Queue(len(queue) if is_in else len(queue) + 1, place + 1)
    orders = {waiter.order for queue in queues for waiter in queue} | {order}
    return Queue(len(orders), sum(1 for other in orders if other < order) + 1)


def who_wait(draft: Draft, node: str, mode: str, wanted: tuple[str, ...]) -> tuple[Waiter, ...]:
    """Return the waiters at a node wanted in this mode: for it, for what is above or below, but not for a sibling."""
    waiters = draft.record(node).waiters
    if mode in OWN_MODES:
        return waiters
    load(draft, mode, waiters)
    return tuple([each for each in waiters if concerns(draft, mode, wanted, each)])

"""What stands in the way of a request, on one node and on all of them. Pure."""

from __future__ import annotations

from leasehold.domain.entries import EXCLUSIVE, INTENT_EXCLUSIVE, INTENT_SHARED, SHARED, SLOTS, Presence, Ref
from leasehold.domain.leases import Queue
from leasehold.domain.records import place_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from leasehold.domain.entries import Alternative, Hold, LeaseRequest, Waiter
    from leasehold.domain.records import Draft

_COMPATIBLE: Final = frozenset(
    (a, b)
    for a, others in {
        SHARED: (SHARED, INTENT_SHARED),
        INTENT_SHARED: (SHARED, INTENT_SHARED, INTENT_EXCLUSIVE),
        INTENT_EXCLUSIVE: (INTENT_SHARED, INTENT_EXCLUSIVE),
    }.items()
    for b in others
)
OWN_MODES: Final = (EXCLUSIVE, SHARED, SLOTS)


def compatible(a: str, b: str) -> bool:
    """Whether two modes can be on one node at the same time (slots are counted, not compared)."""
    return (a, b) in _COMPATIBLE


def is_alive(draft: Draft, waiter: Waiter) -> bool:
    """Whether this waiter still wants to be served: in time, and its engine lives."""
    if waiter.deadline <= draft.now:
        return False
    if waiter.engine == draft.engine:
        return True
    presence = draft.record(waiter.engine).notes.get(PRESENCE)
    return isinstance(presence, Presence) and presence.until > draft.now


PRESENCE: Final = "presence"
"""Id of the one entry in an engine's record."""


def holds_in_the_way(draft: Draft, node: str, mode: str, slots: int) -> list[Hold]:
    """Holds on this node that are live (or closed) and incompatible; for slots, all takers once there is no room."""
    now = draft.now
    rivals = [hold for hold in draft.record(node).holds.values() if hold.expires_at > now]
    if not rivals:
        return rivals
    if mode != SLOTS:
        return [hold for hold in rivals if (mode, hold.mode) not in _COMPATIBLE]
    others = [hold for hold in rivals if hold.mode != SLOTS or hold.slots != slots]
    if others:
        return others
    return rivals if len(rivals) >= slots else []


def waiters_in_the_way(
    draft: Draft, node: str, mode: str, slots: int, order: tuple[int, ...], most: int | None = None
) -> list[Waiter]:
    """Live waiters that are to be served before `order` and that this request must not overtake; at most `most`."""
    record = draft.record(node)
    if not record.waiters:
        return []
    ahead: list[Waiter] = []
    for place in range(place_in(record.waiters, order)):
        waiter = record.waiters[place]
        if (mode, waiter.mode) not in _COMPATIBLE and is_alive(draft, waiter):
            ahead.append(waiter)
            if len(ahead) == most and mode != SLOTS:
                break
    if mode != SLOTS or any(waiter.mode != SLOTS or waiter.slots != slots for waiter in ahead):
        return ahead
    taken = sum(1 for hold in record.holds.values() if hold.expires_at > draft.now)
    return ahead if taken + len(ahead) >= slots else []


def in_the_way(draft: Draft, option: Alternative, slots: int, order: tuple[int, ...]) -> bool:
    """Whether anything at all keeps this option from being granted."""
    if draft.now < draft.opens_at:
        return True
    for claim in option.claims:
        record = draft.record(claim.node)
        if record.holds and holds_in_the_way(draft, claim.node, claim.mode, slots):
            return True
        if record.waiters and waiters_in_the_way(draft, claim.node, claim.mode, slots, order, 1):
            return True
    return False


def nodes_of(ask: LeaseRequest) -> list[str]:
    """Every node that this request needs in any of its options, its home first."""
    if len(ask.options) == 1:
        return [claim.node for claim in ask.options[0].claims]
    return list(dict.fromkeys(claim.node for option in ask.options for claim in option.claims))


def modes_of(ask: LeaseRequest) -> dict[str, str]:
    """How each of those nodes is wanted; what is wanted itself outweighs an intention."""
    modes: dict[str, str] = {}
    for option in ask.options:
        for claim in option.claims:
            if modes.get(claim.node, "I").startswith("I"):
                modes[claim.node] = claim.mode
    return modes


def queue_at(draft: Draft, ask: LeaseRequest, order: tuple[int, ...]) -> Queue:
    """How many want what this request wants, or something that overlaps with it; and its place among them."""
    modes = modes_of(ask)
    queues = [queue for queue in [who_wait(draft, node, mode) for node, mode in modes.items()] if queue]
    if len(queues) <= 1:  # nearly always
        queue = queues[0] if queues else ()
        place = place_in(queue, order)
        is_in = place < len(queue) and queue[place].order == order
        return Queue(len(queue) if is_in else len(queue) + 1, place + 1)
    orders = {waiter.order for queue in queues for waiter in queue} | {order}
    return Queue(len(orders), sum(1 for other in orders if other < order) + 1)


def who_wait(draft: Draft, node: str, mode: str) -> tuple[Waiter, ...]:
    """Who waits at a node that is wanted in this mode: for it, for what is above or below, but not for a sibling."""
    waiters = draft.record(node).waiters
    return waiters if mode in OWN_MODES else tuple([each for each in waiters if each.mode in OWN_MODES])


def may_close_cycle(draft: Draft, actor: str, ask: LeaseRequest, order: tuple[int, ...]) -> bool:
    """Whether anybody could wait for this actor if it queued: otherwise it cannot become part of a cycle.

    It is so if the actor holds something or waits already, or if its place is before that of somebody who waits.
    """
    for note in draft.record(actor).notes.values():
        if isinstance(note, Ref):
            return True
    for node in nodes_of(ask):
        queue = draft.record(node).waiters
        if queue and queue[-1].order > order:
            return True
    return False


def slots_clash(draft: Draft, ask: LeaseRequest) -> int | None:
    """The number of slots under which the resource is held, if this request names another; of choices, if each is."""
    if ask.mode != SLOTS:
        return None
    clashes = [_clash_on(draft, option, ask.slots) for option in ask.options]
    return None if None in clashes else clashes[0]


def _clash_on(draft: Draft, option: Alternative, slots: int) -> int | None:
    for claim in option.claims:
        if claim.mode != SLOTS:
            continue  # something above it is held: that is in the way, whatever the number of slots
        for hold in draft.record(claim.node).holds.values():
            if hold.mode == SLOTS and hold.expires_at > draft.now and hold.slots != slots:
                return hold.slots
    return None

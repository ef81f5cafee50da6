"""Holds and waiters that stand in the way of a request on one node: by their modes and, for patterns, by name.

A pattern's intention lies on the directory of all its matches, with the intentions of everything else below it. Whether
two of them meet there depends on the resources of both, which stand in the homes of their leases and waits. Pure.
"""

from __future__ import annotations

from leasehold.domain import names
from leasehold.domain.entries import (
    INTENT_EXCLUSIVE,
    INTENT_SHARED,
    NAMED_MODES,
    OWN_MODES,
    PATTERN_MODES,
    PATTERN_SHARED,
    POOL,
    SHARED,
    SLOTS,
    Alternative,
    Hold,
    Presence,
)
from leasehold.domain.keys import home
from leasehold.domain.records import place_in, place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

    from leasehold.domain.entries import LeaseRequest, Waiter
    from leasehold.domain.rules import Draft

COMPATIBLE: Final = frozenset(
    (a, b)
    for a, others in {
        SHARED: (SHARED, INTENT_SHARED, PATTERN_SHARED),
        INTENT_SHARED: (SHARED, INTENT_SHARED, INTENT_EXCLUSIVE, PATTERN_SHARED),
        INTENT_EXCLUSIVE: (INTENT_SHARED, INTENT_EXCLUSIVE),
        PATTERN_SHARED: (SHARED, INTENT_SHARED, PATTERN_SHARED),
    }.items()
    for b in others
)
"""Modes that can be on one node at the same time (slots are counted, not compared)."""
_INTENTIONS: Final = (INTENT_EXCLUSIVE, INTENT_SHARED, *PATTERN_MODES)
BY_NAME: Final = frozenset(
    (
        (POOL, POOL),
        *(
            (a, b)
            for a in _INTENTIONS
            for b in _INTENTIONS
            if (a in PATTERN_MODES or b in PATTERN_MODES) and (a, b) not in COMPATIBLE
        ),
    )
)
"""Modes that exclude each other only where the names meet."""
PRESENCE: Final = "presence"
"""Id of the one entry in an engine's record."""


def conflicts(draft: Draft, mode: str, wanted: tuple[str, ...], other: Hold | Waiter) -> bool:
    """Return True if a request for these names, in this mode on a node, excludes a hold or waiter on it."""
    pair = (mode, other.mode)
    if pair in COMPATIBLE:
        return False
    return pair not in BY_NAME or meet_by_name(wanted, resources(draft, other))


def concerns(draft: Draft, mode: str, wanted: tuple[str, ...], other: Hold | Waiter) -> bool:
    """Return True if the names overlap at this node, in whatever modes; siblings below it do not."""
    if mode in OWN_MODES or other.mode in OWN_MODES:
        return True
    is_by_name = mode in NAMED_MODES or other.mode in NAMED_MODES
    return is_by_name and meet_by_name(wanted, resources(draft, other))


def meet_by_name(some: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Return True if one of these (parsed) names meets one of the others, and both are of one pool or one is a pattern.

    A pattern and itself do not count: they meet at its own node.
    """
    if some[0].startswith("pool://"):  # which no other name stands beside
        return names.overlaps(some[0], others[0])
    return any(
        one != other and (names.is_pattern(one) or names.is_pattern(other)) and names.overlaps(one, other)
        for one in some
        if one.startswith("path:")
        for other in others
        if other.startswith("path:")
    )


def load(draft: Draft, mode: str, others: Iterable[Hold | Waiter]) -> None:
    """Raise `Missing` for the homes of all of those that are to be compared by name, rather than for one at a time."""
    is_pattern = mode in PATTERN_MODES
    if mode not in OWN_MODES:
        draft.require([home(other.id) for other in others if is_pattern or other.mode in PATTERN_MODES])


def resources(draft: Draft, other: Hold | Waiter) -> tuple[str, ...]:
    """Return every resource that a lease has, or that a waiter wants in any of its options."""
    ask = _ask_of(draft, other)
    return tuple([name for option in ask.options for name in option.resources])


def _ask_of(draft: Draft, other: Hold | Waiter) -> LeaseRequest:
    told: Hold | Waiter = other
    if other.ask is None:
        record = draft.record(home(other.id))
        if isinstance(other, Hold):
            told = record.holds[other.id]
        else:
            place = place_of(record.waiters, other.id)
            told = other if place is None else record.waiters[place]
    if told.ask is None:
        raise AssertionError(f"the home of {other.id} does not tell its resources")
    return told.ask


def modes_of(ask: LeaseRequest) -> dict[str, str]:
    """Return the mode in which each node is wanted: an own mode outweighs a pattern's, and that an intention."""
    modes: dict[str, str] = {}
    for option in ask.options:
        for claim in option.claims:
            known = modes.get(claim.node)
            if known is None or outweighs(claim.mode, known):
                modes[claim.node] = claim.mode
    return modes


def outweighs(mode: str, known: str) -> bool:
    """Return True if this mode on a node says more than the other one of the same request."""
    return known not in OWN_MODES and (mode in OWN_MODES or known not in PATTERN_MODES)


def is_alive(draft: Draft, waiter: Waiter) -> bool:
    """Return True if this waiter can be served: its deadline has not passed and its engine lives."""
    if waiter.deadline <= draft.now:
        return False
    if waiter.engine == draft.engine:
        return True
    presence = draft.record(waiter.engine).notes.get(PRESENCE)
    return isinstance(presence, Presence) and presence.until > draft.now


def holds_in_the_way(draft: Draft, node: str, mode: str, slots: int, names: tuple[str, ...]) -> list[Hold]:
    """Holds on this node that are live (or closed) and incompatible; for slots, all takers once there is no room.

    `names` are all resources that are asked for: patterns are compared by name.
    """
    now = draft.now
    rivals = [hold for hold in draft.record(node).holds.values() if hold.expires_at > now]
    if not rivals:
        return rivals
    if mode == POOL:
        from leasehold.domain.rules import pools  # noqa: PLC0415 (rare)

        return pools.rivals_if_full(rivals, names)
    if mode != SLOTS:
        found = [hold for hold in rivals if (mode, hold.mode) not in COMPATIBLE]
        if found:
            load(draft, mode, found)
        return [hold for hold in found if (mode, hold.mode) not in BY_NAME or conflicts(draft, mode, names, hold)]
    others = [hold for hold in rivals if hold.mode != SLOTS or hold.slots != slots]
    if others:
        return others
    return rivals if len(rivals) >= slots else []


def waiters_in_the_way(
    draft: Draft,
    node: str,
    mode: str,
    slots: int,
    names: tuple[str, ...],
    order: tuple[int, ...],
    most: int | None = None,
) -> list[Waiter]:
    """Live waiters that are to be served before `order` and that this request must not overtake; at most `most`."""
    record = draft.record(node)
    if not record.waiters:
        return []
    ahead: list[Waiter] = []
    before = place_in(record.waiters, order)
    load(draft, mode, record.waiters[:before])
    for place in range(before):
        waiter = record.waiters[place]
        if conflicts(draft, mode, names, waiter) and is_alive(draft, waiter):
            ahead.append(waiter)
            if len(ahead) == most and mode not in (SLOTS, POOL):
                break
    if mode == POOL:
        from leasehold.domain.rules import pools  # noqa: PLC0415 (rare)

        return pools.waiters_if_full(draft, record, ahead, names)
    if mode != SLOTS or any(waiter.mode != SLOTS or waiter.slots != slots for waiter in ahead):
        return ahead
    taken = sum(1 for hold in record.holds.values() if hold.expires_at > draft.now)
    return ahead if taken + len(ahead) >= slots else []


def slots_clash(draft: Draft, ask: LeaseRequest) -> int | None:
    """Return the slots of the present holders if this request names another number; of choices, if all clash."""
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

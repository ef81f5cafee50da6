"""Which holds and waiters on one node exclude each other: by their modes and, where a pattern is among them, by name.

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
    Hold,
)
from leasehold.domain.keys import home
from leasehold.domain.records import place_of

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

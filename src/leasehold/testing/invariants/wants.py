"""Requests and leases as the events report them, and which of them exclude each other. Pure.

The definition of compatibility is the checker's own. A name below another name of the same want adds nothing:
`path:src` and `path:src/a.py` is `path:src`. Two wants meet where their names overlap, and there

- `shared` goes with `shared`;
- `slots` goes with `slots` of the same number on the very same place, as long as there is room (it is counted);
- nothing else goes together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leasehold.domain.names import overlaps
from leasehold.domain.nouns import Noun
from leasehold.testing.invariants.places import place, widest

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from leasehold.domain.events import Event

    Report: TypeAlias = Callable[..., None]
    """`report(kind, message, *events)`"""

SHARED = "S"
SLOTS = "N"


class Violation(Noun):
    """One promise that a history breaks."""

    kind: str
    """clock fence life overlap grace quarantine fifo wait residue"""
    message: str
    events: tuple[Event, ...] = ()
    """The events that together prove it, in order."""


class Malformed(ValueError):
    """This is not a history of Leasehold: an event does not tell what its kind must tell."""


@dataclass(slots=True, eq=False)
class Want:
    """Resources in a mode: wanted by a waiter, or held by a lease."""

    event: Event
    """Where it began: `queued` or `granted`."""
    order: tuple[int, int]
    """(-priority, arrival): smaller is to be served first."""
    hierarchical: frozenset[str]
    names: tuple[str, ...] = field(init=False)
    """Its resources, without those that are below others of them."""
    mode: str = field(init=False)
    slots: int = field(init=False)

    def __post_init__(self) -> None:
        self.names = widest(self.event.resources, self.hierarchical)
        self.mode = text(self.event, "mode")
        self.slots = number(self.event, "slots")

    def shares(self, other: Want) -> bool:
        """Return True if both are takers of the same kind of semaphore."""
        return self.mode == other.mode == SLOTS and self.slots == other.slots

    def clashes(self, other: Want) -> bool:
        """Return True if both cannot be held at once, however many slots are free."""
        if self.mode == other.mode == SHARED:
            return False
        sharing = self.shares(other)
        return any(
            overlaps(mine, theirs, self.hierarchical)
            and not (sharing and place(mine, self.hierarchical) == place(theirs, self.hierarchical))
            for mine in self.names
            for theirs in other.names
        )


def number(event: Event, key: str, default: int | None = None) -> int:
    """Return a number that this kind of event must have, unless there is a default."""
    value = event.detail.get(key, default)
    if not isinstance(value, int):
        raise Malformed(f"event {event.seq} ({event.kind}) does not tell its {key} as a number: {value!r}")
    return value


def text(event: Event, key: str) -> str:
    """Return a text that this kind of event must have."""
    value = event.detail.get(key)
    if not isinstance(value, str):
        raise Malformed(f"event {event.seq} ({event.kind}) does not tell its {key} as text: {value!r}")
    return value


def who(event: Event) -> str:
    """Name the subject of an event in a few words, for messages."""
    return f"{event.holder} ({', '.join(event.resources)}; event {event.seq} at {event.at_us})"

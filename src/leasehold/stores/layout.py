"""Lanes: a store of several servers may be divided into lanes, each a whole store of its own. It does no I/O.

Lane 0 is the control lane, which belongs to no space. The spaces are divided among the others (docs/adr/0045).
"""

from __future__ import annotations

from leasehold.domain.durations import is_digits
from leasehold.domain.nouns import Noun
from leasehold.errors import InvalidInput, StoreUnsuitable

LANES_MOST = 16
LANES_AT_FIRST = 4
"""How many lanes a new store gets if its URL does not say: one for each of a few servers."""
CONTROL = 0
"""The number of the control lane, or of a store that is not divided."""
CLOSED = 0
"""How many lanes a store has while their number is being changed: no process believes that, so none can use it."""


class Layout(Noun):
    """The number of a lane, and how many there are besides the control lane. 1: the store is not divided."""

    lane: int = CONTROL
    lanes: int = 1

    @property
    def is_divided(self) -> bool:
        """True if the spaces of the store are in lanes of their own."""
        return self.lanes > 1


def with_spaces(lanes: int) -> list[int]:
    """Return the numbers of the lanes that have spaces, in a store of so many."""
    return list(range(1, lanes + 1)) if lanes > 1 else [CONTROL]


def lanes_option(text: str | None) -> int | None:
    """Return the value of `lanes=` in a URL; None if it is not there."""
    if text is None:
        return None
    if not is_digits(text) or not 1 <= int(text) <= LANES_MOST:
        raise InvalidInput("url", f"lanes= must be a whole number from 1 to {LANES_MOST}")
    return int(text)


def other_layout(place: str, found: Layout, wanted: Layout) -> StoreUnsuitable:
    """Return an error for a store that is divided in another way than was believed, or named."""
    if found.lanes == CLOSED:
        return StoreUnsuitable(
            f"{place}: the number of its lanes is being changed, and nobody may use it meanwhile. Start this process "
            "again afterwards. Whether the change goes on or was cut off, this tells:\n  leasehold lanes"
        )
    if found.lane != CONTROL and wanted.lane == CONTROL:
        return StoreUnsuitable(
            f"{place} is lane {found.lane} of a store with {_counted(found.lanes)}, not a store of its own. Give the "
            "URL of that store: without the number at the end"
        )
    if found.lane != wanted.lane:
        return StoreUnsuitable(
            f"{place} is not lane {wanted.lane} of this store, although it has its name. Nothing was changed. Restore "
            "the store from a backup"
        )
    return StoreUnsuitable(
        f"{place} has {_counted(found.lanes)}, and this process was to work with {_counted(wanted.lanes)}. Nothing was "
        "changed: two servers that believed in different numbers would grant the same name twice. Give "
        f"lanes={found.lanes} in the URL, or leave it out, and start again. You can change the number:\n"
        f"  leasehold lanes {wanted.lanes}"
    )


def _counted(lanes: int) -> str:
    return "1 lane" if lanes == 1 else f"{lanes} lanes"

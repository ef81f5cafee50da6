"""What changes come to that are not in a store's table yet: what was put and dropped again leaves nothing. Pure."""

from __future__ import annotations

from leasehold.domain.entries import Put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    from leasehold.domain.entries import Drop, Entry, Record

    Place: TypeAlias = tuple[str, str]

_WAITER = "w"
"""Ids of waiters, and no others on a node, begin with this (see ``keys``)."""


class Netting:
    """Changes, one after the other, on top of a table that has none of them."""

    __slots__ = ("changed", "new")

    def __init__(self) -> None:
        self.changed: dict[Place, Entry | None] = {}
        """By record and id, what became of an entry in the end; None: it was dropped."""
        self.new: set[Place] = set()
        """Which entries the table does not have for sure: once they are dropped, there is nothing to say about them."""

    def net(self, changes: Sequence[Put | Drop], before: Mapping[str, Record]) -> None:
        """These come next; as far as they are known, the records were so `before`."""
        changed, new = self.changed, self.new
        for change in changes:
            if isinstance(change, Put):
                key, entry = change
                place = (key, entry.id)
                if place not in changed and is_new(entry.id, before.get(key)):
                    new.add(place)
                changed[place] = entry
            elif change in new:
                new.remove(change)
                del changed[change]
            else:
                changed[change] = None


def is_new(id_: str, record: Record | None) -> bool:
    """Whether an entry of this id was not there, for sure."""
    if record is None or id_ in record.holds or id_ in record.notes:
        return False
    return not record.waiters or id_[:1] != _WAITER

"""Reminders: which records somebody has to look at, and from when on. They may say too much, and never too little.

One reminder is of all records that were written together and are due within the same second. A record that is written
again, with whatever time, is in a reminder of that writing. So an older one can go as soon as none of its records is
due within its second any more.
"""

from __future__ import annotations

import os

from leasehold.model import SECOND
from leasehold.noun import Noun
from leasehold.stores.etcd import messages
from leasehold.stores.quick_json import decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from leasehold.stores.etcd.messages import RangeAnswer
    from leasehold.stores.etcd.rows import KeyNames

SPAN = SECOND


class Reminder(Noun):
    """Some records of which the first was due at this time."""

    name: str
    at: int
    keys: list[str]

    def is_needed(self, marks: Mapping[str, int]) -> bool:
        """Whether it is still true of some record."""
        return any(self.at <= marks[key] < self.at + SPAN for key in self.keys)


class Reminders:
    """Those of the records that are written together."""

    def __init__(self) -> None:
        self._spans: dict[int, list[tuple[int, str]]] = {}

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, at: int, key: str) -> None:
        """This record is due then."""
        self._spans.setdefault(at // SPAN, []).append((at, key))

    def operations(self, names: KeyNames) -> list[bytes]:
        """What writes them."""
        puts = []
        for found in self._spans.values():
            name = names.due(min(found)[0], os.urandom(8).hex())
            puts.append(messages.put(name, encode([key for _, key in found])))
        return puts


def reminders_in(found: RangeAnswer, names: KeyNames) -> Iterable[Reminder]:
    """Those that a range gave. One without a list is of the record that it is named after, as they once were."""
    for name, value in found.pairs:
        keys = decode(value) if value else [names.due_id(name)]
        yield Reminder(name, names.due_time(name), keys)

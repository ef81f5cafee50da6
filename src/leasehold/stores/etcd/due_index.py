"""The index of due records: reminders of which records a sweep must check, and from when.

Reminders may name too many records, never too few.

One reminder covers all records that were written together and are due within the same second. A record that is written
again gets a new reminder. So an older one can go as soon as none of its records is due within its second.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasehold.domain.nouns import Noun
from leasehold.domain.timestamps import SECOND
from leasehold.stores.etcd import messages
from leasehold.stores.quick_json import decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from leasehold.stores.etcd.messages import RangeAnswer
    from leasehold.stores.etcd.rows import KeyNames

SPAN = SECOND


class Reminder(Noun):
    """Records that were due within a second from this time when the reminder was written."""

    name: str
    at: int
    keys: list[str]

    def is_needed(self, marks: Mapping[str, int]) -> bool:
        """True if some record is still due within the reminder's second."""
        return any(self.at <= marks[key] < self.at + SPAN for key in self.keys)


class Reminders:
    """The reminders of records that are written together."""

    def __init__(self) -> None:
        self._spans: dict[int, list[tuple[int, str]]] = {}

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, at: int, key: str) -> None:
        """Add a record that is due at this time."""
        self._spans.setdefault(at // SPAN, []).append((at, key))

    def operations(self, names: KeyNames) -> list[bytes]:
        """Return the operations that write the reminders."""
        puts = []
        for found in self._spans.values():
            name = names.due(min(found)[0], os.urandom(8).hex())
            puts.append(messages.put(name, encode([key for _, key in found])))
        return puts


def reminders_in(found: RangeAnswer, names: KeyNames) -> Iterable[Reminder]:
    """Return the reminders in the answer to a range request."""
    return [Reminder(name, names.number_in(name), decode(value)) for name, value in found.pairs]

"""From records and events to etcd's keys and values, and back. Pure."""

from __future__ import annotations

import zlib

from leasehold.errors import StoreUnsuitable
from leasehold.model import EMPTY
from leasehold.noun import Noun
from leasehold.records import build
from leasehold.stores.codec import pack, unpack, unpack_event
from leasehold.stores.quick_json import decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.model import Event, Record
    from leasehold.stores.etcd.messages import RangeAnswer

_WIDE = 16
"""Digits of a number in a key, so that keys are in the order of their numbers."""
_SHORT = 1_000
"""What is not longer is kept as it is. A longer one is mostly the same words again and again: compressed, it
costs etcd a third of the time."""
_COMPRESSED = b"x\x01"
"""What the compressed begins with, and no JSON."""


class Meta(Noun):
    """What every change bumps: whoever knows this key's revision knows that nothing has changed since."""

    fence: int = 1
    seq: int = 0
    now: int = 0
    cluster: str = ""
    """Which cluster wrote it last: after a restore it is another one."""
    at: int = 0
    """The number of the last entry of the journal."""
    folded: int = 0
    """That of the last one that is wholly in the records."""
    part: int = 0
    """So many records of the next one are in the records, too."""
    by: str = ""
    """Who wrote it."""
    schema: int = 2
    """Which layout the entries have."""


def value_of(data: bytes) -> bytes:
    """As it is kept."""
    return data if len(data) <= _SHORT else zlib.compress(data, 1)


def data_of(value: bytes) -> bytes:
    """As it was."""
    return zlib.decompress(value) if value.startswith(_COMPRESSED) else value


def meta_data(meta: Meta) -> bytes:
    """As it is kept."""
    return encode(meta._asdict())


def meta_of(data: bytes) -> Meta:
    """As it was kept; of nothing, as it begins. Raises `StoreUnsuitable` for another layout than ours."""
    if not data:
        return Meta()
    meta = Meta(**{"schema": 1, **decode(data)})
    if meta.schema != Meta().schema:
        raise StoreUnsuitable(
            f"what is kept in etcd has schema {meta.schema}, and this Leasehold needs schema {Meta().schema}. Use the "
            "same version everywhere. What another version kept cannot be carried over: once nothing is held there, "
            "delete its keys, or give another /prefix in the URL"
        )
    return meta


def record_data(record: Record) -> bytes:
    """Every entry of a record."""
    return encode([pack(entry) for entry in (*record.holds.values(), *record.waiters, *record.notes.values())])


def record_of(data: bytes) -> Record:
    """The record again; of nothing, none."""
    return build(unpack(packed) for packed in decode(data)) if data else EMPTY


def events_data(events: Sequence[Event]) -> bytes:
    """The events of one commit."""
    return encode(events)


def events_of(data: bytes, last: int) -> list[Event]:
    """They again, the newest first; that one has this number."""
    return [unpack_event(fields, last - age) for age, fields in enumerate(reversed(decode(data)))]


class KeyNames:
    """What is kept where, below one prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.meta = f"{prefix}meta"
        self.first = f"{prefix}first"
        self._records = f"{prefix}r/"
        self._dues = f"{prefix}d/"
        self._events = f"{prefix}h/"
        self.journal_start = f"{prefix}j/"
        self.journal_end = after(self.journal_start)
        self._parts = f"{prefix}p/"

    def record(self, key: str) -> str:
        """A record."""
        return self._records + key

    def key(self, name: str) -> str:
        """The key of the record of this name."""
        return name[len(self._records) :]

    def due(self, at: int, id_: str) -> str:
        """A reminder of some records at a time."""
        return f"{self._dues}{at:0{_WIDE}x}/{id_}"

    def due_id(self, name: str) -> str:
        """Which of the reminders of its time it is."""
        return name[len(self._dues) + _WIDE + 1 :]

    def dues(self, until: int) -> tuple[str, str]:
        """The range of reminders up to a time."""
        return self._dues, f"{self._dues}{until + 1:0{_WIDE}x}"

    def events(self, last: int) -> str:
        """The events of a commit, by the number of the last of them."""
        return f"{self._events}{last:0{_WIDE}x}"

    def all_events(self) -> tuple[str, str]:
        """The range of all events."""
        return self._events, after(self._events)

    def last_event(self, name: str) -> int:
        """The number of the last of the events of this name."""
        return int(name[len(self._events) :], 16)

    def due_time(self, name: str) -> int:
        """The time of a reminder."""
        return int(name[len(self._dues) : len(self._dues) + _WIDE], 16)

    def journal(self, number: int) -> str:
        """An entry of the journal."""
        return f"{self.journal_start}{number:0{_WIDE}x}"

    def journal_number(self, name: str) -> int:
        """The number of the entry of this name."""
        return int(name[len(self.journal_start) :], 16)

    def parts(self, id_: str) -> str:
        """The parts of a value that is too large for one; they begin so."""
        return f"{self._parts}{id_}/"

    def parts_id(self, name: str) -> str:
        """Of which value this is a part."""
        return name[len(self._parts) :].partition("/")[0]

    def all_parts(self, until: int) -> tuple[str, str]:
        """The range of parts that were written up to a time."""
        return self._parts, f"{self._parts}{until + 1:0{_WIDE}x}"

    @staticmethod
    def new_parts(at: int, unique: str) -> str:
        """A value to be written in parts now."""
        return f"{at:0{_WIDE}x}-{unique}"


def after(prefix: str) -> str:
    """The end of the range of everything that begins so."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def each(found: RangeAnswer) -> list[tuple[str, bytes]]:
    """What a range gave: names, and what was kept there."""
    return [(name, data_of(value)) for name, value in found.pairs]


def only(found: RangeAnswer) -> bytes:
    """What a range of one key gave; empty: there is no such key."""
    return data_of(found.pairs[0][1]) if found.pairs else b""

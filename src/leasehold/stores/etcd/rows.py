"""Encode records and events as etcd's keys and values, and decode them.

A value too large for one request to etcd is stored in parts, with a reference in place of the value. The parts are
written first; one transaction then writes the reference and a mark, which names the referring key. Parts without a mark
belong to a commit that has not happened yet, or never will. Parts whose key no longer refers to them are garbage.
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING

from leasehold.domain.entries import EMPTY
from leasehold.domain.nouns import Noun
from leasehold.domain.records import build, unpack, unpack_event
from leasehold.domain.timestamps import SECOND
from leasehold.errors import Conflict, StoreUnsuitable
from leasehold.stores.etcd import messages
from leasehold.stores.layout import CONTROL, Layout
from leasehold.stores.quick_json import decode, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.domain.entries import Record
    from leasehold.domain.events import Event
    from leasehold.steps import Steps
    from leasehold.stores.etcd import EtcdStore
    from leasehold.stores.etcd.messages import RangeAnswer

_WIDE = 16
"""Digits of a number in a key, so that keys sort by number."""
_SHORT = 1_000
"""Bytes up to which a value is stored uncompressed. Longer ones repeat the same words: compressed, they cost etcd a
third of the time."""
_COMPRESSED = b"x\x01"
"""The first bytes of a compressed value; no JSON begins with them."""
ROOM = 400_000
"""Bytes of a part; a longer value is split. A request to etcd may have 1.5 MiB, and three values must fit."""
PATIENCE = 3_600 * SECOND
"""Microseconds for which unreferenced parts are kept: a commit may be about to refer to them."""
AT_ONCE = 50
_REFERENCE = b"@"
SCHEMA = 3
"""Number of the layout of keys and values: a store refuses any other."""


class Meta(Noun):
    """The value that every commit changes and compares: if it is unchanged, nothing has changed."""

    fence: int = 1
    seq: int = 0
    now: int = 0
    cluster: str = ""
    """Id of the cluster that wrote it last; a restored cluster has another one."""
    at: int = 0
    """Number of the journal's last entry."""
    folded: int = 0
    """Number of the last entry that is in the records completely."""
    part: int = 0
    """Number of changed records of the next entry that are in the records, too."""
    by: str = ""
    """Id of the store that wrote it."""
    schema: int = SCHEMA
    """Number of the layout of keys and values."""
    lane: int = CONTROL
    """Number of this lane."""
    lanes: int = 1
    """How many lanes the store has besides the control lane; 1: it is not divided."""

    @property
    def layout(self) -> Layout:
        """The layout that it records."""
        return Layout(self.lane, self.lanes)


def data_of(value: bytes) -> bytes:
    """Decode a stored value."""
    return zlib.decompress(value) if value.startswith(_COMPRESSED) else value


def meta_data(meta: Meta) -> bytes:
    """Encode `meta`."""
    return encode(dict(zip(Meta._fields, meta, strict=True)))


def meta_of(data: bytes) -> Meta:
    """Decode `meta`; an absent one has the initial values. Raises `StoreUnsuitable` for another layout than ours."""
    if not data:
        return Meta()
    fields = decode(data)
    schema = fields.get("schema", 1)
    if schema != SCHEMA:
        raise StoreUnsuitable(
            f"the locks in etcd have schema {schema}, and this version of Leasehold needs schema {SCHEMA}. Nothing was "
            "changed. Use the same version everywhere, or give another /prefix in the URL. Locks of another version "
            "cannot be carried over: to start anew, once nothing is held there, delete all keys below the prefix:\n"
            "  etcdctl del --prefix leasehold/"
        )
    return Meta(**fields)


def record_of(data: bytes) -> Record:
    """Decode a record; an absent one is `EMPTY`."""
    return build(unpack(packed) for packed in decode(data)) if data else EMPTY


def events_data(events: Sequence[Event]) -> bytes:
    """Encode the events of one commit."""
    return encode(events)


def events_of(data: bytes, last: int) -> list[Event]:
    """Decode the events of one commit, newest first; the newest has this number."""
    return [unpack_event(fields, last - age) for age, fields in enumerate(reversed(decode(data)))]


class KeyNames:
    """The names of etcd's keys below one prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.meta = f"{prefix}meta"
        self.first = f"{prefix}first"
        self.change = f"{prefix}change"
        self._records = f"{prefix}r/"
        self._dues = f"{prefix}d/"
        self._events = f"{prefix}h/"
        self.journal_start = f"{prefix}j/"
        self.journal_end = after(self.journal_start)
        self._parts = f"{prefix}p/"

    def record(self, key: str) -> str:
        """Return the name of a record."""
        return self._records + key

    def key(self, name: str) -> str:
        """Return the key of the record with this name."""
        return name[len(self._records) :]

    def due(self, at: int, id_: str) -> str:
        """Return the name of a reminder at this time."""
        return f"{self._dues}{at:0{_WIDE}x}/{id_}"

    def dues(self, until: int) -> tuple[str, str]:
        """Return the range of reminders up to a time."""
        return self._dues, f"{self._dues}{until + 1:0{_WIDE}x}"

    def events(self, last: int) -> str:
        """Return the name of a commit's events, by the number of its last event."""
        return f"{self._events}{last:0{_WIDE}x}"

    def all_events(self) -> tuple[str, str]:
        """Return the range of all events."""
        return self._events, after(self._events)

    def journal(self, number: int) -> str:
        """Return the name of a journal entry."""
        return f"{self.journal_start}{number:0{_WIDE}x}"

    def number_in(self, name: str) -> int:
        """Return the number in the name of a journal entry or of events (that of the last), or a reminder's time."""
        start = len(self.journal_start)  # the prefixes of all three are equally long
        return int(name[start : start + _WIDE], 16)

    def parts(self, id_: str) -> str:
        """Return the prefix of the parts with this id."""
        return f"{self._parts}{id_}/"

    def parts_id(self, name: str) -> str:
        """Return the id of the parts that this name belongs to."""
        return name[len(self._parts) :].partition("/")[0]

    def all_parts(self, until: int) -> tuple[str, str]:
        """Return the range of parts that were written up to a time."""
        return self._parts, f"{self._parts}{until + 1:0{_WIDE}x}"

    @staticmethod
    def new_parts(at: int, unique: str) -> str:
        """Return an id for parts that are written at this time."""
        return f"{at:0{_WIDE}x}-{unique}"


def after(prefix: str) -> str:
    """Return the end of the range of all names with this prefix."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def each(found: RangeAnswer) -> list[tuple[str, bytes]]:
    """Return the names and decoded values in the answer to a range request."""
    return [(name, data_of(value)) for name, value in found.pairs]


def only(found: RangeAnswer) -> bytes:
    """Return the decoded value in the answer to a request for one key; empty if the key does not exist."""
    return data_of(found.pairs[0][1]) if found.pairs else b""


# ---------------------------------------------------------------------------------------- values in parts


def is_reference(data: bytes) -> bool:
    """Return True if this is a reference to parts."""
    return data.startswith(_REFERENCE)


def id_in(reference: bytes) -> str:
    """Return the id of the parts that a reference names."""
    return reference[len(_REFERENCE) :].partition(b":")[0].decode()


class LargeValues:
    """The large values of one commit, and the compares and marks that its transaction must contain."""

    def __init__(self, store: EtcdStore, now: int) -> None:
        self._store = store
        self._now = now
        self._parts: list[bytes] = []
        """Operations that write parts; each needs a transaction of its own."""
        self.compares: list[bytes] = []
        self.marks: list[bytes] = []

    def value(self, owner: str, data: bytes) -> bytes:
        """Return what to write at this key: the value, or a reference to parts that `writing` will write."""
        value = data if len(data) <= _SHORT else zlib.compress(data, 1)
        if len(value) <= ROOM:
            return value
        names = self._store.names
        id_ = names.new_parts(self._now, os.urandom(8).hex())
        prefix = names.parts(id_)
        count = -(-len(value) // ROOM)
        for number in range(count):
            part = value[number * ROOM : (number + 1) * ROOM]
            self._parts.append(messages.put(f"{prefix}{number}", part))
        self.compares.append(messages.present(f"{prefix}0"))
        self.marks.append(messages.put(f"{prefix}mark", owner.encode()))
        return b"%b%b:%d" % (_REFERENCE, id_.encode(), count)

    def writing(self) -> Steps[None]:
        """Write the parts, step by step, before the commit refers to them."""
        for part in self._parts:
            yield None
            self._store.txn([], [part], [], changes=True)
        self._parts.clear()


def whole(store: EtcdStore, data: bytes) -> bytes:
    """Return the data, assembled from its parts if it is a reference."""
    if not is_reference(data):
        return data
    prefix, count = store.names.parts(id_in(data)), data.rpartition(b":")[2]
    value = b""
    for number in range(int(count)):
        told = store.txn([], [messages.get(f"{prefix}{number}")], [])
        pairs = told.responses[0].pairs
        if not pairs:
            raise Conflict("a value in parts was replaced while it was read; try again")
        value += pairs[0][1]
    return data_of(value)


def removal(store: EtcdStore, id_: str) -> bytes:
    """Return the operation that removes these parts."""
    prefix = store.names.parts(id_)
    return messages.delete(prefix, after(prefix))


def collect(store: EtcdStore, now: int) -> int:
    """Remove some parts that no key refers to; return the number of values they made up."""
    first, end = store.names.all_parts(now - PATIENCE)
    went = 0
    for id_ in dict.fromkeys(map(store.names.parts_id, (name for name, _ in store.each(first, end, keys_only=True)))):
        went += _collect(store, id_)
        if went >= AT_ONCE:
            break
    return went


def _collect(store: EtcdStore, id_: str) -> bool:
    mark = store.names.parts(id_) + "mark"
    told = store.txn([], [messages.get(mark)], [])
    owner = only(told.responses[0]).decode()
    compares = [messages.absent(mark)]
    if owner:
        told = store.txn([], [messages.get(owner)], [])
        data = only(told.responses[0])
        if is_reference(data) and id_in(data) == id_:
            return False
        compares = []  # a key that stopped referring to these parts never does again
    return store.txn(compares, [removal(store, id_)], [], changes=True).succeeded

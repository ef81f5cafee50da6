"""Values that are too large for one request to etcd: kept in parts, with a reference where the value should be.

The parts are written before the reference is, and a mark together with it. So parts without a mark belong to somebody
who has not got so far: yet, or at all. A mark says which key refers to the parts; once it does not, they can go.
"""

from __future__ import annotations

import os

from leasehold.errors import Conflict
from leasehold.model import SECOND
from leasehold.stores.etcd import messages, rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.stepwise import Steps
    from leasehold.stores.etcd import EtcdStore

ROOM = 400_000
"""A value of more bytes is kept in parts of this size. etcd takes 1.5 MiB at once, and three values must fit."""
PATIENCE = 3_600 * SECOND
"""Parts to which nobody refers are left alone for so long: somebody may be about to."""
AT_ONCE = 50
_REFERENCE = b"@"


def is_reference(data: bytes) -> bool:
    """Whether the value is kept in parts."""
    return data.startswith(_REFERENCE)


def id_in(reference: bytes) -> str:
    """Which parts these are."""
    return reference[len(_REFERENCE) :].partition(b":")[0].decode()


class LargeValues:
    """What has to be in the transaction that writes some values, beside them."""

    def __init__(self, store: EtcdStore, now: int) -> None:
        self._store = store
        self._now = now
        self._parts: list[bytes] = []
        """Operations that write them, each of which has to go alone."""
        self.compares: list[bytes] = []
        self.marks: list[bytes] = []

    def value(self, owner: str, data: bytes) -> bytes:
        """What to write at this key: the value, or a reference to its parts, which `writing` then writes."""
        value = rows.value_of(data)
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
        """Have the parts there, before anything refers to them."""
        for part in self._parts:
            yield None
            self._store.txn([], [part], [], changes=True)
        self._parts.clear()


def whole(store: EtcdStore, data: bytes) -> bytes:
    """What is referred to, if this refers to its parts."""
    if not is_reference(data):
        return data
    prefix, count = store.names.parts(id_in(data)), data.rpartition(b":")[2]
    value = b""
    for number in range(int(count)):
        told = store.txn([], [messages.get(f"{prefix}{number}")], [])
        pairs = told.responses[0].pairs
        if not pairs:
            raise Conflict("what was read is gone already: somebody has put it elsewhere")
        value += pairs[0][1]
    return rows.data_of(value)


def removal(store: EtcdStore, id_: str) -> bytes:
    """The operation that removes these parts."""
    prefix = store.names.parts(id_)
    return messages.delete(prefix, rows.after(prefix))


def collect(store: EtcdStore, now: int) -> int:
    """Remove some parts to which nothing refers; how many values that were."""
    first, end = store.names.all_parts(now - PATIENCE)
    went = 0
    for id_ in dict.fromkeys(map(store.names.parts_id, store.each_name(first, end))):
        went += _collect(store, id_)
        if went >= AT_ONCE:
            break
    return went


def _collect(store: EtcdStore, id_: str) -> bool:
    mark = store.names.parts(id_) + "mark"
    told = store.txn([], [messages.get(mark)], [])
    owner = rows.only(told.responses[0]).decode()
    compares = [messages.absent(mark)]
    if owner:
        told = store.txn([], [messages.get(owner)], [])
        data = rows.only(told.responses[0])
        if is_reference(data) and id_in(data) == id_:
            return False
        compares = []  # who has referred to it once and does not any more never will again
    return store.txn(compares, [removal(store, id_)], [], changes=True).succeeded

"""Values too large for one request to etcd: stored in parts, with a reference in place of the value.

The parts are written first; one transaction then writes the reference and a mark, which names the referring key. Parts
without a mark belong to a commit that has not happened yet, or never will. Parts whose key no longer refers to them are
garbage.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasehold.domain.timestamps import SECOND
from leasehold.errors import Conflict
from leasehold.stores.etcd import messages, rows

if TYPE_CHECKING:
    from leasehold.steps import Steps
    from leasehold.stores.etcd import EtcdStore

ROOM = 400_000
"""Bytes of a part; a longer value is split. A request to etcd may have 1.5 MiB, and three values must fit."""
PATIENCE = 3_600 * SECOND
"""Microseconds for which unreferenced parts are kept: a commit may be about to refer to them."""
AT_ONCE = 50
_REFERENCE = b"@"


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
    return rows.data_of(value)


def removal(store: EtcdStore, id_: str) -> bytes:
    """Return the operation that removes these parts."""
    prefix = store.names.parts(id_)
    return messages.delete(prefix, rows.after(prefix))


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
    owner = rows.only(told.responses[0]).decode()
    compares = [messages.absent(mark)]
    if owner:
        told = store.txn([], [messages.get(owner)], [])
        data = rows.only(told.responses[0])
        if is_reference(data) and id_in(data) == id_:
            return False
        compares = []  # a key that stopped referring to these parts never does again
    return store.txn(compares, [removal(store, id_)], [], changes=True).succeeded

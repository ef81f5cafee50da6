"""Create the lanes of an etcd store in one transaction, and compare what `meta` says about them. See ``stores.layout``.

A store that is not divided has nothing to create: its first commit writes `meta`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.stores.etcd import messages, rows
from leasehold.stores.layout import CONTROL, LANES_AT_FIRST, Layout, other_layout

if TYPE_CHECKING:
    from leasehold.stores.etcd import EtcdStore
    from leasehold.stores.etcd.address import EtcdAddress


def find_layout(store: EtcdStore, lane: int, lanes: int | None, *, is_examined: bool = False) -> Layout:
    """Return the layout of this lane, which must have its number, and this number of lanes unless that is None.

    Divide a store that does not exist yet, unless it is only examined. Raises StoreUnsuitable if it is divided in
    another way.
    """
    data = rows.only(store.txn([], [messages.get(store.names.meta)], []).responses[0])
    if not data and is_examined:
        return Layout()
    if not data and lane == CONTROL and lanes != 1:
        data = _divide(store, lanes or LANES_AT_FIRST)
    found = rows.meta_of(data).layout
    check(store.address, found, Layout(lane, lanes or found.lanes))
    return found


def _divide(store: EtcdStore, lanes: int) -> bytes:
    """Write `meta` of all lanes, or none if there is one already; return what the control lane has then."""
    address = store.address
    names = [rows.KeyNames(address.of_lane(lane).prefix).meta for lane in range(lanes + 1)]
    first = [rows.meta_data(rows.Meta(lane=lane, lanes=lanes)) for lane in range(lanes + 1)]
    store.txn(
        [messages.absent(name) for name in names],
        [messages.put(name, data) for name, data in zip(names, first, strict=True)],
        [messages.get(store.names.meta)],
    )
    return rows.only(store.txn([], [messages.get(store.names.meta)], []).responses[0])


def check(address: EtcdAddress, found: Layout, wanted: Layout) -> None:
    """Raise StoreUnsuitable if a lane is not the one that was believed."""
    if found != wanted:
        raise other_layout(f"etcd at {address.place}, prefix {address.prefix}", found, wanted)

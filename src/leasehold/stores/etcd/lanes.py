"""Create the lanes of an etcd store in one transaction, and compare what `meta` says about them. See ``stores.layout``.

A store that is not divided has nothing to create: its first commit writes `meta`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.nouns import Noun
from leasehold.errors import StoreUnsuitable
from leasehold.stores.etcd import messages, rows
from leasehold.stores.layout import CLOSED, CONTROL, LANES_AT_FIRST, Layout, other_layout
from leasehold.stores.quick_json import decode, encode

if TYPE_CHECKING:
    from leasehold.stores.etcd import EtcdStore
    from leasehold.stores.etcd.address import EtcdAddress


class LaneChange(Noun):
    """The change of the number of lanes that is under way. See ``dividing``."""

    before: int
    after: int
    joined: int
    """Number of the control lane's last event before the histories of the lanes were joined to it."""
    by: str
    """The run of the command that carries it out; one that takes it over writes another."""


def find_layout(
    store: EtcdStore, lane: int, lanes: int | None, *, is_examined: bool = False, may_be_closed: bool = False
) -> Layout:
    """Return the layout of this lane, which must have its number, and this number of lanes unless that is None.

    Divide a store that does not exist yet, unless it is only examined. Raises StoreUnsuitable if it is divided in
    another way, or closed.
    """
    data = rows.only(store.txn([], [messages.get(store.names.meta)], []).responses[0])
    if not data and is_examined:
        return Layout()
    if not data and lane == CONTROL and lanes != 1:
        data = _divide(store, lanes or LANES_AT_FIRST)
    found = rows.meta_of(data).layout
    if found.lanes == CLOSED:
        change = find_change(store)
        if may_be_closed:
            return found
        if change is not None:
            raise StoreUnsuitable(closed(store.address, change))
        raise other_layout(place(store.address, CONTROL), found, Layout(lane))
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
        raise other_layout(place(address, CONTROL), found, wanted)


def place(address: EtcdAddress, lane: int) -> str:
    """Return the place of a lane, for messages; that of the store itself for the control lane."""
    return f"etcd at {address.place}, prefix {address.of_lane(lane).prefix}"


# ------------------------------------------------------------------------------ while their number changes


def find_change(store: EtcdStore) -> LaneChange | None:
    """Return the change that is under way, or was cut off; only the control lane knows it."""
    data = rows.only(store.txn([], [messages.get(store.names.change)], []).responses[0])
    return LaneChange(**decode(data)) if data else None


def change_data(change: LaneChange) -> bytes:
    """Encode a change."""
    return encode(dict(zip(LaneChange._fields, change, strict=True)))


def closed(address: EtcdAddress, change: LaneChange) -> str:
    """Say that a store is closed, and how to open it."""
    return (
        f"{place(address, CONTROL)}: its spaces move from {change.before} to {change.after} lanes, and nobody may use "
        f"it meanwhile. If the command was cut off, repeat it, and it goes on:\n  leasehold lanes {change.after}"
    )

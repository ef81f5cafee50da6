"""Change the number of lanes of a store. It decides nothing about leases.

No transaction of etcd can hold a whole store. So the store is closed first: `meta` of each lane says that there are 0
lanes, which no server believes, so each later turn fails, and nobody opens the store. Then the records and the history
move, a batch in each transaction, which also removes them where they were. One last transaction raises all fences above
the highest of any lane and writes the new number. After a crash in between the store stays closed, and the command goes
on when it is repeated: each record is in one place or in the other. The key `change` says which change that is.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from heapq import merge
from typing import TYPE_CHECKING

from leasehold.domain.entries import EMPTY
from leasehold.domain.keys import byte_of_key, lane_with
from leasehold.domain.records import pack
from leasehold.errors import Conflict, StoreUnsuitable
from leasehold.steps import through
from leasehold.stores.etcd import messages, reading, rows
from leasehold.stores.etcd.calls import RANGE
from leasehold.stores.etcd.due_index import Reminders
from leasehold.stores.etcd.journal import Replica, mark_of
from leasehold.stores.etcd.lanes import LaneChange, change_data, closed, find_change, place
from leasehold.stores.etcd.rows import LargeValues, removal, whole
from leasehold.stores.layout import CLOSED, CONTROL, Layout, other_layout, with_spaces
from leasehold.stores.quick_json import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leasehold.stores.etcd import EtcdStore

OPERATIONS = 100
"""Operations of a batch: a transaction may have 128."""
SIZE = 1 << 19
"""Bytes of a batch, beyond which it is written; a request to etcd may have 1.5 MiB."""
PAGE = 100
"""Keys that are read together."""
TAKEN_OVER = "another process has taken this change of the number of lanes over; look again"
OF_SPACES = ("n", "a", "q")
"""First letters of the keys of records that belong to a space; the other records stay where they are."""


def change_lanes(control: EtcdStore, lanes: int, open_lane: Callable[[int], EtcdStore]) -> int:
    """Divide a store into so many lanes, or finish a change to so many that was cut off; return the number before."""
    change = _claimed(control, lanes)
    try:
        for lane in with_spaces(change.before):
            _close(control, change, lane)
        with ExitStack() as stack:
            numbers = {*with_spaces(change.before), *with_spaces(change.after)} - {CONTROL}
            opened = {lane: stack.enter_context(closing(open_lane(lane))) for lane in sorted(numbers)}
            _Division(change, {CONTROL: control, **opened}).run()
    except StoreUnsuitable:
        if find_change(control) == change:
            raise
        raise Conflict(TAKEN_OVER) from None  # and its lanes are open again
    return change.before


def _claimed(control: EtcdStore, lanes: int) -> LaneChange:
    """Close the control lane for this change, or take over the one that was cut off."""
    while True:
        found = find_change(control)
        if found is not None and found.after != lanes:
            raise StoreUnsuitable(closed(control.address, found))
        change = _taken_over(control, found) if found is not None else _begun(control, lanes)
        if change is not None:
            return change


def _taken_over(control: EtcdStore, found: LaneChange) -> LaneChange | None:
    ours = found._replace(by=os.urandom(8).hex())
    name = control.names.change
    told = control.txn(
        [messages.equal(name, change_data(found))], [messages.put(name, change_data(ours))], [], changes=True
    )
    return ours if told.succeeded else None


def _begun(control: EtcdStore, lanes: int) -> LaneChange | None:
    """Write the change, close the control lane, and create the lanes that are new; None if a server was first."""
    names, (data, meta) = control.names, _meta(control, CONTROL)
    if meta.layout != control.layout:
        raise other_layout(place(control.address, CONTROL), meta.layout, control.layout)
    ours = LaneChange(meta.lanes, lanes, meta.seq, os.urandom(8).hex())
    unchanged = messages.equal(names.meta, data) if data else messages.absent(names.meta)
    compares, puts = [unchanged, messages.absent(names.change)], [messages.put(names.change, change_data(ours))]
    puts.append(messages.put(names.meta, rows.meta_data(meta._replace(lane=CONTROL, lanes=CLOSED))))
    for lane in set(with_spaces(lanes)) - set(with_spaces(meta.lanes)) - {CONTROL}:
        if _meta(control, lane)[0]:
            raise StoreUnsuitable(
                f"{place(control.address, lane)} is a store already, and would become a lane of this one"
            )
        name = _names(control, lane).meta
        compares.append(messages.absent(name))
        puts.append(messages.put(name, rows.meta_data(rows.Meta(lane=lane, lanes=CLOSED))))
    return ours if control.txn(compares, puts, [], changes=True).succeeded else None


def _close(control: EtcdStore, change: LaneChange, lane: int) -> None:
    """Close a lane, after the turn of a server that has it now."""
    name = _names(control, lane).meta
    while True:
        data, meta = _meta(control, lane)
        if meta.layout == Layout(lane, CLOSED):
            return
        if meta.layout != Layout(lane, change.before):
            raise other_layout(place(control.address, lane), meta.layout, Layout(lane, change.before))
        compares = [messages.equal(control.names.change, change_data(change)), messages.equal(name, data)]
        put = messages.put(name, rows.meta_data(meta._replace(lanes=CLOSED)))
        if control.txn(compares, [put], [], changes=True).succeeded:
            return
        if find_change(control) != change:
            raise Conflict(TAKEN_OVER)


def _meta(control: EtcdStore, lane: int) -> tuple[bytes, rows.Meta]:
    data = rows.only(control.txn([], [messages.get(_names(control, lane).meta)], []).responses[0])
    return data, rows.meta_of(data)


def _names(control: EtcdStore, lane: int) -> rows.KeyNames:
    return rows.KeyNames(control.address.of_lane(lane).prefix)


class _Batch:
    """Operations that one transaction carries out, if this process still carries out the change."""

    def __init__(self, control: EtcdStore, change: LaneChange) -> None:
        self._control = control
        self._ours = messages.equal(control.names.change, change_data(change))
        self._now = control.clock.now()
        self._operations: list[bytes] = []
        self._compares: list[bytes] = []
        self._reminders: dict[int, tuple[EtcdStore, Reminders]] = {}
        self._size = 0

    def is_full(self) -> bool:
        """Return True if another record or the events of another commit might not fit."""
        reminders = sum(len(each) for _, each in self._reminders.values())
        return len(self._operations) + reminders > OPERATIONS or self._size > SIZE

    def add(self, *operations: bytes) -> None:
        """Add these operations."""
        self._operations += operations

    def put(self, store: EtcdStore, name: str, data: bytes) -> None:
        """Write a value of any size."""
        spilled = LargeValues(store, self._now)
        value = spilled.value(name, data)
        through(spilled.writing())
        self.add(messages.put(name, value), *spilled.marks)
        self._compares += spilled.compares
        self._size += len(value)

    def put_record(self, store: EtcdStore, key: str, data: bytes, mark: int) -> None:
        """Write a record, and the reminder of when it is due."""
        self.put(store, store.names.record(key), data)
        if mark > 0:
            self._reminders.setdefault(id(store), (store, Reminders()))[1].add(mark, key)

    def write(self) -> None:
        """Carry it out, and begin another. Raises Conflict if another process goes on with this change."""
        for store, reminders in self._reminders.values():
            self.add(*reminders.operations(store.names))
        if self._operations:
            told = self._control.txn([self._ours, *self._compares], self._operations, [], changes=True)
            if not told.succeeded:
                raise Conflict(TAKEN_OVER)
        self._operations, self._compares, self._reminders, self._size = [], [], {}, 0


class _Division:
    """One change under way. All lanes are closed, so nobody else writes."""

    def __init__(self, change: LaneChange, lanes: dict[int, EtcdStore]) -> None:
        self._change = change
        self._lanes = lanes
        self._control = lanes[CONTROL]
        self._before = with_spaces(change.before)
        self._after = with_spaces(change.after)
        self._batch = _Batch(self._control, change)

    def run(self) -> None:
        """Move everything, and write the new number."""
        for store in self._lanes.values():
            store.layout = Layout(store.layout.lane, CLOSED)
            self._fold(store)
        for lane in self._before:
            self._move_records(lane)
        self._batch.write()
        self._join_histories()
        self._open()

    def _fold(self, store: EtcdStore) -> None:
        """Write each record that the journal changes, then drop the journal."""
        replica, batch = Replica(), self._batch
        reading.bring_up_to_date(store, replica, ())
        if not replica.overlay.entries:
            return
        keys = [*replica.overlay.lines]
        for start in range(0, len(keys), PAGE):
            some = keys[start : start + PAGE]
            reading.bring_up_to_date(store, replica, some)
            for key in some:
                record = replica.records[key]
                if record is EMPTY:
                    batch.add(messages.delete(store.names.record(key)))
                else:
                    entries = (*record.holds.values(), *record.waiters, *record.notes.values())
                    batch.put_record(store, key, encode([pack(entry) for entry in entries]), mark_of(record))
                if batch.is_full():
                    batch.write()
        batch.write()
        parts = [entry[3] for entry in replica.overlay.entries if entry[3]]
        meta = replica.meta._replace(folded=replica.meta.at, part=0)
        journal = messages.delete(store.names.journal_start, store.names.journal_end)
        batch.add(messages.put(store.names.meta, rows.meta_data(meta)), journal)
        batch.write()
        for start in range(0, len(parts), PAGE):
            batch.add(*(removal(store, each) for each in parts[start : start + PAGE]))
            batch.write()

    def _move_records(self, lane: int) -> None:
        """Move the records of a lane that belong to another one from now on."""
        source, batch = self._lanes[lane], self._batch
        for kind in OF_SPACES:
            first = source.names.record(kind)
            for name, data in _pages(source, first, rows.after(first)):
                key = source.names.key(name)
                target = lane_with(byte_of_key(key), self._change.after)
                if target == lane:
                    continue
                value = whole(source, data)
                batch.put_record(self._lanes[target], key, value, mark_of(rows.record_of(value)))
                batch.add(messages.delete(name))
                if batch.is_full():
                    batch.write()

    def _join_histories(self) -> None:
        """Append the events of all lanes to those of the control lane, by time: there each space finds its own."""
        lanes = [lane for lane in self._before if lane != CONTROL]
        if not lanes:
            return
        control, batch = self._control, self._batch
        meta = _meta(control, CONTROL)[1]
        seq = meta.seq
        for *_, name, value, count in merge(*map(self._events, (CONTROL, *lanes))):
            seq += count
            batch.put(control, control.names.events(seq), value)
            batch.add(messages.delete(name))
            if batch.is_full():
                self._write_events(meta, seq)
        self._write_events(meta, seq)

    def _write_events(self, meta: rows.Meta, seq: int) -> None:
        self._batch.add(messages.put(self._control.names.meta, rows.meta_data(meta._replace(seq=seq))))
        self._batch.write()

    def _events(self, lane: int) -> Iterator[tuple[int, int, int, str, bytes, int]]:
        """Yield the time, lane, number, name, value and count of the events of each commit, the oldest first."""
        store = self._lanes[lane]
        first, end = store.names.all_events()
        if lane == CONTROL:
            end = store.names.events(self._change.joined + 1)
        for name, data in _pages(store, first, end):
            value, number = whole(store, data), store.names.number_in(name)
            events = rows.events_of(value, number)
            yield events[-1].at_us, lane, number, name, value, len(events)

    def _open(self) -> None:
        """Write the new number into all lanes, with counters above those of any; remove the lanes that are no more."""
        control, after = self._control, {CONTROL, *self._after}
        found = [_meta(control, lane)[1] for lane in self._lanes]
        at = max(meta.at for meta in found) + 1
        counters = {
            "fence": max(map(self._fence, found)),
            "seq": max(meta.seq for meta in found),
            "now": max(meta.now for meta in found),
            "at": at,
            "folded": at,
        }
        for lane, store in self._lanes.items():
            if lane in after:
                meta = rows.Meta(
                    **counters, cluster=control.cluster, by=control.id, lane=lane, lanes=self._change.after
                )
                self._batch.add(messages.put(store.names.meta, rows.meta_data(meta)))
            else:
                self._batch.add(messages.delete(store.names.prefix, rows.after(store.names.prefix)))
        self._batch.add(messages.delete(control.names.change))
        self._batch.write()

    def _fence(self, meta: rows.Meta) -> int:
        """Return the next fence of a lane: far above its last one if the cluster was restored from a snapshot."""
        replica = Replica()
        replica.meta = meta
        told = self._control.txn([], [messages.get(self._control.names.meta)], [])
        self._control.raise_fence(replica, told.revision)
        return replica.meta.fence


def _pages(store: EtcdStore, first: str, end: str) -> Iterator[tuple[str, bytes]]:
    """Yield the names and values of a range, although they are removed meanwhile."""
    while True:
        found = messages.range_answer(store.calls.ask(RANGE, messages.range_request(first, end, limit=PAGE)))
        pairs = rows.each(found)
        yield from pairs
        if not found.more:
            return
        first = pairs[-1][0] + "\0"

"""One transaction: read what nobody has changed since, decide elsewhere, write if still nobody has.

Every commit bumps one key, and names the revision at which it was read. So a commit goes through only if nothing at all
was changed meanwhile: reads are consistent, numbers are unique and in order, and deadlocks are seen exactly, with any
number of servers. Whoever loses starts over.
"""

from __future__ import annotations

from leasehold.errors import Conflict, StoreError
from leasehold.model import EMPTY
from leasehold.records import apply
from leasehold.rules.timing import first_due
from leasehold.stores.etcd import rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from leasehold.model import Drop, Event, Put, Record
    from leasehold.stores.etcd import EtcdStore

OPERATIONS = 128
"""What etcd takes in one transaction, unless it was told otherwise."""


class EtcdTransaction:
    """One turn."""

    def __init__(self, store: EtcdStore) -> None:
        self._store = store
        self._is_over = False
        self._is_fresh = False
        self._now = 0

    @property
    def now(self) -> int:
        """The time of etcd; never earlier than any that was told before by anybody."""
        self._refresh(())
        return self._now

    @property
    def fence(self) -> int:
        """The next unused number."""
        self._refresh(())
        return self._store.meta.fence

    def load(self, keys: Iterable[str]) -> Mapping[str, Record]:
        """These records, and whatever else is known."""
        wanted = list(dict.fromkeys(keys))
        self._refresh(wanted)
        missing = self._store.cache.missing(wanted)
        for start in range(0, len(missing), OPERATIONS - 1):
            self._fetch(missing[start : start + OPERATIONS - 1])
        return self._store.cache.records

    def _refresh(self, wanted: Sequence[str]) -> None:
        """See whether anybody else has changed anything since the last transaction; with what is wanted first."""
        if self._is_fresh:
            return
        store = self._store
        missing = store.cache.missing(wanted)[: OPERATIONS - 1]
        asked = [rows.get(store.names.record(key)) for key in missing]
        answer = store.txn(
            [rows.unchanged(store.names.meta, store.revision)],
            asked,
            [rows.get(store.names.meta), *(rows.get(store.names.record(key)) for key in wanted[: OPERATIONS - 1])],
        )
        if answer.get("succeeded"):
            store.keep(missing, answer)
        else:
            store.restart(wanted[: OPERATIONS - 1], answer)
        self._is_fresh = True
        self._now = store.tell_time()

    def _fetch(self, keys: Sequence[str]) -> None:
        store = self._store
        asked = [rows.get(store.names.record(key)) for key in keys]
        answer = store.txn([rows.unchanged(store.names.meta, store.revision)], asked, [])
        if not answer.get("succeeded"):
            self._lose()
        store.keep(keys, answer)

    def _lose(self) -> None:
        self._store.lost_out()
        self.close()
        raise Conflict("somebody else changed something meanwhile")

    def due(self, limit: int) -> Sequence[str]:
        """Keys of records that a sweep should look at, the most urgent first."""
        return self._store.due(self.now, limit)

    def commit(self, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int) -> None:
        """All of this, or nothing of it."""
        if self._is_over:
            raise StoreError("this transaction is over; begin another")
        try:
            if changes or events or fence != self.fence:
                self._write(changes, events, fence)
        finally:
            self.close()

    def _write(self, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int) -> None:
        store = self._store
        after = self._after(changes)
        operations = [operation for key, record in after.items() for operation in self._operations(key, record)]
        meta = rows.Meta(fence, store.meta.seq + len(events), self._now, store.cluster)
        if events:
            operations.append(rows.put(store.names.events(meta.seq), rows.events_text(events, store.meta.seq + 1)))
        operations.append(rows.put(store.names.meta, rows.meta_text(meta)))
        if len(operations) > OPERATIONS:
            raise StoreError(
                f"this changes {len(operations)} keys at once, and etcd takes at most {OPERATIONS}: ask for fewer names"
            )
        try:
            answer = store.txn([rows.unchanged(store.names.meta, store.revision)], operations, [], changes=True)
        except StoreError:
            store.forget()  # it may have been written
            raise
        if not answer.get("succeeded"):
            self._lose()
        store.committed(answer, meta, after)

    def _after(self, changes: Sequence[Put | Drop]) -> dict[str, Record]:
        known = self._store.cache.records
        after: dict[str, Record] = {}
        for change in changes:
            if change.key not in known:
                self._fetch([change.key])
            after[change.key] = apply(after.get(change.key, known[change.key]), change)
        return after

    def _operations(self, key: str, record: Record) -> list[dict[str, Any]]:
        """Write a record, and its reminder if that moves."""
        names = self._store.names
        before, after = first_due(self._store.cache.records[key]), first_due(record)
        written = (
            rows.delete(names.record(key)) if record == EMPTY else rows.put(names.record(key), rows.record_text(record))
        )
        found = [written]
        if before != after:
            found += [rows.delete(names.due(before, key))] if before is not None else []
            found += [rows.put(names.due(after, key), "")] if after is not None else []
        return found

    def close(self) -> None:
        """Give the records up; what was not committed never happened."""
        if not self._is_over:
            self._is_over = True
            self._store.leave()

"""Checkpoints: move the oldest part of the journal into the stored records. A checkpoint changes no record's meaning.

A checkpoint is written by the transaction of a commit, or by one of its own, which also says how far the journal is in
the records. So a crash leaves everything as it was before a checkpoint or after it. Records that were created and
removed within the journal are never written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.records import pack
from leasehold.stores.etcd import messages
from leasehold.stores.etcd.due_index import Reminders
from leasehold.stores.etcd.journal import NOTHING, mark_of
from leasehold.stores.etcd.rows import ROOM, removal
from leasehold.stores.quick_json import encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leasehold.domain.entries import Record
    from leasehold.stores.etcd import EtcdStore
    from leasehold.stores.etcd.journal import OverlaidRecord, Replica
    from leasehold.stores.etcd.rows import LargeValues

OPERATIONS = 110
"""Operations of a checkpoint: a transaction may have 128, and the commit needs some."""
READ_AHEAD = 100
"""Records that are read together for the next checkpoints."""
SIZE = 1 << 18
"""Bytes of records in a checkpoint; a single record may be larger."""


class Checkpoint:
    """The records that one transaction writes, and how far the journal is in the records then."""

    def __init__(self, store: EtcdStore, replica: Replica, spilled: LargeValues, after: Mapping[str, Record]) -> None:
        self._store = store
        self._replica = replica
        self._spilled = spilled
        self._after = after
        """Records as the commit leaves them."""
        self._size = 0
        self._reminders = Reminders()
        self.unknown: list[str] = []
        """Records that have to be read before they can be written; the first of them ended this checkpoint."""
        self.operations: list[bytes] = []
        self.bases: dict[str, int] = {}
        """The marks of the records as this checkpoint stores them."""
        self.folded, self.part = replica.meta.folded, replica.meta.part
        self._plan()

    def _plan(self) -> None:
        """Choose the oldest entries of the journal whose records can be written, within the limits of a transaction."""
        overlay, names = self._replica.overlay, self._store.names
        first, until = self.folded, overlay.oldest()
        removals = []
        for number, keys, _, parts in overlay.entries:
            if number > until:
                break
            self._take_some(keys)
            if self.part < len(keys):
                break
            self.folded, self.part = number, 0
            removals += [removal(self._store, parts)] if parts else []
            if len(self.operations) + len(self._reminders) + len(removals) >= OPERATIONS:
                break
        if self.unknown:
            self._find_unknown(until)
        self.operations += self._reminders.operations(names)
        if self.folded > first:
            self.operations += [messages.delete(names.journal(0), names.journal(self.folded + 1)), *removals]

    def _take_some(self, keys: Sequence[str]) -> None:
        """Take records of an entry until the checkpoint is full."""
        lines, bases, after = self._replica.overlay.lines, self.bases, self._after
        for key in keys[self.part :]:
            line = lines.get(key)
            if line is not None and line.mark == NOTHING == line.base and key not in after:  # usual; saves a call
                bases[key] = NOTHING
            elif not self._take(key):
                break
            self.part += 1

    def _take(self, key: str) -> bool:
        """Take a record; False if it has to wait for the next checkpoint."""
        line = self._replica.overlay.lines.get(key)
        if line is None or key in self.bases:
            return True
        record = self._after.get(key)
        mark = line.mark if record is None else mark_of(record)
        if line.base is not None and (line.base == mark == NOTHING or (record is None and line.last <= line.written)):
            self.bases[key] = line.base
            return True
        data = self._data(key, line)
        if line.base is None or data is None:
            self.unknown.append(key)
            return False
        return self._write(key, mark, data)

    def _data(self, key: str, line: OverlaidRecord) -> bytes | None:
        """Encode the record for storage; None if it has to be read first."""
        record = self._after.get(key)
        if record is None and line.mark == NOTHING:
            return b""
        if record is None and line.base == NOTHING:  # the record is not stored: the overlay is all of it
            changes = self._replica.overlay.changes.changed[key]
            return encode([packed for packed in changes.values() if packed is not None])
        record = record or self._replica.records.get(key)
        if record is None:
            return None
        return encode([pack(entry) for entry in (*record.holds.values(), *record.waiters, *record.notes.values())])

    def _find_unknown(self, until: int) -> None:
        """Find further records that the next checkpoints have to read."""
        found = dict.fromkeys(self.unknown)
        for number, keys, _, _ in self._replica.overlay.entries:
            if number > until or len(found) >= READ_AHEAD:
                break
            for key in keys:
                line = self._replica.overlay.lines.get(key)
                if line is not None and (line.base is None or self._data(key, line) is None):
                    found[key] = None
        self.unknown = list(found)[:READ_AHEAD]

    def _write(self, key: str, mark: int, data: bytes) -> bool:
        name = self._store.names.record(key)
        if len(self.operations) + len(self._reminders) > OPERATIONS - 2:
            return False
        if mark == NOTHING:
            self.operations.append(messages.delete(name))
        else:
            if self._size and self._size + min(len(data), ROOM) > SIZE:
                return False
            value = self._spilled.value(name, data)
            self._size += len(value)
            self.operations.append(messages.put(name, value))
        if mark > 0:
            self._reminders.add(mark, key)
        self.bases[key] = mark
        return True

    def done(self, at: int) -> None:
        """Note that the checkpoint was written, with the entries up to this one."""
        self._replica.overlay.pass_by(self.folded, self.part, self.bases, at)

"""A server's copy of the store as of one commit: the journal, and some records. No I/O: `reading` fills it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.entries import EMPTY
from leasehold.stores.cache import RECORDS
from leasehold.stores.etcd import messages, rows
from leasehold.stores.etcd.journal import EtcdOverlay, changed, mark_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leasehold.domain.entries import Record
    from leasehold.stores.etcd.journal import JournalEntry
    from leasehold.stores.etcd.rows import KeyNames, Meta


class Replica:
    """The last known commit, the journal up to it, and some records as of it."""

    def __init__(self) -> None:
        self.meta = rows.Meta()
        self.last: bytes | None = None
        """The stored value of `meta`; empty before the first commit. None while nothing is known."""
        self.overlay = EtcdOverlay()
        self.records: dict[str, Record] = {}
        """Cached, the oldest first; between transactions, at most `limit` of them."""
        self.limit = RECORDS

    @property
    def is_blank(self) -> bool:
        """True while nothing is known."""
        return self.last is None

    def forget(self) -> None:
        """Discard everything."""
        self.last = None
        self._clear()

    def _clear(self) -> None:
        self.records.clear()
        self.overlay = EtcdOverlay()

    # -------------------------------------------------------------------------------------- queries

    def unchanged(self, names: KeyNames) -> bytes:
        """Return the compare that no store has committed since."""
        if self.last is None:  # no key has this revision: the compare fails, and etcd sends everything
            return messages.unchanged(names.meta, -1)
        return messages.equal(names.meta, self.last) if self.last else messages.absent(names.meta)

    def news(self, names: KeyNames) -> list[bytes]:
        """Return the operations that read what was committed since."""
        first, end = names.journal(0 if self.last is None else self.meta.at + 1), names.journal_end
        return [messages.get(names.meta), messages.get(first, end)]

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Return which of these records have to be read."""
        records, overlay = self.records, self.overlay
        missing = []
        for key in dict.fromkeys(keys):
            if key not in records:
                found = overlay.known(key)
                if found is None:
                    missing.append(key)
                else:
                    records[key] = found
        return missing

    def unknown(self, keys: Iterable[str]) -> set[str] | None:
        """Return which of these are neither cached nor in the journal, or None if some must be read."""
        if self.last is None:
            return None
        records, overlay = self.records, self.overlay
        unknown = {key for key in keys if key not in records}
        laid_over = [key for key in unknown if key in overlay.lines]
        if any(overlay.known(key) is None for key in laid_over):
            return None
        return unknown.difference(laid_over)

    # -------------------------------------------------------------------------------------- changes

    def keep(self, keys: Sequence[str], kept: Sequence[Record]) -> None:
        """Add records as they are stored as of the last known commit."""
        records, overlay = self.records, self.overlay
        for key, record in zip(keys, kept, strict=True):
            records[key] = overlay.on(key, record)
            overlay.read(key, mark_of(record), self.meta.part)

    def learn(self, last: bytes, entries: Sequence[JournalEntry]) -> bool:
        """Apply the value of `meta` and newer journal entries. Return False if they do not fit: then read it all."""
        meta = rows.meta_of(last)
        if not last and entries:  # the key was deleted
            meta = rows.Meta(at=entries[-1].number, folded=entries[0].number - 1)
        is_another = not self.is_blank and (meta.cluster != self.meta.cluster or meta.at < self.meta.at)
        starts_over = self.is_blank or meta.folded > self.meta.at
        first = meta.folded if starts_over else self.meta.at
        new = [entry for entry in entries if entry.number > first]
        if is_another or [entry.number for entry in new] != list(range(first + 1, meta.at + 1)):
            self.forget()
            return False
        if starts_over:
            self._clear()
        for entry in new:
            self._follow(entry)
        self.overlay.pass_by(meta.folded, meta.part)
        self.meta, self.last = meta, last
        return True

    def _follow(self, entry: JournalEntry) -> None:
        records = self.records
        for key, _, _, *changes in entry.groups:
            before = records.get(key)
            if before is not None:
                records[key] = changed(before, changes)
        self.overlay.add(entry)

    def committed(self, last: bytes, meta: Meta, entry: JournalEntry | None, after: Mapping[str, Record]) -> None:
        """Apply our own commit."""
        records = self.records
        for key, record in after.items():
            records.pop(key, None)
            records[key] = record  # now the youngest: records in use are evicted last
        if entry is not None:
            self.overlay.add(entry)
        self.meta, self.last = meta, last

    def assume(self, keys: Iterable[str]) -> None:
        """Cache these records as absent; the commit verifies it."""
        self.records.update(dict.fromkeys(keys, EMPTY))

    def unassume(self, keys: Iterable[str]) -> None:
        """Remove records that were assumed to be absent and not verified."""
        for key in keys:
            self.records.pop(key, None)

"""A server's copy of the store as of one commit: the journal, and some records. No I/O: `reading` fills it.

The journal has the commits that are not in the records yet. Each commit adds one entry: the records that it changed,
each with its changes. The overlay of these changes takes precedence over a record, so it does no harm if the record
contains some of the changes already.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from leasehold.domain.entries import EMPTY
from leasehold.domain.nouns import Noun
from leasehold.domain.records import build, due, first_due, unpack
from leasehold.stores import quick_json
from leasehold.stores.cache import RECORDS, Overlay, entries_of, laid_over
from leasehold.stores.etcd import messages, rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, TypeAlias

    from leasehold.domain.entries import Record
    from leasehold.stores.etcd.rows import KeyNames, Meta

    Raw: TypeAlias = list[Any] | str
    """A change as it is stored: the packed entry that was put, or the id of the one that was dropped."""

NOTHING = -1
"""The mark of a record that does not exist."""
ENTRIES = 128
SIZE = 1 << 18
"""Entries, and bytes, beyond which commits move the oldest entries into the records."""
EIGHTH = 8
"""The part of the journal that is moved at a time. A larger part takes longer, and freeing it at once triggers Python's
garbage collector."""
MOST = 4
"""At this many times the limits, a transaction of its own moves the oldest entries before the next commit."""


def mark_of(record: Record) -> int:
    """Return when a record is due (0 if never), or `NOTHING` if it does not exist."""
    if record is EMPTY:
        return NOTHING
    holds, waiters, notes = record
    if not waiters:  # almost always there is one entry; called for each record of each commit
        if not notes and len(holds) == 1:
            return due(*holds.values()) or 0
        if not holds and len(notes) == 1:
            return due(*notes.values()) or 0
        if not holds and not notes:
            return NOTHING
    return first_due(record) or 0


class JournalEntry(Noun):
    """The changes of one commit."""

    number: int
    groups: list[list[Any]]
    """For each record: its key, its mark as it is stored, its mark after the commit, and each change.

    The first mark is None if an earlier entry has changed the record, too."""
    size: int
    parts: str = ""
    """Id of its parts if it was too large for one value."""


def encode(groups: list[list[Any]]) -> bytes:
    """Encode the groups of an entry."""
    return quick_json.encode(groups)


def decode(data: bytes, only: Sequence[str] | None = None) -> list[list[Any]]:
    """Decode the groups of an entry; return none if no key in it begins with one of `only`.

    Searching the bytes for these letters is many times as fast as decoding, and usually they do not occur.
    """
    if only is not None and not any(f'["{start}'.encode() in data for start in only):
        return []
    groups: list[list[Any]] = quick_json.decode(data)
    return groups


class OverlaidRecord:
    """The facts about a record that the journal changes."""

    __slots__ = ("base", "based", "last", "mark", "written")

    def __init__(self, base: int | None, mark: int, number: int) -> None:
        self.base = base
        """The mark of the record as it is stored; None if unknown."""
        self.based = 0 if base is None else number
        """`base` is valid until an entry of this record with this number or a later one moves into the records."""
        self.mark = mark
        """The mark of the record as it is now."""
        self.last = number
        """The last entry that changes this record."""
        self.written = 0
        """The record is known to be stored with all changes up to this entry."""


class EtcdOverlay:
    """The journal's entries, and their changes by record."""

    def __init__(self) -> None:
        self.lines: dict[str, OverlaidRecord] = {}
        self.changes = Overlay(unpack)
        self.entries: deque[tuple[int, list[str], int, str]] = deque()
        """Number, keys, size and parts of each entry, oldest first."""
        self.size = 0

    def add(self, entry: JournalEntry) -> None:
        """Add the entry of a commit."""
        lines, number = self.lines, entry.number
        for group in entry.groups:
            key, base = group[0], group[1]
            line = lines.get(key)
            if line is None:
                line = lines[key] = OverlaidRecord(base, group[2], number)
            else:
                if base is not None:
                    line.base, line.based = base, number
                line.mark, line.last = group[2], number
            for raw in group[3:]:
                self.changes.lay(key, *_change(raw))
        self.entries.append((number, [group[0] for group in entry.groups], entry.size, entry.parts))
        self.size += entry.size

    def on(self, key: str, record: Record) -> Record:
        """Return the stored record with the journal's changes applied."""
        line = self.lines.get(key)
        if line is None:
            return record
        return EMPTY if line.mark == NOTHING else build(self.changes.over(key, entries_of(record)))

    def known(self, key: str) -> Record | None:
        """Return the record if the journal alone determines it, otherwise None."""
        line = self.lines.get(key)
        if line is None or NOTHING not in (line.mark, line.base):
            return None
        return self.on(key, EMPTY)

    def is_long(self, times: int = 1) -> bool:
        """Return True if the journal exceeds its limits this many times."""
        return len(self.entries) > times * ENTRIES or self.size > times * SIZE

    def oldest(self) -> int:
        """Return the number of the last entry to move into the records when the journal is too long."""
        left = self.size
        for number, _, size, _ in self.entries:
            left -= size
            if left <= _less(SIZE) and self.entries[-1][0] - number <= _less(ENTRIES):
                return number
        return 0

    def pass_by(self, folded: int, part: int, bases: Mapping[str, int] | None = None, written: int = 0) -> None:
        """Forget the entries up to `folded`, and the first `part` records of the next: they are in the records now.

        The store that wrote the records passes their marks, and the number up to which they contain all entries.
        """
        while self.entries and self.entries[0][0] <= folded:
            number, keys, size, _ = self.entries.popleft()
            self.size -= size
            self._pass(keys, number, bases, written)
        if part and self.entries:
            self._pass(self.entries[0][1][:part], self.entries[0][0], bases, written)

    def _pass(self, keys: Iterable[str], number: int, bases: Mapping[str, int] | None, written: int) -> None:
        lines = self.lines
        for key in keys:
            line = lines.get(key)
            if line is None:
                continue
            if line.last <= number:
                del lines[key]
                self.changes.forget(key)
            elif bases is not None and key in bases:
                line.base, line.based, line.written = bases[key], number + 1, written
            elif number >= line.based:
                line.base = None

    def read(self, key: str, mark: int, part: int) -> None:
        """Note that a record was read with this mark, when `part` records of the first entry were in the records."""
        line = self.lines.get(key)
        if line is not None and line.base is None:
            number, keys, *_ = self.entries[0]
            line.base, line.based = mark, number + (key in keys[:part])

    def due(self, now: int) -> list[tuple[int, str]]:
        """Return the changed records that are due by now, each with its time."""
        return [(line.mark, key) for key, line in self.lines.items() if 0 < line.mark <= now]


def _less(many: int) -> int:
    return many - max(1, many // EIGHTH)


def _change(raw: Raw) -> tuple[str, Raw | None]:
    """Return the id of the changed entry, and the packed entry; None if it was dropped."""
    return (raw, None) if isinstance(raw, str) else (raw[1], raw)


def changed(record: Record, changes: Iterable[Raw]) -> Record:
    """Apply changes to a record."""
    return build(laid_over(entries_of(record), dict(map(_change, changes)), unpack))


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

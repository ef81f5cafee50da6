"""What was committed and is not yet in the records themselves, in order: a journal, laid over them. Pure.

Each commit adds one entry: the records that it changed, each with its changes. What is laid over a record counts more
than what the record says, so it does no harm if a record contains some of it already.
"""

from __future__ import annotations

from collections import deque

from leasehold.model import EMPTY
from leasehold.noun import Noun
from leasehold.records import build
from leasehold.rules.timing import due, first_due
from leasehold.stores import quick_json
from leasehold.stores.codec import unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, TypeAlias

    from leasehold.model import Entry as RecordEntry
    from leasehold.model import Record

    Raw: TypeAlias = list[Any] | str
    """A change as it is written: the packed entry that was put, or the id of what was dropped."""

NOTHING = -1
"""The mark of a record that there is not."""
ENTRIES = 128
SIZE = 1 << 18
"""When there are more entries than that, or more bytes, the oldest go into the records."""
EIGHTH = 8
"""So small a part of them at a time: it takes its time, and what is given up all at once (it is much) makes Python
look through all that comes after it for garbage."""
MOST = 4
"""At so many times as much, that cannot wait for the next commits."""


def mark_of(record: Record) -> int:
    """What must be known of a record to replace it: `NOTHING`, or the time that it is due, 0 if it never is."""
    if record is EMPTY:
        return NOTHING
    holds, waiters, notes = record
    if not waiters:  # almost always there is one entry; and this is asked of each record of each commit
        if not notes and len(holds) == 1:
            return due(*holds.values()) or 0
        if not holds and len(notes) == 1:
            return due(*notes.values()) or 0
        if not holds and not notes:
            return NOTHING
    return first_due(record) or 0


class JournalEntry(Noun):
    """What one commit changed."""

    number: int
    groups: list[list[Any]]
    """For each record: its key, its marks as it is kept and after the commit, and each change.

    The first mark is None if an earlier entry is laid over the record already."""
    size: int
    parts: str = ""
    """Where it is, if it was too large for one value."""


def encode(groups: list[list[Any]]) -> bytes:
    """What is kept of an entry."""
    return quick_json.encode(groups)


def decode(data: bytes, only: Sequence[str] | None = None) -> list[list[Any]]:
    """What was encoded; nothing, if there is no record in it whose key begins like one of `only`.

    To look for these letters is many times as fast as to read it, and mostly they are not there.
    """
    if only is not None and not any(f'["{start}'.encode() in data for start in only):
        return []
    groups: list[list[Any]] = quick_json.decode(data)
    return groups


class OverlaidRecord:
    """What is laid over one record."""

    __slots__ = ("base", "based", "changes", "last", "mark", "written")

    def __init__(self, base: int | None, mark: int, number: int) -> None:
        self.base = base
        """The mark of the record as it is kept; None: we do not know."""
        self.based = 0 if base is None else number
        """That is so until an entry with this number or a later one, with this record in it, goes into the records."""
        self.mark = mark
        """That of the record as it is now."""
        self.last = number
        """The last entry with this record in it."""
        self.written = 0
        """Up to this entry the record is known to be kept as it is."""
        self.changes: dict[str, Raw] = {}


class Overlay:
    """The journal, by record."""

    def __init__(self) -> None:
        self.lines: dict[str, OverlaidRecord] = {}
        self.entries: deque[tuple[int, list[str], int, str]] = deque()
        """Number, records, size and parts of each, the oldest first."""
        self.size = 0

    def add(self, entry: JournalEntry) -> None:
        """One more commit."""
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
            changes = line.changes
            for raw in group[3:]:
                changes[raw if isinstance(raw, str) else raw[1]] = raw
        self.entries.append((number, [group[0] for group in entry.groups], entry.size, entry.parts))
        self.size += entry.size

    def on(self, key: str, record: Record) -> Record:
        """The record, with what is laid over it."""
        line = self.lines.get(key)
        if line is None:
            return record
        return EMPTY if line.mark == NOTHING else changed(record, line.changes.values())

    def known(self, key: str) -> Record | None:
        """The record, if it can be told without what is kept."""
        line = self.lines.get(key)
        if line is None or NOTHING not in (line.mark, line.base):
            return None
        return self.on(key, EMPTY)

    def is_long(self, times: int = 1) -> bool:
        """Whether it should become shorter."""
        return len(self.entries) > times * ENTRIES or self.size > times * SIZE

    def oldest(self) -> int:
        """The number of the last entry that should go into the records when it is too long."""
        left = self.size
        for number, _, size, _ in self.entries:
            left -= size
            if left <= _less(SIZE) and self.entries[-1][0] - number <= _less(ENTRIES):
                return number
        return 0

    def pass_by(self, folded: int, part: int, bases: Mapping[str, int] | None = None, written: int = 0) -> None:
        """Entries up to this one are in the records now, and so many records of the next.

        Whoever has written them there knows with which marks, and that they contain the entries up to `written`.
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
            elif bases is not None and key in bases:
                line.base, line.based, line.written = bases[key], number + 1, written
            elif number >= line.based:
                line.base = None

    def read(self, key: str, mark: int, part: int) -> None:
        """A record is kept with this mark; so many records of the first entry are in the records already."""
        line = self.lines.get(key)
        if line is not None and line.base is None:
            number, keys, *_ = self.entries[0]
            line.base, line.based = mark, number + (key in keys[:part])

    def due(self, now: int) -> list[tuple[int, str]]:
        """Records with something laid over them that are due by now, each with its time."""
        return [(line.mark, key) for key, line in self.lines.items() if 0 < line.mark <= now]


def _less(many: int) -> int:
    return many - max(1, many // EIGHTH)


def changed(record: Record, changes: Iterable[Raw]) -> Record:
    """The record after these."""
    entries: dict[str, RecordEntry] = {**record.holds, **{each.id: each for each in record.waiters}, **record.notes}
    for raw in changes:
        if isinstance(raw, str):
            entries.pop(raw, None)
        else:
            entries[raw[1]] = unpack(raw)
    return build(entries.values()) if entries else EMPTY

"""The journal: one row for each commit that is not in the tables yet. It decides nothing.

A page of SQLite's log is written as a whole, and a commit of a few entries touches pages of several tables and
indexes. A long-running process writes one row instead. Now and then the journal is folded: the net effect of its
changes is written to the tables, and its rows are deleted, in one transaction (docs/adr/0032).

Readers lay the journal over the tables. A process folds it before it changes the tables. This module is only imported
where there is a journal, or where one is written.
"""

from __future__ import annotations

import apsw

from leasehold.domain.entries import Drop, Put
from leasehold.domain.records import due, unpack
from leasehold.stores.cache import Overlay
from leasehold.stores.sqlite import write, write_events
from leasehold.stores.sqlite.event_rows import parts_in, write_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeAlias

    from leasehold.domain.entries import Entry, Record
    from leasehold.domain.events import Event
    from leasehold.stores.cache import Place
    from leasehold.stores.sqlite.event_rows import Part
    from leasehold.stores.sqlite.meta import SqliteMeta

    Row: TypeAlias = tuple[list[Part], int, int]
    """The part of a row that is kept in memory: its events, its bytes, and the number of its changes and events."""

FULL = 5_000
"""Changes and events in it before it is folded: the next process that opens the database has to read the changes."""
LARGE = 1 << 20
"""Bytes in it before it is folded, if entries are large."""
DROPPED = "-"
"""A row is `[tags, changes, events]`: a change is `[key, fields]` with its entry's tag, or `[key, id]` with this."""

_APPEND = "INSERT INTO journal (number, fence, seq, now, body) VALUES (?, ?, ?, ?, ?)"
# As JSONB, which apsw decodes without any module of Python's: mostly a one-shot process reads all of it. Events would
# be two thirds of the work, and are not needed here.
_READ = """
SELECT jsonb_remove(body, '$[2]'), json_array_length(body, '$[2]'), octet_length(body)
FROM journal WHERE number > ? AND instr(body, ?) ORDER BY number
"""
_CHANGE = '["'
"""The beginning of a change; the key of its record follows."""


class SqliteJournal:
    """The journal in memory, as far as this process has read or written it; of events read, only their number."""

    __slots__ = ("_fresh", "_overlay", "_parts", "folded", "length", "number", "seq", "size", "told")

    def __init__(self) -> None:
        self.clear(-1)

    def clear(self, number: int) -> None:
        """Begin an empty journal after this row, which was folded."""
        self._overlay = Overlay()
        self.folded = self.number = number
        self.told = 0
        """Number of events in its rows."""
        self._parts: list[Part] = []
        """Those events that this process wrote."""
        self._fresh: Sequence[Event] = ()
        """Events that are not in a row yet. The newest of all is number `seq`."""
        self.seq = 0
        self.length = self.size = 0

    def has_room_for(self, changes: Sequence[Put | Drop], events: Sequence[Event]) -> bool:
        """Return True if the journal stays short enough for readers with these changes and events."""
        return self.length + len(changes) + len(events) <= FULL and self.size <= LARGE

    @property
    def first(self) -> int:
        """Return the number of the first event in it."""
        return self.seq - self.told - len(self._fresh) + 1

    def settle(self, meta: SqliteMeta) -> None:
        """Note the numbers of the database after a commit of this process."""
        if meta.number == meta.folded:
            self.clear(meta.number)
        self.number, self.seq = meta.number, meta.seq

    def catch_up(self, connection: apsw.Connection, meta: SqliteMeta, kind: str = "") -> None:
        """Read the rows that were added; with a kind of record, only rows that may change such a record."""
        if self.folded != meta.folded or self.number > meta.number:
            self.clear(meta.folded)
        if self.number != meta.number:
            self._read(connection, _CHANGE + kind)
            self.number = meta.number
        self.seq = meta.seq

    def _read(self, connection: apsw.Connection, said: str) -> None:
        """Read rows. Most entries were dropped soon after they were put: only those that are left are built."""
        left: dict[Place, tuple[str, Any]] = {}
        # Decode all rows first: if that fails, half of them must not stay in memory.
        rows = [(apsw.jsonb_decode(body), *sizes) for body, *sizes in connection.execute(_READ, (self.number, said))]
        for (tags, changes), told, size in rows:
            for tag, (key, what) in zip(tags, changes, strict=True):
                left[key, what if tag == DROPPED else what[0]] = (tag, what)
            self.told += told
            self.length += len(changes) + told
            self.size += size
        for (key, id_), (tag, what) in left.items():
            self._overlay.lay(key, id_, None if tag == DROPPED else unpack((tag, *what)))
        self._overlay.fresh.difference_update(left)

    def add(self, changes: Sequence[Put | Drop], events: Sequence[Event]) -> None:
        """Add events and changes that are folded with the rest; `follow` gets the changes, too."""
        self._fresh = events
        self.seq += len(events)
        self.length += len(changes) + len(events)

    def follow(self, changes: Sequence[Put | Drop], before: Mapping[str, Record]) -> None:
        """Add these changes to the net effect; `before` has the records as far as they are known."""
        self._overlay.add(changes, before)

    # --------------------------------------------------------------------------------------- reading

    def over(self, key: str, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries of a record as they are now, from those in the table."""
        return self._overlay.over(key, entries)

    def merged(self, kind: str, rows: Iterable[tuple[str, Entry]]) -> Iterator[tuple[str, Entry]]:
        """Merge entries of this kind of record from the table, which are in order of their keys, with those in here."""
        changed = self._overlay.changed
        ahead = [(key, entry) for key, _, entry in self._overlay.all() if entry is not None and key.startswith(kind)]
        ahead.sort(key=_key_of, reverse=True)
        for key, entry in rows:
            while ahead and ahead[-1][0] <= key:
                yield ahead.pop()
            if key not in changed or entry.id not in changed[key]:
                yield key, entry
        yield from reversed(ahead)

    def come_due(self, rows: Iterable[tuple[int, str, str]], now: int) -> list[tuple[int, str]]:
        """Return time and key of each entry that is due, the most urgent first; `rows` are due in the table."""
        changed = self._overlay.changed
        found = [(at, key) for at, key, id_ in rows if key not in changed or id_ not in changed[key]]
        times = [(due(entry), key) for key, _, entry in self._overlay.all() if entry is not None]
        return sorted([*found, *((at, key) for at, key in times if at is not None and at <= now)])

    # --------------------------------------------------------------------------------------- writing

    def write(
        self,
        cursor: apsw.Cursor,
        numbers: tuple[int, int, int],
        changes: Sequence[Put | Drop],
        events: Sequence[Event],
    ) -> Row:
        """Write one row, with the next fence, the newest event and the time. Pass it to `append` after the commit."""
        from leasehold.stores.sqlite.journal_rows import parts_of, row_of  # noqa: PLC0415 (not for one-shot processes)

        parts = parts_of(events)
        body = row_of(changes, parts)
        cursor.execute(_APPEND, (self.number + 1, *numbers, body))
        return parts, len(body), len(changes) + len(events)

    def append(self, row: Row) -> None:
        """Add a row that was committed."""
        parts, size, length = row
        self.told += sum([part[0] for part in parts])
        self._parts += parts
        self.size += size
        self.length += length

    def fold(self, cursor: apsw.Cursor) -> None:
        """Write the net effect to the tables and delete the rows. The caller writes the numbers and commits.

        The journal in memory stays as it is until `settle`, because the commit may fail.
        """
        changes = self._overlay.all()
        write(cursor, [Drop(key, id_) if entry is None else Put(key, entry) for key, id_, entry in changes])
        parts = self._parts if sum([part[0] for part in self._parts]) == self.told else parts_in(cursor)
        write_parts(cursor, parts, self.first)
        write_events(cursor, self._fresh, self.first + self.told)
        cursor.execute("DELETE FROM journal")


def _key_of(item: tuple[str, Entry]) -> str:
    return item[0]

"""The journal: what was committed as one row a commit and is not in the tables yet. It decides nothing.

A page of SQLite's log is written as a whole, and a commit of a few entries touches pages of several tables and
indexes. A process that stays writes everything into one row instead. Now and then the journal is folded: what its
changes come to is written to the tables, and its rows are deleted, in one transaction (docs/adr/0032).

Whoever looks lays the journal over the tables; whoever is about to change the tables folds it first. Only imported
where there is a journal, or where one is written.
"""

from __future__ import annotations

import apsw

from leasehold.model import Drop, Put
from leasehold.rules.timing import due
from leasehold.stores.codec import unpack
from leasehold.stores.netting import Netting
from leasehold.stores.sqlite import tell, write
from leasehold.stores.sqlite.chapters import event_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from leasehold.model import Entry, Event, Record
    from leasehold.stores.netting import Place
    from leasehold.stores.sqlite.database import Meta

FULL = 2_500
"""Changes and events in it before it is folded: whoever looks at the database first has to read all of them."""
LARGE = 1 << 20
"""The same in bytes, where entries are large."""
DROPPED = "-"
"""A row is `[tags, changes, events]`: a change is `[key, fields]` with its entry's tag, or `[key, id]` with this."""

_APPEND = "INSERT INTO journal (number, fence, seq, now, body) VALUES (?, ?, ?, ?, ?)"
# As apsw can read it without any module of Python's: who reads all of it is mostly a one-shot process.
_READ = "SELECT jsonb(CAST(body AS TEXT)), length(body) FROM journal WHERE number > ? ORDER BY number"


class Journal(Netting):
    """All of it, as far as it was read or written by us."""

    __slots__ = ("events", "folded", "keys", "length", "number", "seq", "size")

    def __init__(self) -> None:
        self.clear(-1)

    def clear(self, number: int) -> None:
        """There is nothing behind this row, which was folded."""
        super().__init__()
        self.folded = self.number = number
        self.keys: set[str] = set()
        """Of all those records, and of some of which nothing is left to say."""
        self.events: list[Event] = []
        """Without their numbers: the newest is `seq`."""
        self.seq = 0
        self.length = self.size = 0

    @property
    def is_full(self) -> bool:
        """Whether others would have to read for too long."""
        return self.length > FULL or self.size > LARGE

    def settle(self, meta: Meta) -> None:
        """This is how the database is after our commit."""
        if meta.number == meta.folded:
            self.clear(meta.number)
        self.number, self.seq = meta.number, meta.seq

    def catch_up(self, connection: apsw.Connection, meta: Meta) -> None:
        """Read what was added since the last time."""
        if self.folded != meta.folded or self.number > meta.number:
            self.clear(meta.folded)
        if self.number != meta.number:
            self._read(connection)
            self.number = meta.number
        self.seq = meta.seq

    def _read(self, connection: apsw.Connection) -> None:
        """Most of what was put was dropped soon after: only what is left is worth being built."""
        left: dict[Place, tuple[str, Any]] = {}
        # First all that may fail: half of it must not be remembered.
        rows = [(apsw.jsonb_decode(body), size) for body, size in connection.execute(_READ, (self.number,))]
        for (tags, changes, events), size in rows:
            for tag, (key, what) in zip(tags, changes, strict=True):
                left[key, what if tag == DROPPED else what[0]] = (tag, what)
            self.events += [event_of(fields, 0) for fields in events]
            self.length += len(changes) + len(events)
            self.size += size
        self.changed.update({place: _entry(*said) for place, said in left.items()})
        self.keys.update([key for key, _ in left])
        self.new.difference_update(left)

    def add(self, changes: Sequence[Put | Drop], events: Sequence[Event], before: Mapping[str, Record]) -> None:
        """We are about to commit this; as far as they are known, the records were so `before`."""
        self.net(changes, before)
        self.keys.update([change[0] for change in changes])
        self.events += events
        self.seq += len(events)
        self.length += len(changes) + len(events)

    # --------------------------------------------------------------------------------------- looking

    def lay_over(self, entries: dict[str, list[Entry]], keys: Iterable[str]) -> None:
        """Bring these records, as the table has them, up to date."""
        known = self.keys.intersection(keys)
        if not known:
            return
        changed = {place: entry for place, entry in self.changed.items() if place[0] in known}
        for key in known & entries.keys():
            entries[key] = [entry for entry in entries[key] if (key, entry.id) not in changed]
        for (key, _), entry in changed.items():
            if entry is not None:
                entries.setdefault(key, []).append(entry)

    def merged(self, kind: str, rows: Iterable[tuple[str, Entry]]) -> Iterator[tuple[str, Entry]]:
        """All entries of this kind of record in the order of their keys, from those in the table in the same order."""
        ahead = [(key, entry) for (key, _), entry in self.changed.items() if entry is not None and key.startswith(kind)]
        ahead.sort(key=_key_of, reverse=True)
        for key, entry in rows:
            while ahead and ahead[-1][0] <= key:
                yield ahead.pop()
            if (key, entry.id) not in self.changed:
                yield key, entry
        yield from reversed(ahead)

    def come_due(self, rows: Iterable[tuple[int, str, str]], now: int) -> list[tuple[int, str]]:
        """Time and key of what is due now, the most urgent first, from what is due in the table."""
        found = [(at, key) for at, key, id_ in rows if (key, id_) not in self.changed]
        times = [(due(entry), key) for (key, _), entry in self.changed.items() if entry is not None]
        return sorted([*found, *((at, key) for at, key in times if at is not None and at <= now)])

    # --------------------------------------------------------------------------------------- writing

    def append(
        self, cursor: apsw.Cursor, numbers: tuple[int, int, int], changes: Sequence[Put | Drop], events: Sequence[Event]
    ) -> None:
        """One row for these changes, which were added; with the next fence, the newest event and the time."""
        from leasehold.stores.sqlite.appending import row_of  # noqa: PLC0415 (not for one-shot processes)

        body = row_of(changes, events)
        cursor.execute(_APPEND, (self.number + 1, *numbers, body))
        self.size += len(body)

    def fold(self, cursor: apsw.Cursor, *, is_lasting: bool) -> None:
        """Write to the tables what it comes to, and empty it; the caller writes the numbers and commits.

        What is remembered here stays until `settle`: the transaction may yet come to nothing.
        """
        left = self.changed.items()
        write(cursor, [Drop(*place) if entry is None else Put(place[0], entry) for place, entry in left])
        first = self.seq - len(self.events) + 1
        if is_lasting:
            from leasehold.stores.sqlite.appending import tell_together  # noqa: PLC0415 (not for one-shot processes)

            tell_together(cursor, self.events, first)
        else:
            tell(cursor, self.events, first)
        cursor.execute("DELETE FROM journal")


def _key_of(item: tuple[str, Entry]) -> str:
    return item[0]


def _entry(tag: str, what: Any) -> Entry | None:  # noqa: ANN401 (any JSON value)
    return None if tag == DROPPED else unpack((tag, *what))

"""The records that a store keeps in memory: those loaded last, and changes that are not in its tables yet. Pure.

A store keeps loaded records in a dict, the oldest first, and clears it when another process has changed the store. The
journals of SQLite, PostgreSQL and etcd keep their changes in an `Overlay`. How a journal is persisted, and moved into
the tables, differs from store to store.
"""

from __future__ import annotations

from leasehold.domain.entries import Put
from leasehold.domain.records import apply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeAlias

    from leasehold.domain.entries import Drop, Entry, Record

    Place: TypeAlias = tuple[str, str]
    """The key of a record, and the id of an entry in it."""

RECORDS = 20_000
"""Records that are cached by default, absent ones included.

More do not make a server faster, because a record that is used again is mostly used soon. Each takes about 1.8 KiB, and
Python's garbage collector visits all of them."""
_WAITER = "w"
"""Only ids of waiters begin with this (see ``leasehold.domain.keys``)."""


def follow(records: dict[str, Record], changes: Sequence[Put | Drop]) -> None:
    """Apply committed changes to cached records. A record that is not cached stays so."""
    for change in changes:
        key = change.key
        before = records.pop(key, None)
        if before is not None:
            records[key] = apply(before, change)  # now the youngest: records in use are evicted last


def evict(records: dict[str, Record], limit: int) -> None:
    """Evict the oldest quarter and all beyond the limit. Not during a transaction: it relies on what it loaded."""
    for key in list(records)[: len(records) - limit * 3 // 4]:
        del records[key]


class Overlay:
    """Each changed entry as it is now, or None if it was dropped."""

    __slots__ = ("_unpack", "changed", "fresh")

    def __init__(self, unpack: Callable[[Any], Entry] | None = None) -> None:
        self._unpack = unpack
        """Turns what `lay` was given into an entry, if that is something else."""
        self.changed: dict[str, dict[str, Any]] = {}
        """By the record's key and the entry's id."""
        self.fresh: set[Place] = set()
        """Entries that the tables certainly lack. Once such an entry is dropped, it leaves no change."""

    def add(self, changes: Sequence[Put | Drop], before: Mapping[str, Record]) -> None:
        """Add changes on top. `before` has the records that are known, as they were before these changes."""
        changed, fresh = self.changed, self.fresh
        for change in changes:
            if isinstance(change, Put):
                key, entry = change
                of_record = changed.get(key)
                if of_record is None:
                    of_record = changed[key] = {}
                if entry.id not in of_record and is_new(entry.id, before.get(key)):
                    fresh.add((key, entry.id))
                of_record[entry.id] = entry
            elif change in fresh:
                fresh.remove(change)
                del changed[change[0]][change[1]]
            else:
                self.lay(change[0], change[1], None)

    def lay(self, key: str, id_: str, what: object) -> None:
        """Replace one entry; None drops it. The tables may have it."""
        of_record = self.changed.get(key)
        if of_record is None:
            of_record = self.changed[key] = {}
        of_record[id_] = what

    def forget(self, key: str) -> None:
        """Forget the changes of this record: they are in the tables."""
        self.changed.pop(key, None)

    def over(self, key: str, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries of a record as they are now, from those in the table."""
        changed = self.changed.get(key)
        return list(entries) if not changed else laid_over(entries, changed, self._unpack)

    def all(self) -> Iterator[tuple[str, str, Any]]:
        """Return key, id and entry of each change; None for a dropped entry."""
        return ((key, id_, what) for key, of_record in self.changed.items() for id_, what in of_record.items())


def laid_over(
    entries: Iterable[Entry], changed: Mapping[str, Any], unpack: Callable[[Any], Entry] | None = None
) -> list[Entry]:
    """Return the entries of one record with these changes, which are by id, laid over them."""
    left = [what for what in changed.values() if what is not None]
    now = [entry for entry in entries if entry.id not in changed]
    now += left if unpack is None else map(unpack, left)
    return now


def entries_of(record: Record) -> list[Entry]:
    """Return all entries of a record."""
    return [*record.holds.values(), *record.waiters, *record.notes.values()]


def is_new(id_: str, record: Record | None) -> bool:
    """Return True if the record certainly has no entry of this id."""
    if record is None or id_ in record.holds or id_ in record.notes:
        return False
    return not record.waiters or id_[:1] != _WAITER

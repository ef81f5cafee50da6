"""A bounded cache of records. Its owner clears it when another process has changed the store."""

from __future__ import annotations

from leasehold.domain.records import apply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leasehold.domain.entries import Drop, Put, Record

RECORDS = 20_000
"""Records that are cached by default, absent ones included.

More do not make a server faster, because a record that is used again is mostly used soon. Each takes about 1.8 KiB, and
Python's garbage collector visits all of them."""


class Cache:
    """The records that were loaded or written last: between transactions, at most `limit` of them."""

    __slots__ = ("_limit", "records")

    def __init__(self, limit: int = RECORDS) -> None:
        self._limit = limit
        self.records: dict[str, Record] = {}

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Return which of these are not cached."""
        records = self.records
        return [key for key in dict.fromkeys(keys) if key not in records]

    def follow(self, changes: Sequence[Put | Drop]) -> None:
        """Apply committed changes. A record that is not cached stays so."""
        records = self.records
        for change in changes:
            key = change.key
            before = records.pop(key, None)
            if before is not None:
                records[key] = apply(before, change)  # now the youngest: records in use are evicted last

    def renew(self, changed: Mapping[str, Record]) -> None:
        """Replace records by what a commit made of them. All of them were loaded."""
        self.records.update(changed)  # they keep their age: to evict one only costs a load

    def trim(self) -> None:
        """Evict the oldest quarter if there are too many. Not during a transaction: it relies on what it loaded."""
        records = self.records
        if len(records) > self._limit:
            for key in list(records)[: len(records) - self._limit * 3 // 4]:
                del records[key]

    def clear(self) -> None:
        """Forget all records: another process has written."""
        self.records.clear()

"""Records kept in memory while nobody else has changed the store. It does not know when that is: its owner does."""

from __future__ import annotations

from leasehold.domain.records import apply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leasehold.domain.entries import Drop, Put, Record

RECORDS = 20_000
"""So many records are remembered by default; that there is nothing under a key is remembered as well.

More of them do not make a server faster, since what is asked for again is mostly asked for soon. But each takes
about 1.8 KiB, and Python looks through all of them whenever it collects its garbage."""


class Cache:
    """The records that were loaded or written last, at most `limit` of them between transactions."""

    __slots__ = ("_limit", "records")

    def __init__(self, limit: int = RECORDS) -> None:
        self._limit = limit
        self.records: dict[str, Record] = {}

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Which of these are not here."""
        records = self.records
        return [key for key in dict.fromkeys(keys) if key not in records]

    def follow(self, changes: Sequence[Put | Drop]) -> None:
        """These changes were written. A record that is not here stays unknown."""
        records = self.records
        for change in changes:
            key = change.key
            before = records.pop(key, None)
            if before is not None:
                records[key] = apply(before, change)  # now the youngest: what is in use is forgotten last

    def renew(self, changed: Mapping[str, Record]) -> None:
        """The same, of whoever knows what became of these records, all of which were loaded."""
        self.records.update(changed)  # they stay as old as they were: to forget one of them costs a look, no more

    def trim(self) -> None:
        """Forget the oldest quarter if there are too many. Never during a transaction: what was loaded must stay."""
        records = self.records
        if len(records) > self._limit:
            for key in list(records)[: len(records) - self._limit * 3 // 4]:
                del records[key]

    def clear(self) -> None:
        """Somebody else wrote: nothing here can be trusted."""
        self.records.clear()

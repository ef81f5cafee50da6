"""The records of PostgreSQL that a server caches between its turns, perhaps all of them.

The next turn checks if they are still true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.entries import EMPTY
from leasehold.stores.cache import RECORDS, evict, follow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leasehold.domain.entries import Drop, Put, Record


class PostgresCache:
    """Cached records. While it is whole, no others exist, except those that other servers have changed."""

    __slots__ = ("_limit", "_unknown", "is_whole", "records")

    def __init__(self, limit: int = RECORDS) -> None:
        self._limit = limit
        self.records: dict[str, Record] = {}
        self.is_whole = False
        self._unknown: set[str] = set()
        """Keys that other servers have changed; some may have been loaded since."""

    def know_all(self, records: Mapping[str, Record]) -> None:
        """Cache these records, which are all that exist."""
        self.clear()
        self.records.update(records)
        self.is_whole = True

    def forget(self, keys: Iterable[str]) -> None:
        """Forget records that another server has changed."""
        for key in keys:
            self.records.pop(key, None)
            if self.is_whole:
                self._unknown.add(key)

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Return which of these are not cached. While it is whole, absent records are cached as empty."""
        records, unknown, missing = self.records, self._unknown, []
        if not self.is_whole:
            return [key for key in dict.fromkeys(keys) if key not in records]
        for key in keys:
            if key not in records:
                if key in unknown:
                    missing.append(key)
                else:
                    records[key] = EMPTY
        return missing

    def follow(self, changes: Sequence[Put | Drop]) -> None:
        """Apply committed changes."""
        if self.is_whole:
            self.missing([change.key for change in changes])
        follow(self.records, changes)

    def trim(self) -> None:
        """Evict records if there are too many: first absent ones, then the oldest quarter."""
        records = self.records
        if self.is_whole and len(records) > self._limit:
            for key in [key for key, record in records.items() if record is EMPTY]:
                del records[key]
            self.is_whole = len(records) <= self._limit // 2
        if len(self._unknown) > self._limit:
            self.is_whole = False
        if len(records) > self._limit:
            evict(records, self._limit)

    def clear(self) -> None:
        """Forget all records."""
        self.records.clear()
        self._unknown.clear()
        self.is_whole = False

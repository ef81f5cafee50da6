"""The records of PostgreSQL that a server remembers between its turns, perhaps all of them.

It does not know whether that is still true; the next turn finds out.
"""

from __future__ import annotations

from leasehold.domain.entries import EMPTY
from leasehold.stores.cache import RECORDS, Cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leasehold.domain.entries import Drop, Put, Record


class PostgresCache:
    """Cached records. While it is whole, no others exist, except those known to have changed."""

    __slots__ = ("_cache", "_limit", "_unknown", "is_whole", "records")

    def __init__(self, limit: int = RECORDS) -> None:
        self._limit = limit
        self._cache = Cache(limit)
        """Bounded cache, used until all records are loaded."""
        self.records = self._cache.records
        self.is_whole = False
        self._unknown: set[str] = set()
        """Those, some of which may have been loaded since."""

    def know_all(self, records: Mapping[str, Record]) -> None:
        """These are all that there are."""
        self.clear()
        self.records.update(records)
        self.is_whole = True

    def forget(self, keys: Iterable[str]) -> None:
        """Somebody else has changed these."""
        for key in keys:
            self.records.pop(key, None)
            if self.is_whole:
                self._unknown.add(key)

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Which of these are not here; those that there are not, are here as empty ones."""
        if not self.is_whole:
            return self._cache.missing(keys)
        records, unknown, missing = self.records, self._unknown, []
        for key in keys:
            if key not in records:
                if key in unknown:
                    missing.append(key)
                else:
                    records[key] = EMPTY
        return missing

    def follow(self, changes: Sequence[Put | Drop]) -> None:
        """These changes were written."""
        if self.is_whole:
            self.missing([change.key for change in changes])
        self._cache.follow(changes)

    def renew(self, changed: Mapping[str, Record]) -> None:
        """Apply the changed records as the caller has worked them out."""
        if self.is_whole:  # nothing that is there is ever forgotten: it does not matter which were used last
            self.records.update(changed)
        else:
            self._cache.renew(changed)

    def trim(self) -> None:
        """Forget the oldest quarter if there are too many; but first those that there are not."""
        records = self.records
        if self.is_whole and len(records) > self._limit:
            for key in [key for key, record in records.items() if record is EMPTY]:
                del records[key]
            self.is_whole = len(records) <= self._limit // 2
        if len(self._unknown) > self._limit:
            self.is_whole = False
        self._cache.trim()

    def clear(self) -> None:
        """Somebody else wrote: nothing here can be trusted."""
        self._cache.clear()
        self._unknown.clear()
        self.is_whole = False

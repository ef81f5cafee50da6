"""The journal in its writer's memory: what it has changed since all was in the table. It sends nothing.

The writer never reads it from PostgreSQL. Other servers fold it into the table first, in SQL, and readers see it
through a view (docs/adr/0033).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.stores.cache import Overlay
from leasehold.stores.postgres.rows import as_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasehold.domain.entries import Entry, Record
    from leasehold.stores.postgres.round_trip import Values
    from leasehold.stores.postgres.rows import TurnChanges

FULL = 2_500
"""Changes in it before it is folded: every reader has to lay them over the table."""
LARGE = 1 << 20
"""Bytes in it before it is folded, if entries are large."""


class PostgresJournal:
    """Changes of this server's last turns that are not in the table."""

    __slots__ = ("_length", "_overlay", "_size", "newest", "since")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin an empty journal: all is in the table."""
        self._overlay = Overlay()
        self.since: int | None = None
        """The number of the turn that it begins with."""
        self.newest = b""
        """The changes of the last turn as they are written to PostgreSQL."""
        self._length = self._size = 0

    def add(self, number: int, turn: TurnChanges, before: Mapping[str, Record]) -> int | None:
        """Add the changes of a turn; return the turn that the journal begins with. None: it is full, so fold it.

        Until the turn is committed, this journal is ahead of the table `page`. If the commit fails, no turn may be
        assumed before one was waited for and committed, which folds the journal.
        """
        self.newest = turn.as_journal()
        self._overlay.add(turn.changes, before)
        self._length += len(turn.changes)
        self._size += len(self.newest)
        return None if self._length > FULL or self._size > LARGE else self.since or number

    def settle(self, since: int | None) -> None:
        """Note that the turn was committed."""
        if since is None:
            self.clear()
        self.since = since

    def folded(self) -> Values:
        """Return its net effect as the values that write it into the table."""
        drops: list[tuple[str, str]] = []
        fresh: dict[tuple[str, str], Entry] = {}
        others: dict[tuple[str, str], Entry] = {}
        for key, id_, entry in self._overlay.all():
            if entry is None:
                drops.append((key, id_))
            else:
                (fresh if (key, id_) in self._overlay.fresh else others)[key, id_] = entry
        return as_rows(drops, fresh, others)

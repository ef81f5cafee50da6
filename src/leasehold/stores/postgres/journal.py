"""The journal as its writer knows it: what it has changed since all was in the table. It sends nothing.

Its writer never reads it. Others fold it into the table first, in SQL, or overlay it in a view (docs/adr/0033).
"""

from __future__ import annotations

from leasehold.stores.overlay import Overlay
from leasehold.stores.postgres.rows import as_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leasehold.domain.entries import Drop, Entry, Put, Record
    from leasehold.stores.postgres.exchange import Values
    from leasehold.stores.postgres.rows import Writing

FULL = 2_500
"""Changes in it before it is folded: every reader has to overlay them on the table."""
LARGE = 1 << 20
"""The same in bytes, where entries are large."""
LITTLE = 50
"""If not more entries are left than one of so many changes, half of that is enough."""


class Journal:
    """Changes of our last turns that are not in the table."""

    __slots__ = ("_length", "_overlay", "_size", "newest", "since")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """All is in the table."""
        self._overlay = Overlay()
        self.since: int | None = None
        """The turn that it begins with."""
        self.newest = b""
        """The changes of the last turn, as they are written."""
        self._length = self._size = 0

    def add(
        self, number: int, changes: Sequence[Put | Drop], writing: Writing, before: Mapping[str, Record]
    ) -> int | None:
        """The turn of this number leaves these. Since when there is a journal; None: it is full, and to be folded.

        Until that is committed, what is remembered here is ahead. If it never is, no turn may be assumed before one
        was waited for and committed: after that there is no journal.
        """
        self.newest = writing.as_journal()
        self._overlay.add(changes, before)
        self._length += len(changes)
        self._size += len(self.newest)
        return None if self._is_full() else self.since or number

    def _is_full(self) -> bool:
        """Return True if the journal is long, or half as long while hardly an entry of it would go into the table."""
        if self._length > FULL or self._size > LARGE:
            return True
        if self._length <= FULL // 2:
            return False
        return sum([entry is not None for _, _, entry in self._overlay.all()]) <= self._length // LITTLE

    def settle(self, since: int | None) -> None:
        """That was committed."""
        if since is None:
            self.clear()
        self.since = since

    def folded(self) -> Values:
        """All that is in it, as rows of the table."""
        drops: list[tuple[str, str]] = []
        fresh: dict[tuple[str, str], Entry] = {}
        others: dict[tuple[str, str], Entry] = {}
        for key, id_, entry in self._overlay.all():
            if entry is None:
                drops.append((key, id_))
            else:
                (fresh if (key, id_) in self._overlay.fresh else others)[key, id_] = entry
        return as_rows(drops, fresh, others)

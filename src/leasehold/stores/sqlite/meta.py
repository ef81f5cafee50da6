"""The version of the schema, and what a database records about itself."""

from __future__ import annotations

APPLICATION_ID = 0x1EA5E401
SCHEMA_VERSION = 7
"""Of `schema.sql`, and of what is packed in it. A database of another version is refused."""

EVENTS_MOST = 128
"""No row of the table `event` has more events."""

READ_META = """
SELECT coalesce(last.fence, meta.fence), coalesce(last.seq, meta.seq), coalesce(last.now, meta.now),
    boot, offset, database, folded, coalesce(last.number, folded)
FROM meta
LEFT JOIN (SELECT number, fence, seq, now FROM journal ORDER BY number DESC LIMIT 1) AS last ON last.number > folded
"""


class SqliteMeta:
    """The row about the database itself; the newest row of its journal replaces the first three numbers."""

    __slots__ = ("boot", "database", "fence", "folded", "now", "number", "offset", "seq")

    def __init__(  # noqa: PLR0917 (as they stand in a row)
        self, fence: int, seq: int, now: int, boot: str, offset: int, database: str, folded: int = 0, number: int = 0
    ) -> None:
        self.fence = fence
        self.seq = seq
        self.now = now
        self.boot = boot
        self.offset = offset
        self.database = database
        self.folded = folded
        """Rows of the journal up to this one are in the tables."""
        self.number = number
        """The newest row of the journal; if it equals `folded`, the journal is empty."""

"""Which schema a database has, and what it records about itself."""

from __future__ import annotations

APPLICATION_ID = 0x1EA5E401
SCHEMA_VERSION = 5
"""Of `schema.sql`, and of what is packed in it. A database of another version is refused."""

READ_META = """
SELECT coalesce(last.fence, newest.next, meta.fence), coalesce(last.seq, newest.seq, meta.seq),
    coalesce(last.now, newest.at, meta.now), boot, offset, database, folded, coalesce(last.number, folded)
FROM meta
LEFT JOIN (SELECT seq, at, next FROM event ORDER BY seq DESC LIMIT 1) AS newest ON newest.seq > meta.seq
LEFT JOIN (SELECT number, fence, seq, now FROM journal ORDER BY number DESC LIMIT 1) AS last ON last.number > folded
"""


class SqliteMeta:
    """The row about the database itself, or what replaces it: its newest event, or the end of its journal."""

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
        """Up to here the rows of the journal are in the tables."""
        self.number = number
        """The newest row of the journal; if it is `folded`, there is none."""

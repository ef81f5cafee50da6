"""Forgetting old history, a little at a time, so that nobody waits long for a turn."""

from __future__ import annotations

import apsw

from leasehold.model import SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.stores.sqlite.database import Database

CHUNK = 1_000
_DAY = 24 * 3_600 * SECOND
# Events stand in the order of their times, so the old ones are all at the beginning.
_FORGET = """
DELETE FROM event
WHERE seq IN (SELECT seq FROM event ORDER BY seq LIMIT ?) AND (at < ? OR seq <= ?)
"""


def prune(database: Database, days: int, rows: int) -> int:
    """Forget what is older than so many days, and all but the newest so many rows; how many went."""
    gone = 0
    while (went := _prune_some(database, days, rows)) == CHUNK:
        gone += went
    return gone + went


def _prune_some(database: Database, days: int, rows: int) -> int:
    database.enter()
    try:
        meta = database.meta
        now = database.time(meta)
        database.connection.execute(_FORGET, (CHUNK, now - days * _DAY, meta.seq - rows))
        went = database.connection.changes()
        if went:
            database.commit(meta.fence, 0, now)
    except apsw.Error as error:
        raise database.explain(error) from error
    finally:
        database.leave()
    return went

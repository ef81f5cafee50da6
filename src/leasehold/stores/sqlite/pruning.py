"""Forgetting old history, a bounded number of events at a time, so that nobody waits long for a turn."""

from __future__ import annotations

import apsw

from leasehold.model import SECOND
from leasehold.noun import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.stores.sqlite.database import Database

STEP = 1_000
"""At most so many events at once."""
_DAY = 24 * 3_600 * SECOND
# Events stand in the order of their times, so the old ones are all at the beginning.
_OLDEST = "SELECT seq, at FROM event ORDER BY seq LIMIT 1"
_FORGET = """
DELETE FROM event
WHERE seq IN (SELECT seq FROM event ORDER BY seq LIMIT ?) AND (at < ? OR seq <= ?)
"""


class Retention(Noun):
    """How much history is kept: so many days, and of those only the newest so many events."""

    days: int
    rows: int


def prune(database: Database, retention: Retention) -> int:
    """In a turn of its own; how many events went. 0: there is nothing left to forget."""
    database.enter()
    try:
        meta = database.meta
        now = database.time(meta)
        went = trim(database.connection, retention, meta.seq, now)
        if went:
            database.commit(meta.fence, 0, now)
            database.trust()
    except apsw.Error as error:
        raise database.explain(error) from error
    finally:
        database.leave()
    return went


def trim(connection: apsw.Connection, retention: Retention, newest: int, now: int, written: int = 0) -> int:
    """In the transaction under way, which has written so many events; how many went.

    Twice as many as were written, at least: so a history that is trimmed whenever it grows does not fall behind.
    """
    before, last = now - retention.days * _DAY, newest - retention.rows
    oldest = connection.execute(_OLDEST).fetchone()
    if oldest is None or (oldest[0] > last and oldest[1] >= before):
        return 0
    connection.execute(_FORGET, (max(STEP, 2 * written), before, last))
    return connection.changes()

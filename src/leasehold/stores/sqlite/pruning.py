"""Forgetting old history, a bounded number of events at a time, so that nobody waits long for a turn."""

from __future__ import annotations

import apsw

from leasehold.domain.nouns import Noun
from leasehold.domain.timestamps import SECOND
from leasehold.stores.sqlite.event_rows import OLDEST, events_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.stores.sqlite.database import Database

STEP = 1_000
"""At most so many events at once."""
LITTLE = 64
"""One in so many is a little."""
_DAY = 24 * 3_600 * SECOND
# Events stand in the order of their times, so the old ones are all at the beginning.
_ROWS = "SELECT seq, first, at FROM event ORDER BY seq LIMIT ?"
_BODY = "SELECT jsonb(body) FROM event WHERE seq = ?"
_FORGET = "DELETE FROM event WHERE seq <= ?"
_SHORTEN = "UPDATE event SET first = ? WHERE seq = ?"


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
        is_folded = meta.number != meta.folded
        if is_folded and database.journal is not None:
            database.journal.fold(database.cursor)
        went = trim(database.connection, retention, meta.seq, now)
        if went or is_folded:
            database.doubt()
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
    if not _is_there(connection, before, last):
        return 0
    return _forget(connection, max(STEP, 2 * written), before, last)


def is_overdue(connection: apsw.Connection, retention: Retention, newest: int, now: int, journalled: int) -> bool:
    """Return True if there is more than a little to forget, in the table or, from this event on, in the journal.

    A little is a part of what is to be kept: it goes when the journal is folded anyway.
    """
    days, rows = retention.days * _DAY, retention.rows
    last = newest - rows - rows // LITTLE
    return journalled <= last or _is_there(connection, now - days - days // LITTLE, last)


def _is_there(connection: apsw.Connection, before: int, last: int) -> bool:
    """Return True if the table has an event from before this time, or up to this number."""
    oldest = connection.execute(OLDEST).fetchone()
    return oldest is not None and (oldest[1] <= last or oldest[2] < before)


def _forget(connection: apsw.Connection, most: int, before: int, last: int) -> int:
    """At most so many events: those before this time, and those up to this number."""
    went, through = 0, 0
    for seq, first, at in list(connection.execute(_ROWS, (most,))):
        if (at < before or seq <= last) and went + seq - first < most:
            went, through = went + seq - first + 1, seq
            continue
        events = events_in(connection.execute(_BODY, (seq,)).get, seq, first)
        old = min(most - went, sum([event.at_us < before or event.seq <= last for event in events]))
        if old:
            connection.execute(_SHORTEN, (first + old, seq))
        went += old
        break
    connection.execute(_FORGET, (through,))
    return went

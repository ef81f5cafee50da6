"""Delete old history, a bounded number of events at a time, so that no other transaction waits long."""

from __future__ import annotations

import apsw

from leasehold.domain.nouns import Noun
from leasehold.domain.timestamps import SECOND
from leasehold.stores.sqlite.event_rows import OLDEST, events_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.stores.sqlite.database import Database

STEP = 1_000
"""The most events deleted at once."""
LITTLE = 64
"""A history may exceed its retention by this part of it before that counts as overdue."""
_DAY = 24 * 3_600 * SECOND
# Events are in the order of their times, so the old ones are at the beginning.
_ROWS = "SELECT seq, first, at FROM event ORDER BY seq LIMIT ?"
_BODY = "SELECT jsonb(body) FROM event WHERE seq = ?"
_FORGET = "DELETE FROM event WHERE seq <= ?"
_SHORTEN = "UPDATE event SET first = ? WHERE seq = ?"


class Retention(Noun):
    """How much history is kept: so many days, and of those the newest so many events."""

    days: int
    rows: int


def prune(database: Database, retention: Retention) -> int:
    """Delete some events in a turn of its own; return how many. 0: nothing is left to delete."""
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
    """Delete some events in the current transaction, which has written so many; return how many.

    At least twice as many as were written, so that a history that is trimmed whenever it grows does not fall behind.
    """
    before, last = now - retention.days * _DAY, newest - retention.rows
    if not _is_there(connection, before, last):
        return 0
    return _forget(connection, max(STEP, 2 * written), before, last)


def is_overdue(connection: apsw.Connection, retention: Retention, newest: int, now: int, journalled: int) -> bool:
    """Return True if history exceeds its retention by more than a little, in the table or in the journal.

    A little can wait until the journal is folded. The journal begins with event number `journalled`.
    """
    days, rows = retention.days * _DAY, retention.rows
    last = newest - rows - rows // LITTLE
    return journalled <= last or _is_there(connection, now - days - days // LITTLE, last)


def _is_there(connection: apsw.Connection, before: int, last: int) -> bool:
    """Return True if the table has an event from before this time, or up to this number."""
    oldest = connection.execute(OLDEST).fetchone()
    return oldest is not None and (oldest[1] <= last or oldest[2] < before)


def _forget(connection: apsw.Connection, most: int, before: int, last: int) -> int:
    """Delete at most so many events: those before this time, and those up to this number."""
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

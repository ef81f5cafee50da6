"""Rows of the table `event`, each with up to `EVENTS_MOST` events as a JSON array. It decides nothing.

A row for each event would cost three times as much to write. A query skips most rows by `condition`, and checks the
events of the others in Python.
"""

from __future__ import annotations

import apsw

from leasehold.domain.records import unpack_event
from leasehold.stores.sqlite.meta import EVENTS_MOST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from leasehold.domain.events import Event
    from leasehold.stores import HistoryQuery

    Part: TypeAlias = tuple[int, int, str]
    """Events of one commit: how many, the time of the last, and their JSON arrays with commas between them."""

# Counted from the end, because those before `first` are deleted.
OLDEST = "SELECT seq, first, body ->> ('$[#-' || (seq - first + 1) || '][1]') FROM event ORDER BY seq LIMIT 1"
"""The first row: the numbers of its last and its first event, and the time of the first."""
_WRITE_TEXT = "INSERT INTO event (seq, first, at, body) VALUES (?, ?, ?, ?)"
_PARTS = """
SELECT number, json_array_length(body, '$[2]'), max(now, coalesce(body ->> '$[2][#-1][1]', 0)), body -> '$[2]'
FROM journal ORDER BY number
"""
_PARTS_OF_LONG = """
SELECT count(*), max(value ->> '$[1]'), json_group_array(json(value) ORDER BY key)
FROM (SELECT key, value FROM journal, json_each(body, '$[2]') WHERE number = ?)
GROUP BY key / ? ORDER BY key / ?
"""


def write_parts(cursor: apsw.Cursor, parts: Sequence[Part], first: int) -> None:
    """Write the events of several commits, numbered from `first`, with as many in a row as there is room for."""
    some: list[Part] = []
    count = 0
    for part in (*parts, None):
        if some and (part is None or count + part[0] > EVENTS_MOST):
            newest = max([at for _, at, _ in some])
            cursor.execute(_WRITE_TEXT, (first + count - 1, first, newest, joined(some)))
            some, first, count = [], first + count, 0
        if part is not None:
            some.append(part)
            count += part[0]


def joined(parts: Sequence[Part]) -> str:
    """Return the array of all their events."""
    return f"[{','.join([text for _, _, text in parts])}]"


def parts_in(cursor: apsw.Cursor) -> list[Part]:
    """Return all events of the journal as they are stored there."""
    found: list[Part] = []
    for number, count, at, text in list(cursor.execute(_PARTS)):
        if count > EVENTS_MOST:
            found += [
                (*sizes, one[1:-1])
                for *sizes, one in cursor.execute(_PARTS_OF_LONG, (number, EVENTS_MOST, EVENTS_MOST))
            ]
        elif count:
            found.append((count, at, text[1:-1]))
    return found


def events_in(body: bytes, last: int, first: int = 0) -> list[Event]:
    """Return the events from number `first` on, newest first. `body` is JSONB, and ends with event number `last`."""
    packed = apsw.jsonb_decode(body)
    whole = last - len(packed) + 1
    return [unpack_event(fields, seq) for seq, fields in enumerate(packed, whole) if seq >= first][::-1]


def condition(query: HistoryQuery) -> tuple[str, list[str | int]]:
    """Return SQL that is true for every row with a wanted event, and may be true for others; and its values."""
    found, bindings = ["true"], list[str | int]()
    if query.since is not None:
        found.append("at >= ?")
        bindings.append(query.since)
    if query.before is not None:
        found.append("first < ? AND seq < ?")
        bindings += [query.before, query.before + EVENTS_MOST]
    for words in ((query.space,), (query.resource,), (query.holder,), (query.lease,), query.kinds):
        # Every encoder of JSON writes printable words without these two unchanged.
        plain = [word for word in words if word is not None and word.isprintable() and not {'"', "\\"} & set(word)]
        if plain and len(plain) == len(words):
            found.append(f"({' OR '.join(['instr(body, ?)'] * len(plain))})")
            bindings += [f'"{word}"' for word in plain]
    return " AND ".join(found), bindings

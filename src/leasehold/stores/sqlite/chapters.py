"""Chapters: many events in one row, as they come from the journal. Writes, reads and shortens them; decides nothing.

A row for each event costs three times as much to write. Who looks for something in particular need not read them all:
`conditions` rules out most chapters, and what is read is put to the query itself.
"""

from __future__ import annotations

import apsw

from leasehold.stores.codec import unpack_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from leasehold.domain.events import Event
    from leasehold.stores import HistoryQuery

    Part: TypeAlias = tuple[int, int, bytes]
    """How many events, the time of the last, and what they are in JSON: arrays with commas between them."""

MOST = 128
"""No chapter of any version has more events than this."""

BODY = "iif(first IS NULL, NULL, jsonb(CAST(resources AS TEXT)))"
"""Of a chapter, as apsw can read it without any module of Python's; of a lone event nothing."""
# Counted from the end, as those before `first` do not count.
OLDEST = """
SELECT seq, coalesce(first, seq),
    iif(first IS NULL, at, json_extract(CAST(resources AS TEXT), '$[#-' || (seq - first + 1) || '][1]'))
FROM event ORDER BY seq LIMIT 1
"""
"""The first row: its last event, its first event, and the time of that one."""
_PARTS = """
SELECT number, json_array_length(CAST(body AS TEXT), '$[2]'),
    max(now, coalesce(CAST(body AS TEXT) ->> '$[2][#-1][1]', 0)), CAST(body AS TEXT) -> '$[2]'
FROM journal ORDER BY number
"""
_PARTS_OF_LONG = """
SELECT count(*), max(value ->> '$[1]'), json_group_array(json(value) ORDER BY key)
FROM (SELECT key, value FROM journal, json_each(CAST(body AS TEXT), '$[2]') WHERE number = ?)
GROUP BY key / ? ORDER BY key / ?
"""
_TELL_TOGETHER = """
INSERT INTO event (seq, at, kind, space, fence, holder, resources, first) VALUES (?, ?, '', '', 0, '', ?, ?)
"""


def joined(parts: Sequence[Part]) -> bytes:
    """The array of all their events."""
    return b"[%b]" % b",".join([text for _, _, text in parts])


def parts_in(cursor: apsw.Cursor) -> list[Part]:
    """All events of the journal, as they stand there."""
    found: list[Part] = []
    for number, count, at, text in list(cursor.execute(_PARTS)):
        if count > MOST:
            found += [(*sizes, _inside(one)) for *sizes, one in cursor.execute(_PARTS_OF_LONG, (number, MOST, MOST))]
        elif count:
            found.append((count, at, _inside(text)))
    return found


def _inside(array: str) -> bytes:
    return array.encode()[1:-1]


def tell_together(cursor: apsw.Cursor, parts: Sequence[Part], first: int) -> None:
    """Write these events, which are numbered from `first`, as chapters."""
    if parts:
        cursor.executemany(_TELL_TOGETHER, _rows(parts, first))


def _rows(parts: Sequence[Part], first: int) -> list[tuple[int, int, bytes, int]]:
    rows: list[tuple[int, int, bytes, int]] = []
    some: list[Part] = []
    count = 0
    for part in (*parts, None):
        if some and (part is None or count + part[0] > MOST):
            rows.append((first + count - 1, max([at for _, at, _ in some]), joined(some), first))
            some, first, count = [], first + count, 0
        if part is not None:
            some.append(part)
            count += part[0]
    return rows


def events_in(body: bytes, last: int, first: int = 0) -> list[Event]:
    """All from number `first` on, oldest first; the others are forgotten."""
    told = apsw.jsonb_decode(body)
    whole = last - len(told) + 1
    return [unpack_event(fields, seq) for seq, fields in enumerate(told, whole) if seq >= first]


def conditions(query: HistoryQuery) -> tuple[list[str], list[str | int | bytes]]:
    """Return a condition that holds for every chapter with a wanted event, and may hold for others."""
    found, bindings = ["first IS NOT NULL"], list[str | int | bytes]()
    if query.since is not None:
        found.append("at >= ?")
        bindings.append(query.since)
    if query.before is not None:
        found.append("first < ?")
        bindings.append(query.before)
    for words in ((query.space,), (query.resource,), (query.holder,), (query.lease,), query.kinds):
        if words and all(word is not None and _is_plain(word) for word in words):
            found.append(f"({' OR '.join(['instr(resources, ?)'] * len(words))})")
            bindings += [f'"{word}"'.encode() for word in words]
    return found, bindings


def _is_plain(word: str) -> bool:
    """Return True if every encoder of JSON writes this text unchanged."""
    return word.isprintable() and '"' not in word and "\\" not in word

"""From changes and events to the values of a statement, and from rows back to records and events. Pure."""

from __future__ import annotations

from leasehold.model import EMPTY, Event, Hold, Put
from leasehold.records import build, grouped
from leasehold.rules.timing import due
from leasehold.stores.codec import pack, unpack
from leasehold.stores.postgres.texts import (
    BETWEEN,
    BETWEEN_ROWS,
    decode,
    encode,
    listed,
    listed_bytes,
    numbers,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from leasehold.model import Drop, Entry, Record
    from leasehold.stores import HistoryQuery
    from leasehold.stores.postgres.exchange import Values

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_.:/+@#~")
"""Letters that stand for themselves in JSON, whoever has written it."""


def written(changes: Sequence[Put | Drop], known: Mapping[str, Record]) -> Values:
    """What `end_turn` is told of these changes: drops, entries that there were not, and others."""
    puts: dict[tuple[str, str], Entry] = {}
    drops: dict[tuple[str, str], None] = {}
    for change in changes:
        if isinstance(change, Put):
            key, entry = change
            place = (key, entry.id)
            puts[place] = entry
            drops.pop(place, None)
        else:
            drops[change] = None
            puts.pop(change, None)
    fresh = {place: entry for place, entry in puts.items() if _is_new(place, known)}
    others = puts if not fresh else {place: entry for place, entry in puts.items() if place not in fresh}
    return [*_places(drops), *_rows(fresh), *_rows(others)]


def _is_new(place: tuple[str, str], known: Mapping[str, Record]) -> bool:
    """Whether we know that there is no such entry."""
    record = known.get(place[0])
    if record is None:
        return False
    id_ = place[1]
    return record is EMPTY or not (record.waiters or id_ in record.holds or id_ in record.notes)


def _places(places: Iterable[tuple[str, str]]) -> Values:
    return [listed([key for key, _ in places]), listed([id_ for _, id_ in places])]


def _rows(puts: dict[tuple[str, str], Entry]) -> Values:
    entries = puts.values()
    bodies = [encode(pack(entry)) for entry in entries]
    return [*_places(puts), numbers([due(entry) for entry in entries]), listed_bytes(bodies)]


def told(events: Sequence[Event]) -> Values:
    """What it is told of these events: when the last was, how many, and all of them."""
    if not events:
        return [b"0", b"0", b""]
    return [b"%d" % events[-1].at, b"%d" % len(events), encode(events)]


def longest_ttl(changes: Sequence[Put | Drop]) -> int:
    """The longest TTL among the leases in these changes."""
    longest = 0
    for change in changes:
        if isinstance(change, Put):
            entry = change.entry
            if isinstance(entry, Hold) and entry.ask is not None and entry.ask.ttl > longest:
                longest = entry.ask.ttl
    return longest


def gathered(keys: Iterable[str], rows: Iterable[tuple[str, str]]) -> dict[str, Record]:
    """The records of these keys, from the rows of their entries."""
    entries: dict[str, list[Entry]] = {}
    for key, body in rows:
        entries.setdefault(key, []).append(unpack(decode(body)))
    return {key: build(entries[key]) if key in entries else EMPTY for key in keys}


def each_row(found: bytes | None) -> list[tuple[str, str]]:
    """Key and body of each entry, from all of them in one text."""
    if not found:
        return []
    rows = [row.partition(BETWEEN) for row in found.decode().split(BETWEEN_ROWS)]
    return [(key, body) for key, _, body in rows]


def each_record(rows: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Record]]:
    """Record after record, from rows in the order of their keys."""
    return grouped((key, unpack(decode(body))) for key, body in rows)


def events_of(seq: int, events: str) -> list[Event]:
    """The events of one turn, newest first; `seq` is that of the newest."""
    found = []
    for number, each in enumerate(reversed(decode(events))):
        kind, at, space, resources, holder, session, lease, fence, detail = each[:9]
        found.append(Event(kind, at, space, tuple(resources), holder, session, lease, fence, detail, seq - number))
    return found


def signs_of(query: HistoryQuery) -> list[str]:
    """What the text of all events that are wanted has in it, so that others need not be looked at."""
    wanted: list[Any] = [query.space, query.resource, query.holder, query.lease]
    return [f'"{value}"' for value in wanted if value is not None and _PLAIN.issuperset(value)]

"""From changes and events to the arrays of a statement, and from rows back to records. Pure."""

from __future__ import annotations

from leasehold.keys import number
from leasehold.model import EMPTY, Event, Hold, Put, Waiter
from leasehold.records import build, grouped
from leasehold.rules.timing import due
from leasehold.stores.codec import pack, unpack
from leasehold.stores.postgres.texts import array, array_with_gaps, decode, encode, numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from leasehold.model import Drop, Entry, Record


def written(changes: Sequence[Put | Drop], events: Sequence[Event]) -> tuple[list[str], dict[str, Any]]:
    """The names of the statements that write this, and their values."""
    puts: dict[tuple[str, str], Entry] = {}
    drops: dict[tuple[str, str], None] = {}
    for change in changes:
        if isinstance(change, Put):
            puts[change.key, change.entry.id] = change.entry
            drops.pop((change.key, change.entry.id), None)
        else:
            drops[change.key, change.id] = None
            puts.pop((change.key, change.id), None)
    values = {**_drops(drops), **_puts(puts), **_events(events)}
    names = [name for name, some in (("drop", drops), ("put", puts), ("tell", events)) if some]
    return names, values


def _drops(drops: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {"drop_keys": array(key for key, _ in drops), "drop_ids": array(id_ for _, id_ in drops)}


def _puts(puts: dict[tuple[str, str], Entry]) -> dict[str, str]:
    return {
        "put_keys": array(key for key, _ in puts),
        "put_ids": array(id_ for _, id_ in puts),
        "put_dues": numbers(due(entry) for entry in puts.values()),
        "put_bodies": array(encode(pack(entry)) for entry in puts.values()),
    }


def _events(events: Sequence[Event]) -> dict[str, str]:
    return {
        "ats": numbers(event.at for event in events),
        "kinds": array(event.kind for event in events),
        "spaces": array(event.space for event in events),
        "leases": array_with_gaps(event.lease for event in events),
        "fences": numbers(event.fence for event in events),
        "holders": array(event.holder for event in events),
        "sessions": array_with_gaps(event.session for event in events),
        "resources": array(encode(event.resources) for event in events),
        "details": array_with_gaps(encode(event.detail) if event.detail else None for event in events),
    }


def numbers_in(changes: Sequence[Put | Drop]) -> Iterator[int]:
    """The numbers in these changes: fences of leases, arrivals of waiters."""
    for change in changes:
        if isinstance(change, Put):
            if isinstance(change.entry, Hold):
                yield change.entry.fence
            elif isinstance(change.entry, Waiter):
                yield number(change.entry.id)


def longest_ttl(changes: Sequence[Put | Drop]) -> int:
    """The longest TTL among the leases in these changes."""
    entries = (change.entry for change in changes if isinstance(change, Put))
    return max((each.ask.ttl for each in entries if isinstance(each, Hold) and each.ask is not None), default=0)


def gathered(keys: Iterable[str], rows: Iterable[tuple[str, str]]) -> dict[str, Record]:
    """The records of these keys, from the rows of their entries."""
    entries: dict[str, list[Entry]] = {}
    for key, body in rows:
        entries.setdefault(key, []).append(unpack(decode(body)))
    return {key: build(entries[key]) if key in entries else EMPTY for key in keys}


def each_record(rows: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Record]]:
    """Record after record, from rows in the order of their keys."""
    return grouped((key, unpack(decode(body))) for key, body in rows)


def event_of(row: tuple[Any, ...]) -> Event:
    """The columns stand in the order of the noun's fields."""
    kind, at, space, resources, holder, session, lease, fence, detail, seq = row
    told = decode(detail) if detail is not None else {}
    return Event(kind, at, space, tuple(decode(resources)), holder, session, lease, fence, told, seq)

"""Turn changes and events into the values of a statement, and answers into records, events, texts and numbers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.entries import EMPTY, Hold, Put
from leasehold.domain.events import LOSS_KINDS
from leasehold.domain.keys import home
from leasehold.domain.records import build, due, grouped, pack, unpack, unpack_event
from leasehold.stores.cache import is_new
from leasehold.stores.quick_json import decode, encode, encode_lines, spellings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from leasehold.domain.entries import Drop, Entry, Record
    from leasehold.domain.events import Event
    from leasehold.stores import HistoryQuery
    from leasehold.stores.postgres.round_trip import Values


ENGINE = "e"
"""The letter that keys of engines' own records begin with."""
PAYLOAD_MOST = 200
"""The most engines named in one notification, which has room for 8,000 bytes."""
BETWEEN, BETWEEN_ROWS, BETWEEN_LISTS = "\x1f", "\x1e", b"\x1d"
"""Separators. They are never part of a name, an id, or JSON, which refuse or escape control characters.

So a list is sent as one text, and no item has to be quoted."""

LOSS = "loss"
"""Payload of a notification that leases of other holders have ended. The key of an engine is longer."""


class TurnChanges:
    """The changes and events of one turn, sorted in one pass for what is written of them."""

    __slots__ = ("_drops", "_events", "_puts", "_tickets", "changes", "engines", "longest")

    def __init__(self, changes: Sequence[Put | Drop], events: Sequence[Event]) -> None:
        self.changes = changes
        self.engines: list[Put | Drop] = []
        """Changes of engines' own records."""
        self.longest = 0
        """The longest TTL among these leases."""
        self._events = events
        self._tickets: list[str] = []
        """Waiters that were promised a lease."""
        self._puts: dict[tuple[str, str], Entry] = {}
        self._drops: dict[tuple[str, str], None] = {}
        self._sort(changes)

    def _sort(self, changes: Sequence[Put | Drop]) -> None:
        """Sort the changes of a turn by kind; of several changes to one entry, keep the last."""
        puts, drops = self._puts, self._drops
        for change in changes:
            if change[0][0] == ENGINE:
                self.engines.append(change)
            if isinstance(change, Put):
                key, entry = change
                place = (key, entry.id)
                puts[place] = entry
                if drops:
                    drops.pop(place, None)
                if isinstance(entry, Hold):
                    if entry.ask is not None and entry.ask.ttl > self.longest:
                        self.longest = entry.ask.ttl
                    if entry.ticket is not None:
                        self._tickets.append(entry.ticket)
            else:
                drops[change] = None
                if puts:
                    puts.pop(change, None)

    def new_engines(self) -> set[str]:
        """Return the keys of engines that leave a receipt in this turn."""
        return {change.key for change in self.engines if isinstance(change, Put)}

    def as_rows(self, known: Mapping[str, Record]) -> Values:
        """Return the values that write these changes into the table; `known` has cached records."""
        fresh = self._puts
        others = {place: fresh[place] for place in fresh if not is_new(place[1], known.get(place[0]))}
        if others:
            fresh = {place: entry for place, entry in fresh.items() if place not in others}
        return as_rows(self._drops, fresh, others)

    def as_journal(self) -> bytes:
        """Return the text for the journal: entries that exist come first, dropped ones have only their place."""
        _, _, dues, bodies = _rows(self._puts)
        keys, ids = _places([*self._puts, *self._drops])
        return BETWEEN_LISTS.join((keys, ids, dues, bodies))

    def as_history(self) -> Values:
        """Return the values of the events: the time of the last, how many, their kinds, and all of them."""
        events = self._events
        if not events:
            return [b"0", b"0", b"", b""]
        return [b"%d" % events[-1].at_us, b"%d" % len(events), listed({event.kind for event in events}), encode(events)]

    def notifications(self, known: Mapping[str, Record], ours: Collection[str]) -> bytes:
        """Return whom to notify: engines elsewhere whose waiters were promised a lease, and all if one was lost."""
        engines: dict[str, None] = {}
        for ticket in self._tickets:
            queue = known.get(home(ticket), EMPTY).waiters
            engines.update((waiter.engine, None) for waiter in queue if waiter.id == ticket)
        named = [engine for engine in engines if engine not in ours]
        payloads = [",".join(named[at : at + PAYLOAD_MOST]) for at in range(0, len(named), PAYLOAD_MOST)]
        is_loss = not LOSS_KINDS.isdisjoint([event.kind for event in self._events])
        return listed([*payloads, LOSS] if is_loss else payloads)


def as_rows(
    drops: Collection[tuple[str, str]], fresh: Mapping[tuple[str, str], Entry], others: Mapping[tuple[str, str], Entry]
) -> Values:
    """Return the values of `end_turn`: dropped entries, new ones, and ones that the table may have."""
    return [*_places(drops), *_rows(fresh), *_rows(others)]


def _places(places: Collection[tuple[str, str]]) -> list[bytes]:
    """Return the keys of records and the ids of entries, each list as one text."""
    if not places:
        return [b"", b""]
    return [listed([key for key, _ in places]), listed([id_ for _, id_ in places])]


def _rows(entries: Mapping[tuple[str, str], Entry]) -> list[bytes]:
    """Return entries as columns, each as one text: key, id, when it is due, and the packed entry."""
    if not entries:
        return [b"", b"", b"", b""]
    dues = [due(entry) for entry in entries.values()]
    bodies = encode_lines([pack(entry) for entry in entries.values()])
    return [*_places(entries), listed(["" if at is None else str(at) for at in dues]), bodies]


def gathered(keys: Iterable[str], rows: Iterable[tuple[str, str]]) -> dict[str, Record]:
    """Build the records of these keys from the rows of their entries."""
    entries: dict[str, list[Entry]] = {}
    for key, body in rows:
        entries.setdefault(key, []).append(unpack(decode(body)))
    return {key: build(entries[key]) if key in entries else EMPTY for key in keys}


def gathered_all(rows: list[tuple[str, str]]) -> dict[str, Record]:
    """Build the records of all these rows."""
    return gathered(dict.fromkeys(key for key, _ in rows), rows)


def each_row(found: bytes | None) -> list[tuple[str, str]]:
    """Split a text into the key and the body of each entry."""
    if not found:
        return []
    rows = [row.partition(BETWEEN) for row in found.decode().split(BETWEEN_ROWS)]
    return [(key, body) for key, _, body in rows]


def each_record(rows: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Record]]:
    """Build one record after the other from rows in the order of their keys."""
    return grouped((key, unpack(decode(body))) for key, body in rows)


def events_of(seq: int, events: str) -> list[Event]:
    """Return the events of one turn, newest first; `seq` is that of the newest."""
    return [unpack_event(fields, seq - age) for age, fields in enumerate(reversed(decode(events)))]


def signs_of(query: HistoryQuery) -> dict[str, str]:
    """Return texts that every wanted event contains, in one of two spellings, so that SQL can skip other rows."""
    signs: dict[str, str] = {}
    asked = {"space": query.space, "resource": query.resource, "holder": query.holder, "lease": query.lease}
    for name, value in asked.items():
        signs[name], signs[f"{name}_in_ascii"] = ("", "") if value is None else spellings(value)
    return signs


def listed(items: Iterable[str]) -> bytes:
    """Join texts into one."""
    return BETWEEN.join(items).encode()


def items_of(text: str) -> list[str]:
    """Return the items of a list."""
    return text.split(BETWEEN) if text else []


def number_of(value: bytes | None) -> int:
    """Read a number of an answer; NULL is 0."""
    return int(value or b"0")


def text_of(value: bytes | None) -> str:
    """Read a text of an answer; NULL is empty."""
    return (value or b"").decode()

"""From changes and events to the values of a statement, and from rows back to records and events. Pure."""

from __future__ import annotations

from leasehold.domain.entries import EMPTY, Hold, Put
from leasehold.domain.events import LOSS_KINDS
from leasehold.domain.keys import home
from leasehold.domain.records import build, due, grouped
from leasehold.stores.codec import pack, unpack, unpack_event
from leasehold.stores.overlay import is_new
from leasehold.stores.postgres.texts import BETWEEN, BETWEEN_LISTS, BETWEEN_ROWS, LOSS, listed
from leasehold.stores.quick_json import decode, encode, encode_lines, spellings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from leasehold.domain.entries import Drop, Entry, Record
    from leasehold.domain.events import Event
    from leasehold.stores import HistoryQuery
    from leasehold.stores.postgres.exchange import Values


ENGINE = "e"
"""The keys of engines' own records begin with this."""
PAYLOAD_MOST = 200
"""Engines named in one notification; it has room for 8,000 bytes."""


class Writing:
    """Changes on their way into the database, found out in one look at them."""

    __slots__ = ("_drops", "_puts", "engines", "longest", "tickets")

    def __init__(self, changes: Sequence[Put | Drop]) -> None:
        self.longest = 0
        """The longest TTL among these leases."""
        self.tickets: list[str] = []
        """Waiters that were promised a lease."""
        self.engines: list[Put | Drop] = []
        """Changes of engines' own records."""
        self._puts: dict[tuple[str, str], Entry] = {}
        self._drops: dict[tuple[str, str], None] = {}
        self._sort(changes)

    @property
    def new_engines(self) -> set[str]:
        """The keys of engines that leave a receipt in here."""
        return {change.key for change in self.engines if isinstance(change, Put)}

    @property
    def places(self) -> Collection[tuple[str, str]]:
        """Record and id of each entry that there is now."""
        return self._puts

    def as_rows(self, known: Mapping[str, Record], ahead: Collection[tuple[str, str]] = ()) -> Values:
        """Return the values that write these changes into the table, on top of known records and entries since."""
        fresh = self._puts
        others = {place: fresh[place] for place in fresh if place in ahead or not is_new(place[1], known.get(place[0]))}
        if others:
            fresh = {place: entry for place, entry in fresh.items() if place not in others}
        return as_rows(self._drops, fresh, others)

    def as_journal(self) -> bytes:
        """Return the text for the journal: entries that exist come first, dropped ones have only their place."""
        _, _, dues, bodies = _rows(self._puts)
        keys, ids = _places([*self._puts, *self._drops])
        return BETWEEN_LISTS.join((keys, ids, dues, bodies))

    def _sort(self, changes: Sequence[Put | Drop]) -> None:
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
                    self._note(entry)
            else:
                drops[change] = None
                if puts:
                    puts.pop(change, None)

    def _note(self, hold: Hold) -> None:
        if hold.ask is not None and hold.ask.ttl > self.longest:
            self.longest = hold.ask.ttl
        if hold.ticket is not None:
            self.tickets.append(hold.ticket)


class Decided:
    """Changes and events that a turn has decided: kept back, to be written with the rest, or written already."""

    __slots__ = ("_events", "_is_loss", "_kept", "_places", "_tickets", "changes", "engines", "longest")

    def __init__(self) -> None:
        self._kept: list[Put | Drop] = []
        self._events: list[Event] = []
        self._is_loss = False
        """True if it ends leases of other holders."""
        self._places: set[tuple[str, str]] = set()
        """Record and id of each entry that was written already."""
        self._tickets: list[str] = []
        self.changes: list[Put | Drop] = []
        """All that was taken to be written."""
        self.engines: list[Put | Drop] = []
        """Those of them that change engines' own records."""
        self.longest = 0
        """The longest TTL among its leases."""

    @property
    def is_nothing(self) -> bool:
        """True if there was nothing to write, and is nothing now."""
        return not (self._kept or self._events or self.changes)

    def keep(self, changes: Sequence[Put | Drop], events: Sequence[Event]) -> None:
        """Keep these back."""
        self._kept.extend(changes)
        self._events.extend(events)
        if not LOSS_KINDS.isdisjoint([event.kind for event in events]):
            self._is_loss = True

    def take(self) -> tuple[Writing, list[Put | Drop], list[Event]]:
        """Take everything that was kept back, to write it."""
        changes, self._kept = self._kept, []
        events, self._events = self._events, []
        writing = Writing(changes)
        self.changes += changes
        self.engines += writing.engines
        self._tickets += writing.tickets
        self.longest = max(self.longest, writing.longest)
        return writing, changes, events

    def as_rows(self, writing: Writing, known: Mapping[str, Record]) -> Values:
        """Return the values that write this, on top of what was written already."""
        values = writing.as_rows(known, self._places)
        self._places.update(writing.places)
        return values

    def whom(self, known: Mapping[str, Record], ours: Collection[str]) -> bytes:
        """Return whom to notify: engines elsewhere whose waiters were promised a lease, and everybody of a loss."""
        engines: dict[str, None] = {}
        for ticket in self._tickets:
            queue = known.get(home(ticket), EMPTY).waiters
            engines.update((waiter.engine, None) for waiter in queue if waiter.id == ticket)
        named = [engine for engine in engines if engine not in ours]
        payloads = [",".join(named[at : at + PAYLOAD_MOST]) for at in range(0, len(named), PAYLOAD_MOST)]
        return listed([*payloads, LOSS] if self._is_loss else payloads)


def as_rows(
    drops: Collection[tuple[str, str]], fresh: Mapping[tuple[str, str], Entry], others: Mapping[tuple[str, str], Entry]
) -> Values:
    """Drops, entries that there were not, and others."""
    return [*_places(drops), *_rows(fresh), *_rows(others)]


def _places(places: Collection[tuple[str, str]]) -> list[bytes]:
    """Records and ids, each as one text."""
    if not places:
        return [b"", b""]
    return [listed([key for key, _ in places]), listed([id_ for _, id_ in places])]


def _rows(entries: Mapping[tuple[str, str], Entry]) -> list[bytes]:
    """Entries as columns, each as one text: record, id, when it is due, and the entry itself."""
    if not entries:
        return [b"", b"", b"", b""]
    dues = [due(entry) for entry in entries.values()]
    bodies = encode_lines([pack(entry) for entry in entries.values()])
    return [*_places(entries), listed(["" if at is None else str(at) for at in dues]), bodies]


def told(events: Sequence[Event]) -> Values:
    """Return the values of these events: when the last was, how many, of which kinds, and all of them."""
    if not events:
        return [b"0", b"0", b"", b""]
    return [b"%d" % events[-1].at_us, b"%d" % len(events), listed({event.kind for event in events}), encode(events)]


def gathered(keys: Iterable[str], rows: Iterable[tuple[str, str]]) -> dict[str, Record]:
    """The records of these keys, from the rows of their entries."""
    entries: dict[str, list[Entry]] = {}
    for key, body in rows:
        entries.setdefault(key, []).append(unpack(decode(body)))
    return {key: build(entries[key]) if key in entries else EMPTY for key in keys}


def gathered_all(rows: list[tuple[str, str]]) -> dict[str, Record]:
    """The records of all these rows."""
    return gathered(dict.fromkeys(key for key, _ in rows), rows)


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
    return [unpack_event(fields, seq - age) for age, fields in enumerate(reversed(decode(events)))]


def signs_of(query: HistoryQuery) -> dict[str, str]:
    """Return texts that every wanted event contains, in one spelling or the other, so that SQL can skip the rest."""
    signs: dict[str, str] = {}
    asked = {"space": query.space, "resource": query.resource, "holder": query.holder, "lease": query.lease}
    for name, value in asked.items():
        signs[name], signs[f"{name}_in_ascii"] = ("", "") if value is None else spellings(value)
    return signs

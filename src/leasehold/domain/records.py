"""How a record changes, when an entry is due, and the draft in which a rule collects its changes. Pure.

Records are never changed in place: a changed one shares everything but one entry with the record before, and readers of
that one keep what they saw. C code copies (a dict, a tuple), because a popular resource may have a thousand waiters.
"""

from __future__ import annotations

from _operator import indexOf, itemgetter  # `operator` itself is one more file for a one-shot command to load

from leasehold.domain.api_keys import Key
from leasehold.domain.entries import EMPTY, Drop, Hold, PlanMark, PoolMembers, Put, Record, Ref, Waiter
from leasehold.domain.events import Event
from leasehold.domain.keys import number
from leasehold.domain.nouns import new
from leasehold.domain.sessions import Session
from leasehold.domain.timestamps import FOREVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Final, TypeAlias, TypeVar

    from leasehold.domain.entries import Entry, LeaseRequest, Note
    from leasehold.domain.leases import Lease

    Records: TypeAlias = Mapping[str, Record]
    """The records loaded so far, by key."""
    T = TypeVar("T")

NOTHING: Final[dict[str, Record]] = {}
_id_of = itemgetter(0)
_order_of = itemgetter(1)
_WAITER_LETTER = "w"
"""Ids of waiters, and no others on a node, begin with this (see ``keys``): so a queue is only searched for these."""


def build(entries: Iterable[Entry]) -> Record:
    """Return the record that consists of these entries."""
    holds: dict[str, Hold] = {}
    waiters: list[Waiter] = []
    notes: dict[str, Note] = {}
    for entry in entries:
        if isinstance(entry, Hold):
            holds[entry.id] = entry
        elif isinstance(entry, Waiter):
            waiters.append(entry)
        else:
            notes[entry.id] = entry
    if waiters:
        waiters.sort(key=_order_of)
    return _record(holds, tuple(waiters), notes)


def grouped(entries: Iterable[tuple[str, Entry]]) -> Iterator[tuple[str, Record]]:
    """Yield record after record, from entries in the order of their records' keys."""
    current = ""
    found: list[Entry] = []
    for key, entry in entries:
        if key != current and found:
            yield current, build(found)
            found = []
        current = key
        found.append(entry)
    if found:
        yield current, build(found)


def apply(record: Record, change: Put | Drop) -> Record:
    """Return the record after this change."""
    return put(record, change.entry) if isinstance(change, Put) else drop(record, change.id)


def put(record: Record, entry: Entry) -> Record:
    """Return the record with this entry, in place of the one of the same id."""
    # `new` saves half of the constructor's 150 ns, compiled; each acquire changes two to four records.
    holds, waiters, notes = record
    id_ = entry.id
    if isinstance(entry, Hold):
        more = holds.copy()
        more[id_] = entry
        return new(Record, (more, waiters, _without(notes, id_) if id_ in notes else notes))
    if id_ in holds:
        holds = _without(holds, id_)
    if isinstance(entry, Waiter):
        return new(Record, (holds, _queue(waiters, entry), _without(notes, id_)))
    if waiters and id_[:1] == _WAITER_LETTER:
        waiters = _leave(waiters, id_)
    noted = notes.copy()
    noted[id_] = entry
    return new(Record, (holds, waiters, noted))


def drop(record: Record, id_: str) -> Record:
    """Return the record without the entry of this id; the same record if there is none."""
    holds, waiters, notes = record
    if id_ in holds:
        if len(holds) == 1 and not waiters and not notes:
            return EMPTY  # almost always
        return _record(_without(holds, id_), waiters, notes)
    if id_ in notes:
        if len(notes) == 1 and not waiters and not holds:
            return EMPTY
        return _record(holds, waiters, _without(notes, id_))
    if waiters and id_[:1] == _WAITER_LETTER:
        return _record(holds, _leave(waiters, id_), notes)
    return record


def _record(holds: dict[str, Hold], waiters: tuple[Waiter, ...], notes: dict[str, Note]) -> Record:
    return Record(holds, waiters, notes) if holds or waiters or notes else EMPTY


def _without(entries: dict[str, T], id_: str) -> dict[str, T]:
    if id_ not in entries:
        return entries
    fewer = entries.copy()
    del fewer[id_]
    return fewer


def _queue(waiters: tuple[Waiter, ...], waiter: Waiter) -> tuple[Waiter, ...]:
    last = waiters[-1].order if waiters else ()
    if not waiters or (_is_uniform(waiters) and waiter.order > last and waiter.order[1] > last[1]):
        # Almost always: it is not in the queue yet, so there is no need to search for it.
        return waiters + (waiter,)  # noqa: RUF005 (that would make a list first)
    place = place_in(waiters, waiter.order)
    if place < len(waiters) and waiters[place].id == waiter.id:
        return (*waiters[:place], waiter, *waiters[place + 1 :])
    fewer = _leave(waiters, waiter.id)
    if len(fewer) != len(waiters):  # it was in another place of the queue
        place = place_in(fewer, waiter.order)
    return (*fewer[:place], waiter, *fewer[place:])


def _leave(waiters: tuple[Waiter, ...], id_: str) -> tuple[Waiter, ...]:
    place = place_of(waiters, id_)
    return waiters if place is None else waiters[:place] + waiters[place + 1 :]


def place_of(waiters: tuple[Waiter, ...], id_: str) -> int | None:
    """Return the place of the waiter with this id, or None.

    Ten thousand may stand in one queue, mostly of one priority: its id then says where to look.
    """
    if _is_uniform(waiters):
        place = place_in(waiters, (waiters[0].order[0], number(id_)))
        return place if place < len(waiters) and waiters[place].id == id_ else None
    try:
        return indexOf(map(_id_of, waiters), id_)
    except ValueError:
        return None


def _is_uniform(waiters: tuple[Waiter, ...]) -> bool:
    """Return True if all have the same priority, and so stand in the order of their ids' numbers."""
    return bool(waiters) and waiters[0].order[0] == waiters[-1].order[0]


def place_in(waiters: tuple[Waiter, ...], order: tuple[int, ...]) -> int:
    """Return the place at which a waiter of this order stands or belongs.

    A bisection of its own: importing ``bisect`` would cost every one-shot process more than this ever takes.
    """
    low, high = 0, len(waiters)
    if high and waiters[-1].order < order:
        return high  # almost always: the newest comes last
    while low < high:
        middle = (low + high) // 2
        if waiters[middle].order < order:
            low = middle + 1
        else:
            high = middle
    return low


# ----------------------------------------------------------------------------------------- when due


def due(entry: Entry) -> int | None:
    """Return when a sweep must check this entry, or None for never. Stores keep an index of it.

    A lease or waiter in several records is due in its home only: the sweep finds the others from there.
    """
    if isinstance(entry, Hold):
        return entry.expires_at if entry.ask is not None and entry.expires_at < FOREVER else None
    if isinstance(entry, Waiter):
        return entry.deadline if entry.ask is not None else None
    if isinstance(entry, Ref | PlanMark | PoolMembers):
        return None
    if isinstance(entry, Key):
        return entry.until_us if entry.until_us < FOREVER else None
    if isinstance(entry, Session):
        return entry.expires_us
    return entry.until


def first_due(record: Record) -> int | None:
    """Return when a sweep must check this record, or None for never."""
    entries = (*record.holds.values(), *record.waiters, *record.notes.values())
    return min((at for at in map(due, entries) if at is not None), default=None)


def next_change(record: Record, now: int) -> int | None:
    """Return when the next hold on this node expires, or None if none does."""
    first = FOREVER
    for hold in record.holds.values():
        if now < hold.expires_at < first:
            first = hold.expires_at
    return first if first < FOREVER else None


# ---------------------------------------------------------------------------------- a draft of changes


def resources_of(ask: LeaseRequest) -> tuple[str, ...]:
    """Return every resource that this request names, in any of its options."""
    return tuple([name for option in ask.options for name in option.resources])


class Missing(Exception):
    """The rule needs records that were not loaded."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        super().__init__(keys)
        self.keys = keys


class Draft:
    """Records as one rule has changed them, with the changes and events that lead there; the store commits them."""

    __slots__ = (
        "_loaded",
        "_newer",
        "changed",
        "changes",
        "dirty",
        "engine",
        "events",
        "fence",
        "now",
        "opens_at",
        "picked_up",
        "to_wake",
    )

    def __init__(
        self,
        loaded: Records,
        now: int,
        fence: int,
        engine: str,
        opens_at: int = 0,
        newer: dict[str, Record] = NOTHING,
    ) -> None:
        self._loaded: dict[str, Record] = loaded if isinstance(loaded, dict) else dict(loaded)
        self._newer = newer
        """Records as earlier commands of the batch have changed them."""
        self.now = now
        self.fence = fence
        self.engine = engine
        self.opens_at = opens_at
        """No lease is granted before this time: the store may have lost leases that still count."""
        self.changed: dict[str, Record] = {}
        self.changes: dict[tuple[str, str], Put | Drop] = {}
        """By record and entry: a later change of the same entry makes the earlier one moot."""
        self.events: list[Event] = []
        self.dirty: dict[str, None] = {}
        """Nodes on which a hold or a waiter went, so that a waiter may be served; in order."""
        self.picked_up: list[tuple[str, Lease]] = []
        """Waiters of this very engine that this step granted a lease."""
        self.to_wake: dict[str, None] = {}
        """Other engines, a waiter of which left its queues: served, or not."""

    def record(self, key: str) -> Record:
        """Return the record as it is now; raises `Missing` if it was not loaded."""
        found = self.changed.get(key)
        if found is None:
            found = self._newer.get(key)
            if found is None:
                found = self._loaded.get(key)
                if found is None:
                    raise Missing((key,))
        return found

    def require(self, keys: list[str]) -> None:
        """Raise `Missing` for all records among these that were not loaded, rather than for one at a time."""
        known = (self.changed, self._newer, self._loaded)
        missing = [key for key in keys if not any(key in each for each in known)]
        if missing:
            raise Missing(tuple(missing))

    def number(self) -> int:
        """Return the next number: a fence, or a place in the order of arrival."""
        number = self.fence
        self.fence = number + 1
        return number

    def put(self, key: str, entry: Entry) -> None:
        """Write an entry, replacing the one of the same id."""
        self.changed[key] = put(self.record(key), entry)
        # `new` saves half of the constructor's 150 ns, compiled; each grant and each wait puts two to four entries.
        self.changes[key, entry.id] = new(Put, (key, entry))

    def drop(self, key: str, id_: str) -> None:
        """Remove exactly this entry."""
        self.changed[key] = drop(self.record(key), id_)
        gone = Drop(key, id_)
        self.changes[gone] = gone  # it equals its own key in `changes`

    def discard(self, key: str, id_: str) -> None:
        """Remove this note if it is there; otherwise there is no change."""
        if id_ in self.record(key).notes:
            self.drop(key, id_)

    def tell(self, kind: str, ask: LeaseRequest, lease: Hold | None = None, **detail: object) -> None:
        """Add an event about a request or about the lease that it was granted."""
        self.note(kind, ask, lease, detail)

    def note(self, kind: str, ask: LeaseRequest, lease: Hold | None, detail: dict[str, object]) -> None:
        """Add an event whose details are in a dict already."""
        options = ask.options
        resources = options[0].resources if len(options) == 1 else resources_of(ask)
        id_: str | None = None
        fence = 0
        if lease is not None:
            id_ = lease.id
            fence = lease.fence
        if ask.principal is not None:
            detail["principal"] = ask.principal
            detail["key"] = ask.key
        if ask.trace is not None:
            detail["trace"] = ask.trace
        told = (kind, self.now, ask.space, resources, ask.holder, ask.session, id_, fence, detail, 0)
        self.events.append(Event(*told))

"""How a record changes, when an entry is due, and what stores write of an entry: a plain array. Pure.

Records are never changed in place: a changed one shares everything but one entry with the record before, and readers of
that one keep what they saw. C code copies (a dict, a tuple), because a popular resource may have a thousand waiters.

An array is `[tag, *fields]`, nested nouns are nested arrays. Any JSON-like encoder accepts the result of `pack` (named
tuples are arrays to all of them), and `unpack` rebuilds the exact types from the result of its decoder. A noun may get
new fields at its end if they have defaults: rows written before that are still understood.
"""

from __future__ import annotations

from _operator import indexOf, itemgetter  # `operator` itself is one more file for a one-shot command to load

from leasehold.domain.api_keys import Key
from leasehold.domain.entries import (
    EMPTY,
    Alternative,
    Claim,
    Drop,
    End,
    Hold,
    LeaseRequest,
    PlanMark,
    PlanTerms,
    Poll,
    PoolMembers,
    Presence,
    Put,
    Receipt,
    Record,
    Ref,
    Request,
    Waiter,
)
from leasehold.domain.events import Event
from leasehold.domain.keys import number
from leasehold.domain.nouns import new
from leasehold.domain.sessions import Session
from leasehold.domain.timestamps import FOREVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeAlias, TypeVar

    from leasehold.domain.entries import Entry, Note

    Records: TypeAlias = Mapping[str, Record]
    """The records loaded so far, by key."""
    T = TypeVar("T")

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


def resources_of(ask: LeaseRequest) -> tuple[str, ...]:
    """Return every resource that this request names, in any of its options."""
    return tuple([name for option in ask.options for name in option.resources])


# ------------------------------------------------------------------------------------ as plain arrays

TAGS: dict[type, str] = {
    Hold: "h",
    Waiter: "w",
    End: "e",
    Ref: "r",
    Poll: "i",
    PlanTerms: "a",
    PlanMark: "m",
    Session: "s",
    Request: "q",
    Presence: "p",
    Receipt: "t",
    Key: "k",
    PoolMembers: "d",
}

_EVENT_SEQ = Event._fields.index("seq")
_ASK_OPTIONS = LeaseRequest._fields.index("options")
_ASK_TOKENS = LeaseRequest._fields.index("tokens")
_HOLD_ASK = Hold._fields.index("ask")
_WAITER_ASK = Waiter._fields.index("ask")
_WAITER_SHOWN = Waiter._fields.index("shown")
_WAITER_ORDER = Waiter._fields.index("order")
_WISH_OPTIONS = Poll._fields.index("options")
_PLAN_ASK = PlanTerms._fields.index("ask")
_PLAN_MINE = PlanTerms._fields.index("mine")
_END_RESOURCES = End._fields.index("resources")
_KEY_PREFIXES = Key._fields.index("prefixes")


def pack(entry: Entry) -> list[object]:
    """Return the entry as an array."""
    return [TAGS[type(entry)], *entry]


def unpack(packed: Sequence[Any]) -> Entry:
    """Rebuild an entry that was packed."""
    tag, *fields = packed
    return _BUILDERS[tag](fields)


def unpack_event(fields: Sequence[Any], seq: int) -> Event:
    """Rebuild an event from the array of its fields; `seq` is its number."""
    kind, at, space, resources, holder, session, lease, fence, detail = fields[:_EVENT_SEQ]
    return Event(kind, at, space, tuple(resources), holder, session, lease, fence, detail, seq)


def _tupled(value: Any) -> Any:  # noqa: ANN401 (any JSON value)
    return tuple(value) if isinstance(value, list) else value


def _options(packed: Sequence[Any]) -> tuple[Alternative, ...]:
    return tuple(
        [Alternative(tuple(resources), tuple([Claim(*claim) for claim in claims])) for resources, claims in packed]
    )


def _ask(packed: Sequence[Any]) -> LeaseRequest:
    fields = list(packed)
    fields[_ASK_OPTIONS] = _options(fields[_ASK_OPTIONS])
    fields[_ASK_TOKENS] = tuple(fields[_ASK_TOKENS])
    return LeaseRequest(*fields)


def _hold(fields: list[Any]) -> Hold:
    if fields[_HOLD_ASK] is not None:
        fields[_HOLD_ASK] = _ask(fields[_HOLD_ASK])
    return Hold(*fields)


def _waiter(fields: list[Any]) -> Waiter:
    fields[_WAITER_ORDER] = tuple(fields[_WAITER_ORDER])
    if fields[_WAITER_ASK] is not None:
        fields[_WAITER_ASK] = _ask(fields[_WAITER_ASK])
    fields[_WAITER_SHOWN] = tuple(fields[_WAITER_SHOWN])
    return Waiter(*fields)


def _wish(fields: list[Any]) -> Poll:
    fields[_WISH_OPTIONS] = _options(fields[_WISH_OPTIONS])
    return Poll(*fields)


def _plan(fields: list[Any]) -> PlanTerms:
    fields[_PLAN_ASK] = _ask(fields[_PLAN_ASK])
    return PlanTerms(*fields[:_PLAN_MINE], *map(_tupled, fields[_PLAN_MINE:]))


def _key(fields: list[Any]) -> Key:
    fields[_KEY_PREFIXES] = tuple(fields[_KEY_PREFIXES])
    return Key(*fields)


_BUILDERS: dict[str, Callable[[list[Any]], Entry]] = {
    "h": _hold,
    "w": _waiter,
    "e": lambda fields: End(*fields[:_END_RESOURCES], *map(_tupled, fields[_END_RESOURCES:])),
    "r": lambda fields: Ref(*fields),
    "i": _wish,
    "a": _plan,
    "m": lambda fields: PlanMark(*fields),
    "s": lambda fields: Session(*fields),
    "q": lambda fields: Request(*fields),
    "p": lambda fields: Presence(*fields),
    "t": lambda fields: Receipt(*fields),
    "k": _key,
    "d": lambda fields: PoolMembers(*map(_tupled, fields)),
}

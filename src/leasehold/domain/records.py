"""How a record changes: one entry put or dropped, everything else shared with the record before. Pure.

Records are never changed in place, so that whoever looked at one keeps what was seen. What is copied is copied
by C code (a dict, a tuple), because a popular resource may have a thousand waiters.
"""

from __future__ import annotations

from _operator import indexOf, itemgetter  # `operator` itself is one more file for a one-shot command to load

from leasehold.domain.entries import EMPTY, Hold, Put, Record, Waiter
from leasehold.domain.keys import number
from leasehold.domain.nouns import new

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Final, TypeVar

    from leasehold.domain.entries import Drop, Entry, Note

    T = TypeVar("T")

_new: Final = new
_Record: Final = Record
_Hold: Final = Hold
_Waiter: Final = Waiter
_EMPTY: Final = EMPTY
"""Compiled code finds what is final where it is, and looks everything else up by its name, each time."""
_id_of = itemgetter(0)
_order_of = itemgetter(1)
_WAITER_LETTER = "w"
"""Ids of waiters, and no others on a node, begin with this (see ``keys``): so a queue is only searched for these."""


def build(entries: Iterable[Entry]) -> Record:
    """The record that consists of these entries."""
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
    """Record after record, from entries in the order of their records' keys."""
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
    """The record after this change."""
    return put(record, change.entry) if isinstance(change, Put) else drop(record, change.id)


def put(record: Record, entry: Entry) -> Record:
    """The record with this entry, in place of the one of the same id."""
    holds, waiters, notes = record
    id_ = entry.id
    if isinstance(entry, _Hold):
        more = holds.copy()
        more[id_] = entry
        return _new(_Record, (more, waiters, _without(notes, id_) if id_ in notes else notes))
    if id_ in holds:
        holds = _without(holds, id_)
    if isinstance(entry, _Waiter):
        return _new(_Record, (holds, _queue(waiters, entry), _without(notes, id_)))
    if waiters and id_[:1] == _WAITER_LETTER:
        waiters = _leave(waiters, id_)
    noted = notes.copy()
    noted[id_] = entry
    return _new(_Record, (holds, waiters, noted))


def drop(record: Record, id_: str) -> Record:
    """The record without the entry of this id; the same record if there is none."""
    holds, waiters, notes = record
    if id_ in holds:
        if len(holds) == 1 and not waiters and not notes:
            return _EMPTY  # almost always
        return _record(_without(holds, id_), waiters, notes)
    if id_ in notes:
        if len(notes) == 1 and not waiters and not holds:
            return _EMPTY
        return _record(holds, waiters, _without(notes, id_))
    if waiters and id_[:1] == _WAITER_LETTER:
        return _record(holds, _leave(waiters, id_), notes)
    return record


def _record(holds: dict[str, Hold], waiters: tuple[Waiter, ...], notes: dict[str, Note]) -> Record:
    return _new(_Record, (holds, waiters, notes)) if holds or waiters or notes else _EMPTY


def _without(entries: dict[str, T], id_: str) -> dict[str, T]:
    if id_ not in entries:
        return entries
    fewer = entries.copy()
    del fewer[id_]
    return fewer


def _queue(waiters: tuple[Waiter, ...], waiter: Waiter) -> tuple[Waiter, ...]:
    if not waiters or (_is_uniform(waiters) and _is_newer(waiter.order, waiters[-1].order)):
        # Almost always: it cannot be in the queue yet, so nobody has to look for it.
        return waiters + (waiter,)  # noqa: RUF005 (that would make a list first)
    place = place_in(waiters, waiter.order)
    if place < len(waiters) and waiters[place].id == waiter.id:
        return (*waiters[:place], waiter, *waiters[place + 1 :])
    fewer = _leave(waiters, waiter.id)
    if len(fewer) != len(waiters):  # it was in another place of the queue
        place = place_in(fewer, waiter.order)
    return (*fewer[:place], waiter, *fewer[place:])


def _is_newer(order: tuple[int, ...], last: tuple[int, ...]) -> bool:
    return order > last and order[1] > last[1]


def _leave(waiters: tuple[Waiter, ...], id_: str) -> tuple[Waiter, ...]:
    place = place_of(waiters, id_)
    return waiters if place is None else waiters[:place] + waiters[place + 1 :]


def place_of(waiters: tuple[Waiter, ...], id_: str) -> int | None:
    """Where the waiter of this id stands; None if it does not.

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
    """Whether all of them have the same priority, so that they stand in the order of their ids' numbers."""
    return bool(waiters) and waiters[0].order[0] == waiters[-1].order[0]


def place_in(waiters: tuple[Waiter, ...], order: tuple[int, ...]) -> int:
    """Where a waiter of this order stands or belongs.

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

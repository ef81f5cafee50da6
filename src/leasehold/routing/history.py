"""The history of all lanes as it grows: places in it, what follows them, and what is new. It reads only."""

from __future__ import annotations

from collections import deque
from heapq import merge
from typing import TYPE_CHECKING

from leasehold.domain.durations import is_digits
from leasehold.errors import InvalidInput
from leasehold.requests.lookups import history_query
from leasehold.routing.cursors import DIGITS_MOST, cursor_of
from leasehold.routing.joining import driven, lanes_of_history, order_of, place_in
from leasehold.routing.lanes import every_lane, numbered, place_of
from leasehold.stores import SERVERS, HistoryQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.domain.events import Event
    from leasehold.requests.calls import Call
    from leasehold.routing.cursors import Cursor
    from leasehold.stores.protocol import Store

PAGE = 500
"""Past events that are read at a time."""
FEW = 32
"""Past events that are read first, since there are rarely more to read."""
RECENT_MOST = 10_000
NO_CURSOR = "must be the id of an event"
EVERYTHING = HistoryQuery(limit=PAGE)
"""Asks for the events of every space but that of the servers."""


def is_of_servers(query: HistoryQuery) -> bool:
    """Return True if this asks for events of the servers' own space, which `EVERYTHING` does not have."""
    return query.space == SERVERS


class HistoryOfLanes:
    """The stores of all lanes, the control lane first; or one store."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = stores
        self._divided = len(stores) - 1

    def start(self) -> Cursor:
        """Return the place before all events."""
        return (0,) * len(self._stores)

    def end(self) -> Cursor:
        """Return the place after the newest event of each lane."""
        newest = [store.history(HistoryQuery(limit=1)) for store in self._stores]
        return tuple(found[0].seq if found else 0 for found in newest)

    def cursor(self, text: str) -> Cursor:
        """Return the place after the event with this id, or after the one with this number. Raises InvalidInput."""
        found = cursor_of(text, self._divided)
        if found is None and self._divided and is_digits(text) and len(text) <= DIGITS_MOST:
            found = self.start() if int(text) == 0 else self._after_event(int(text))
        if found is None or max(found) >= 2**53:
            raise InvalidInput("last_event_id", NO_CURSOR)
        return found

    def _after_event(self, seq: int) -> Cursor:
        """Return the place in each lane after the event with this number, by its time."""
        (own, number), places = place_of(seq), list(self.end())
        for lane in every_lane(self._divided):
            before = driven(place_in(lane, seq, self._divided), self._page)
            if lane == own:
                places[lane] = number
            elif before is not None:
                places[lane] = max(0, before - 1)
        return tuple(places)

    def _page(self, lane: int, call: Call) -> Sequence[Event]:
        return self._stores[lane].history(history_query(dict(call.arguments)))

    def after(self, cursor: Cursor, query: HistoryQuery, most: int) -> tuple[tuple[Event, ...], bool]:
        """Return the next events after a place, the oldest first, and whether some before them are left out.

        They are if a lane has more than `most`: then its latest `most` count. It is about a page.
        """
        if not self._divided:
            return _after(self._stores[0], cursor[0], query, most)
        found, has_gap = [], False
        for lane in lanes_of_history(query.space, query.lease, self._divided):
            events, is_gap = _after(self._stores[lane], cursor[lane], query, most)
            found.append([numbered(event, lane) for event in events])
            has_gap = has_gap or is_gap
        return tuple(merge(*found, key=order_of)), has_gap

    def recent(self, cursor: Cursor | None) -> tuple[list[Event], Cursor]:
        """Return the events after a place, and the place after them; of None at least the newest few of each lane."""
        found, places = [], []
        for lane, store in enumerate(self._stores):
            events = _recent(store, None if cursor is None else cursor[lane])
            found += events
            places.append(events[0].seq if events else 0 if cursor is None else cursor[lane])
        return found, tuple(places)


def _after(store: Store, seq: int, query: HistoryQuery, most: int) -> tuple[tuple[Event, ...], bool]:
    kept: deque[Event] = deque(maxlen=PAGE)
    count, before = 0, None
    while True:
        page = store.history(query._replace(before=before))
        found = [event for event in page if event.seq > seq]
        room = most - count
        kept.extend(found[:room])
        count += len(found[:room])
        if len(found) > room or len(page) < PAGE or page[-1].seq <= seq:
            return tuple(reversed(kept)), len(found) > room
        before = page[-1].seq


def _recent(store: Store, last: int | None) -> list[Event]:
    found: list[Event] = []
    limit = FEW
    while True:
        page = store.history(HistoryQuery(before=found[-1].seq if found else None, limit=limit))
        found += [event for event in page if last is None or event.seq > last]
        if last is None or len(page) < limit or page[-1].seq <= last or len(found) >= RECENT_MOST:
            return found
        limit = PAGE

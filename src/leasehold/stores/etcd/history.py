"""Search past events, newest first. There is no index, so commits that cannot contain a match are skipped undecoded.

etcd reads a whole range before it returns its last keys. So the search walks the range by the numbers in the keys, from
the newest down, a page at a time. It writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.errors import Conflict
from leasehold.stores.etcd import messages, rows
from leasehold.stores.etcd.calls import RANGE
from leasehold.stores.quick_json import spellings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from leasehold.domain.events import Event
    from leasehold.stores import HistoryQuery
    from leasehold.stores.etcd import EtcdStore

    Kept: TypeAlias = tuple[str, bytes]
    """The events of one commit: their key and its value."""

PAGE = 500
"""Commits that are read together."""


def find(store: EtcdStore, query: HistoryQuery) -> list[Event]:
    """Return the events that match the query."""
    found: list[Event] = []
    signs = _signs(query)
    for page in _pages(store, query.before):
        for kept in reversed(page):
            found += [event for event in _events(store, kept, signs) if query.wants(event)]
            if len(found) >= query.limit:
                return found[: max(query.limit, 0)]
        if query.since is not None:
            oldest = [event for kept in page[:1] for event in _events(store, kept, ())]
            if oldest and oldest[0].at_us < query.since:
                break
    return found


def count(store: EtcdStore, kept: Sequence[Kept]) -> int:
    """Count the events of these commits."""
    return sum(len(_events(store, each, ())) for each in kept)


def _signs(query: HistoryQuery) -> list[tuple[bytes, ...]]:
    """Return, for each word of the query, its spellings in JSON: a matching commit contains one of them."""
    asked = ((query.space,), (query.resource,), (query.holder,), (query.lease,), query.kinds)
    return [
        tuple(each.encode() for word in words if word is not None for each in spellings(word))
        for words in asked
        if words and words != (None,)
    ]


def _events(store: EtcdStore, kept: Kept, signs: Sequence[tuple[bytes, ...]]) -> list[Event]:
    """Decode the events of a commit, newest first; return none if no event can match."""
    name, data = kept
    try:
        data = rows.whole(store, data)
    except Conflict:  # pruned meanwhile
        return []
    if all(any(sign in data for sign in either) for either in signs):
        return rows.events_of(data, store.names.number_in(name))
    return []


def _pages(store: EtcdStore, before: int | None) -> Iterator[list[Kept]]:
    """Yield pages as of one revision: the newest page first, each page oldest first."""
    first, last, revision = _bounds(store, before)
    end, width = last + 1, PAGE
    while end > first:
        start = max(first, end - width)
        asked = messages.range_request(
            store.names.events(start), store.names.events(end), limit=PAGE, revision=revision
        )
        found = messages.range_answer(store.calls.ask(RANGE, asked))
        if found.more:  # the limit kept the oldest of the page, and cut off the newest
            width //= 2
            continue
        yield rows.each(found)
        end = start
        if len(found.pairs) < PAGE // 2:
            width *= 2


def _bounds(store: EtcdStore, before: int | None) -> tuple[int, int, int]:
    """Return the numbers of the oldest and the newest event to search, and etcd's revision."""
    names = store.names
    told = store.txn([], [messages.get(names.meta), messages.get(*names.all_events(), limit=1, keys_only=True)], [])
    meta, oldest = told.responses
    if not oldest.pairs:
        return 0, -1, told.revision
    seq, last = rows.meta_of(rows.only(meta)).seq, None
    if before is not None and before <= seq:
        last = _next(store, before, told.revision)
    elif _next(store, seq + 1, told.revision) is None:
        last = seq
    if last is None:  # `meta` was deleted and written anew: it does not count these events
        last = _number(store, told.revision, *names.all_events(), backwards=True)
    return names.number_in(oldest.pairs[0][0]), last or 0, told.revision


def _next(store: EtcdStore, number: int, revision: int) -> int | None:
    """Return the number of the first commit from this number on."""
    return _number(store, revision, store.names.events(number), store.names.all_events()[1])


def _number(store: EtcdStore, revision: int, first: str, end: str, *, backwards: bool = False) -> int | None:
    asked = messages.range_request(first, end, limit=1, revision=revision, backwards=backwards, keys_only=True)
    pairs = messages.range_answer(store.calls.ask(RANGE, asked)).pairs
    return store.names.number_in(pairs[0][0]) if pairs else None

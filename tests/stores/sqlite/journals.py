"""What the tests of SQLite's journal share: a short one, what a store knows, and commits of all sorts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from leasehold.domain.entries import EMPTY, Drop, End, Put, Ref, Waiter
from leasehold.stores import HistoryQuery
from leasehold.stores.sqlite import SqliteStore, database, journal
from tests.kit.samples import commit, event, hold, waiter

if TYPE_CHECKING:
    import random
    from pathlib import Path

    import pytest

    from leasehold.domain.entries import Entry, Record
    from leasehold.domain.events import Event
    from leasehold.stores.protocol import Store
    from tests.kit.samples import FakeClock

STAYS = 3
"""After so many commits a process stays, in these tests."""
SHORT = 30
KEYS = [f"{kind}{name}" for kind in "naq" for name in ("a", "b", "ü", "\U0001f512")]
ALL = HistoryQuery(limit=100_000)


def shorten(monkeypatch: pytest.MonkeyPatch, full: int = SHORT) -> None:
    monkeypatch.setattr(database, "LASTING", STAYS)
    monkeypatch.setattr(database, "ALONE", 0)
    monkeypatch.setattr(journal, "FULL", full)


def staying(
    path: Path, clock: FakeClock, *, days: int = 30, keeps: int = 1_000_000, cache: int = 20_000
) -> SqliteStore:
    """A store that has made as many commits as make it stay, and has an empty journal."""
    store = SqliteStore(str(path), clock=clock, retention_days=days, retention_rows=keeps, cache_records=cache)
    for _ in range(STAYS):
        commit(store, fences=1)
    assert rows(path) == 0
    return store


def rows(path: Path | str, table: str = "journal") -> int:
    """How many rows a table has."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(connection.execute(f"SELECT count(*) FROM {table}").get)
    finally:
        connection.close()


def plain(record: Record) -> dict[str, Entry]:
    return {entry.id: entry for entry in (*record.holds.values(), *record.waiters, *record.notes.values())}


def looked(store: Store) -> tuple[object, ...]:
    """Everything that can be seen without a turn."""
    records = {key: plain(record) for key, record in store.read(KEYS)[1].items()}
    scanned = {key: plain(record) for kind in "naq" for key, record in store.scan(kind)}
    assert scanned == {key: found for key, found in records.items() if found}
    return records, list(store.history(ALL))


def known(store: Store) -> tuple[object, ...]:
    """Everything that a turn and a look can tell, but the time."""
    turn = store.begin()
    try:
        loaded = turn.load(KEYS)
        records = {key: plain(loaded[key]) for key in KEYS}
        due = set(turn.due(10_000))
        fence = turn.fence
    finally:
        turn.close()
    seen, history = looked(store)
    assert seen == records
    return fence, records, due, history


def some_changes(chance: random.Random, store: Store, now: int, number: int) -> list[Put | Drop]:
    """A few changes: new entries, other ones in their place, drops of what is there and of what is not."""
    records = store.read(KEYS)[1]
    changes: list[Put | Drop] = []
    for _ in range(chance.randrange(6)):
        key = chance.choice(KEYS)
        there = list(plain(records.get(key, EMPTY)).values())
        if there and chance.random() < 0.6:
            one = chance.choice(there)
            changes.append(Drop(key, one.id) if chance.random() < 0.7 else Put(key, changed(one, now)))
        elif chance.random() < 0.1:
            changes.append(Drop(key, f"l{number}-none"))
        else:
            changes.append(Put(key, fresh(chance, now, number)))
        number += 1
    return changes


def fresh(chance: random.Random, now: int, number: int) -> Entry:
    names = (f"name {number}", f"ü{number}")
    made: list[Entry] = [hold(number, *names, now=now), waiter(number, names[0], deadline=now + 5)]
    return chance.choice([*made, Ref(f"r{number}"), ended(number, now)])


def ended(number: int, until: int) -> End:
    return End(f"e{number}", "released", until, until)


def changed(entry: Entry, now: int) -> Entry:
    if isinstance(entry, Waiter):
        return entry._replace(deadline=now)
    return entry if isinstance(entry, Ref) else ended(9, now)._replace(id=entry.id)


def some_events(chance: random.Random, now: int, number: int) -> list[Event]:
    kinds, names = ("granted", "released", "expired"), ("a", "b", 'quo"ted', "back\\slash", "ü\u202e", "tab\tbed")
    return [
        event(
            chance.choice(kinds),
            *chance.sample(names, chance.randrange(1, 4)),
            at=now,
            holder=chance.choice(names),
            lease=chance.choice([None, f"l{number}", "l0"]),
            fence=number,
            space=chance.choice(["default", "org/x"]),
            session=chance.choice([None, "s"]),
            detail=chance.choice([{}, {"ttl": 5, "name": None, "deep": [1.5, {"ä": "\n"}]}]),
        )
        for _ in range(chance.randrange(4))
    ]

"""Many events in one row: found like any others, and forgotten one by one."""

from __future__ import annotations

import random
from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import pytest

from leasehold.stores import HistoryQuery, sqlite
from leasehold.stores.memory import Memory, MemoryStore
from leasehold.stores.sqlite import SqliteStore, event_rows, journal_rows, pruning
from tests.kit.samples import MINUTE, FakeClock, commit, event
from tests.stores.sqlite.journals import ALL, STAYS, rows, shorten, some_events, staying

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from leasehold.domain.events import Event
    from leasehold.stores.protocol import Store

DAY = 24 * 60 * MINUTE
LONG = 5
"""The most events in one row, in these tests."""


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
    for module in (sqlite, event_rows, journal_rows):
        monkeypatch.setattr(module, "EVENTS_MOST", LONG)


@pytest.fixture
def store(path: Path, clock: FakeClock, short: None) -> Iterator[SqliteStore]:
    store = staying(path, clock)
    yield store
    store.close()


def many(start: int, count: int) -> tuple[Event, ...]:
    return tuple(event(at=start + number) for number in range(count))


def numbers(store: Store, **wanted: object) -> list[int]:
    return [each.seq for each in store.history(HistoryQuery(**wanted))]  # type: ignore[arg-type]


def test_events_of_a_process_that_stays_share_rows(store: SqliteStore, path: Path, clock: FakeClock) -> None:
    for _ in range(12):
        commit(store, events=many(clock.wall(), 1))
    store.prune()
    assert rows(path) == 0
    assert rows(path, "event") == 3
    assert numbers(store) == list(range(12, 0, -1))


@pytest.mark.parametrize("sizes", [(12,), (3, 3, 3), (1, 0, 4, 6, 2), (5, 5)])
def test_folding_the_journal_of_another_process_does_not_decode_events(
    store: SqliteStore, path: Path, clock: FakeClock, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of the journal may have more events than one of `event`; the next commit's own events come after them."""
    for size in sizes:
        commit(store, events=many(clock.wall(), size), fences=1)
    expected = list(store.history(ALL))
    assert rows(path) == len(sizes)
    other = SqliteStore(str(path), clock=clock)
    with monkeypatch.context() as patched:
        patched.setattr(event_rows, "unpack_event", None)
        commit(other, events=many(clock.wall(), 2))
    assert rows(path) == 0
    later = store.history(ALL)
    assert later[2:] == expected
    assert [each.seq for each in later[:2]] == [sum(sizes) + 2, sum(sizes) + 1]
    assert rows(path, "event") < len(later)
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.execute("SELECT max(seq - first + 1) FROM event").get <= LONG
    other.close()


def test_a_row_of_one_event(store: SqliteStore, path: Path, clock: FakeClock) -> None:
    told = event("granted", 'a"b', "ü", at=clock.wall(), lease="l1", fence=7, session="s", detail={"a": [1, None, "ä"]})
    commit(store, events=(told,))
    store.prune()
    assert rows(path, "event") == 1
    assert store.history(ALL) == [told._replace(seq=1)]


# ------------------------------------------------------------------------------------------ found


def some_query(chance: random.Random, now: int, newest: int) -> HistoryQuery:
    names = ("a", "b", 'quo"ted', "back\\slash", "ü\u202e", "tab\tbed", "quo", "nobody")

    def maybe(*choices: object) -> object:
        return chance.choice(choices) if chance.random() < 0.4 else None

    return HistoryQuery(
        space=maybe("default", "org/x"),  # type: ignore[arg-type]
        resource=maybe(*names),  # type: ignore[arg-type]
        holder=maybe(*names),  # type: ignore[arg-type]
        lease=maybe("l0", "l7", "l12", "l"),  # type: ignore[arg-type]
        kinds=tuple(chance.sample(["granted", "released", "expired", "queued"], chance.choice([0, 0, 1, 2]))),
        since=maybe(now - 40, now - 20, now - 1, now),  # type: ignore[arg-type]
        before=maybe(0, 1, newest // 2, newest - 3, newest + 1),  # type: ignore[arg-type]
        limit=chance.choice([0, 1, 2, 7, 1_000]),
    )


@pytest.mark.parametrize("seed", range(8))
def test_every_query_finds_the_same_wherever_events_are(path: Path, clock: FakeClock, short: None, seed: int) -> None:
    """In rows of one commit or of several and in the journal, compared with the store in memory."""
    chance = random.Random(seed)
    memory = MemoryStore(Memory(clock=clock.wall))
    store = staying(path, clock)
    for number in range(60):
        clock.pass_time(1)
        events = some_events(chance, clock.wall(), number)
        if number % 20 == 10:  # another process writes them without a journal
            other = SqliteStore(str(path), clock=clock)
            commit(other, events=tuple(events))
            other.close()
        else:
            commit(store, events=tuple(events))
        if number % 20 == 5:
            store.prune()
        commit(memory, events=tuple(events))
    assert rows(path) > 0
    assert rows(path, "event") > 3
    for _ in range(300):
        query = some_query(chance, clock.wall(), memory.memory.seq)
        assert store.history(query) == memory.history(query), query
    store.close()


def test_paging_gets_every_event_once(store: SqliteStore, clock: FakeClock) -> None:
    for _ in range(40):
        commit(store, events=many(clock.wall(), 1))
    found: list[int] = []
    while page := numbers(store, before=found[-1] if found else None, limit=3):
        found += page
    assert found == list(range(40, 0, -1))


def test_rows_without_what_is_asked_for_are_not_read(
    store: SqliteStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        commit(store, events=(event("granted", f"res {number}", at=clock.wall() + number, lease=f"l{number}-a"),))
    store.prune()
    read: list[int] = []
    events_in = event_rows.events_in

    def count(body: bytes, last: int, first: int = 0) -> list[Event]:
        read.append(first)
        return events_in(body, last, first)

    monkeypatch.setattr(event_rows, "events_in", count)
    for wanted in ({"resource": "res 17"}, {"lease": "l17-a"}, {"since": clock.wall() + 48}, {"before": 2}):
        read.clear()
        assert numbers(store, **wanted)
        assert len(read) == 1, wanted
    read.clear()
    assert numbers(store, kinds=("expired",)) == numbers(store, holder="nobody") == []
    assert read == []


# ------------------------------------------------------------------------------------------ forgotten


@pytest.mark.parametrize("kept", range(13))
def test_only_so_many_events_are_kept(path: Path, clock: FakeClock, short: None, kept: int) -> None:
    store = staying(path, clock, keeps=kept)
    for _ in range(12):
        commit(store, events=many(clock.wall(), 1))
    assert store.prune() == 12 - kept
    assert numbers(store) == list(range(12, 12 - kept, -1))
    assert store.prune() == 0
    store.close()


@pytest.mark.parametrize("old", range(13))
def test_only_so_many_days_are_kept(path: Path, clock: FakeClock, short: None, old: int) -> None:
    store = staying(path, clock, days=30)
    for number in range(12):
        if number == old:
            clock.pass_time(20 * DAY)
        commit(store, events=many(clock.wall(), 1))
    clock.pass_time(20 * DAY if old < 12 else 40 * DAY)
    assert store.prune() == old
    assert numbers(store) == list(range(12, old, -1))
    assert store.prune() == 0
    commit(store, events=many(clock.wall(), 1))
    assert numbers(store, limit=1) == [13]
    store.close()


@pytest.mark.parametrize("step", [1, 4, 5, 7])
def test_a_little_at_a_time(
    path: Path, clock: FakeClock, short: None, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "STEP", step)
    store = staying(path, clock)
    for number in range(23):
        commit(store, events=many(clock.wall() + number, 1))
    store.close()
    store = SqliteStore(str(path), clock=clock, retention_rows=2)
    left = 23
    while went := store.prune():
        assert went == min(step, left - 2)
        left -= went
        found = store.history(ALL)
        assert [each.seq for each in found] == list(range(23, 23 - left, -1))
        assert [each.at_us - clock.wall() for each in found] == list(range(22, 22 - left, -1))
    assert left == 2
    store.close()


def test_numbers_of_deleted_events_are_not_used_again(path: Path, clock: FakeClock, short: None) -> None:
    store = staying(path, clock, keeps=0)
    commit(store, events=many(clock.wall(), 7), fences=5)
    assert store.prune() == 7
    assert rows(path, "event") == 0
    store.close()
    store = SqliteStore(str(path), clock=clock)
    turn = store.begin()
    turn.close()
    assert turn.fence == 1 + STAYS + 5
    commit(store, events=many(clock.wall(), 1))
    assert numbers(store) == [8]
    store.close()

"""History: newest first, filtered, paged, and forgotten in time."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.stores import HistoryQuery, sqlite
from leasehold.stores.sqlite import SqliteStore, pruning
from tests.kit.samples import MINUTE, SPACE, FakeClock, commit, event, texts

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from leasehold.domain.events import Event

DAY = 24 * 60 * MINUTE


def told(store: SqliteStore, **wanted: object) -> list[int]:
    """Times of the events that a query finds."""
    return [each.at_us for each in store.history(HistoryQuery(**wanted))]  # type: ignore[arg-type]


def test_events_come_back_as_they_were_newest_first(store: SqliteStore) -> None:
    first = event(
        "granted", "issue:1", "path:ü/\u202ex", at=1, lease="l1", fence=7, session="s", detail={"a": [1, None, "ä"]}
    )
    second = event("released", at=2, detail={})
    commit(store, events=(first, second))
    commit(store, events=(event("expired", at=3),))
    found = store.history(HistoryQuery())
    assert [each.seq for each in found] == [3, 2, 1]
    assert found[2] == first._replace(seq=1)
    assert found[1] == second._replace(seq=2)
    assert isinstance(found[2].resources, tuple)


def test_every_filter(store: SqliteStore) -> None:
    commit(
        store,
        events=(
            event("granted", "a", at=1, lease="l1", holder="ann"),
            event("granted", "a", "b", at=2, lease="l2", holder="bob"),
            event("released", "b", at=3, lease="l2", holder="bob", space="org/x"),
            event("expired", "ab", at=4, lease="l3", holder="cyd"),
        ),
    )
    assert told(store) == [4, 3, 2, 1]
    assert told(store, space=SPACE) == [4, 2, 1]
    assert told(store, resource="a") == [2, 1]
    assert told(store, resource="b") == [3, 2]
    assert told(store, resource="ab") == [4]
    assert told(store, resource='a","b') == []
    assert told(store, holder="bob") == [3, 2]
    assert told(store, lease="l2") == [3, 2]
    assert told(store, kinds=("granted", "expired")) == [4, 2, 1]
    assert told(store, since=3) == [4, 3]
    assert told(store, before=3) == [2, 1]
    assert told(store, limit=2) == [4, 3]
    assert told(store, limit=0) == []
    assert told(store, limit=-1) == []
    assert told(store, holder="bob", kinds=("granted",), resource="b", since=1, before=9, space=SPACE) == [2]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.lists(texts, min_size=1, max_size=4), texts)
def test_any_resource_is_found_exactly(store: SqliteStore, resources: list[str], other: str) -> None:
    commit(store, events=(event("granted", *resources),))
    newest = HistoryQuery(before=None, limit=1)
    (latest,) = store.history(newest)
    assert latest.resources == tuple(resources)
    for each in (*resources, other):
        found = store.history(HistoryQuery(resource=each, limit=1))
        assert bool(found and found[0].seq == latest.seq) == (each in resources)


def test_history_is_there_after_a_restart(store: SqliteStore, path: Path) -> None:
    commit(store, events=(event(at=1),))
    store.close()
    reopened = SqliteStore(str(path))
    commit(reopened, events=(event(at=2),))
    assert told(reopened) == [2, 1]
    reopened.close()


def many(start: int, count: int) -> tuple[Event, ...]:
    return tuple(event(at=start + number) for number in range(count))


def backlog(path: Path, clock: FakeClock, count: int) -> None:
    """So many events, written while all of them were to be kept."""
    store = SqliteStore(str(path), clock=clock)
    commit(store, events=many(clock.wall(), count))
    store.close()


def test_only_so_many_rows_are_kept(path: Path) -> None:
    clock = FakeClock()
    backlog(path, clock, 2_345)
    store = SqliteStore(str(path), clock=clock, retention_rows=100)
    assert [store.prune() for _ in range(4)] == [1_000, 1_000, 245, 0]
    found = store.history(HistoryQuery(limit=1_000))
    assert [each.seq for each in found] == list(range(2_345, 2_245, -1))
    store.close()


def test_writing_trims_the_history(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One-shot processes never collect, and a history that nobody trims would fill the disk."""
    monkeypatch.setattr(pruning, "STEP", 100)
    monkeypatch.setattr(sqlite, "TRIM_EVERY", 50)
    clock = FakeClock()
    backlog(path, clock, 500)
    store = SqliteStore(str(path), clock=clock, retention_rows=100)
    lengths = [500]
    for _ in range(500):
        commit(store, events=many(clock.wall(), 1))
        lengths.append(len(store.history(HistoryQuery(limit=1_000))))
    assert max(before - after for before, after in itertools.pairwise(lengths)) < 100, "a little at a time"
    assert max(lengths[-50:]) <= 100 + 50
    store.close()


def test_a_large_batch_does_not_outrun_the_trimming(path: Path) -> None:
    clock = FakeClock()
    store = SqliteStore(str(path), clock=clock, retention_rows=100)
    for _ in range(5):
        commit(store, events=many(clock.wall(), 3_000))
    assert len(store.history(HistoryQuery(limit=100_000))) == 100
    store.close()


def test_only_so_many_days_are_kept_and_numbers_are_not_used_again(path: Path) -> None:
    clock = FakeClock()
    store = SqliteStore(str(path), clock=clock, retention_days=30)
    commit(store, events=many(clock.wall(), 10))
    clock.pass_time(20 * DAY)
    assert store.prune() == 0
    commit(store, events=many(clock.wall(), 5))
    clock.pass_time(20 * DAY)
    assert store.prune() == 10
    assert [each.seq for each in store.history(HistoryQuery())] == [15, 14, 13, 12, 11]
    clock.pass_time(20 * DAY)
    assert store.prune() == 5
    assert store.history(HistoryQuery()) == []
    commit(store, events=many(clock.wall(), 1))
    assert [each.seq for each in store.history(HistoryQuery())] == [16]
    store.close()


def test_pruning_nothing_writes_nothing(path: Path) -> None:
    store, other = SqliteStore(str(path)), SqliteStore(str(path))
    commit(store, events=(event(at=store.read([])[0]),))
    other.hint()
    assert store.prune() == 0
    assert not other.hint()
    store.close()
    other.close()

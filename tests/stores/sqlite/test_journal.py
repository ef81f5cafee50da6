"""The journal of a long-lived process: readers see no difference, and the next process finds everything."""

from __future__ import annotations

import random
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import pytest

from leasehold.domain import keys
from leasehold.domain.entries import Drop, Put, Ref
from leasehold.errors import StoreBehind, StoreError
from leasehold.stores import HistoryQuery, quick_json
from leasehold.stores.memory import Memory, MemoryStore
from leasehold.stores.sqlite import SqliteStore, journal, journal_rows, long_running
from leasehold.stores.sqlite.checkup import look
from leasehold.stores.sqlite.database import ALONE, LASTING
from tests.kit.samples import MINUTE, FakeClock, commit, entries, event, hold, node, seen
from tests.stores.sqlite.child import ROOT, Child
from tests.stores.sqlite.journals import ALL, STAYS, known, looked, rows, shorten, some_changes, some_events, staying
from tests.stores.sqlite.test_restore import back_up, restore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from leasehold.domain.events import Event


@pytest.fixture
def store(path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    """One that stays, and has not journalled anything yet."""
    shorten(monkeypatch)
    store = staying(path, clock)
    yield store
    store.close()


def brief(path: Path, clock: FakeClock) -> closing[SqliteStore]:
    return closing(SqliteStore(str(path), clock=clock, is_one_shot=True))


# ------------------------------------------------------------------------------------------ nobody can tell


class Scene:
    """One file, and the same in memory."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.chance = random.Random(seed)
        self.clock = FakeClock()
        self.memory = MemoryStore(Memory(clock=self.clock.wall))
        self.stores = [SqliteStore(str(path), clock=self.clock) for _ in range(2)]
        self.was_journalled = 0
        self.number = 1

    def step(self) -> None:
        """A commit by somebody: one of two that stay, or one that comes only for this."""
        self.clock.pass_time(self.chance.randrange(3))
        store = self.chance.choice(self.stores) if self.chance.random() < 0.9 else None
        if store is not None:
            self.write(store)
        else:
            with brief(self.path, self.clock) as other:
                if self.chance.random() < 0.5:
                    assert looked(other) == looked(self.memory)
                self.write(other)
        self.was_journalled += bool(rows(self.path))

    def write(self, store: SqliteStore) -> None:
        now = self.clock.wall()
        changes = some_changes(self.chance, self.memory, now, self.number)
        events = some_events(self.chance, now, self.number)
        for each in (store, self.memory):
            turn = each.begin()
            turn.load([change.key for change in changes] if self.chance.random() < 0.7 else [])
            fence = turn.fence + self.number % 3
            turn.commit(changes, events, fence)
            turn.close()
        self.number += len(changes) + 1

    def compare(self) -> None:
        expected = known(self.memory)
        for store in self.stores:
            assert known(store) == expected
        with brief(self.path, self.clock) as other:
            assert looked(other) == looked(self.memory)
            assert known(other) == expected

    def close(self) -> None:
        for store in self.stores:
            store.close()


@pytest.mark.parametrize("library", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_all_stores_agree_whichever_process_writes(
    path: Path, seed: int, library: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch)
    if not library:  # the server's own, which embedded users need not have
        monkeypatch.setattr(quick_json, "msgspec", None)
        monkeypatch.setattr(journal_rows, "encode_whole", quick_json._chosen()[1])
    scene = Scene(path, seed)
    for step in range(80):
        scene.step()
        if step % 4 == 0:
            scene.compare()
    scene.compare()
    scene.close()
    assert scene.was_journalled > 10
    assert rows(path) == 0
    with brief(path, scene.clock) as again:
        assert known(again) == known(scene.memory)


def test_a_commit_is_one_row_and_touches_no_other_table(store: SqliteStore, path: Path) -> None:
    before = rows(path, "entry"), rows(path, "event")
    for number in range(4):
        commit(store, Put("na", Ref(f"x{number}")), events=(event(at=number),), fences=1)
    assert rows(path) == 4
    assert (rows(path, "entry"), rows(path, "event")) == before


def test_what_was_put_and_dropped_again_never_reaches_the_table(store: SqliteStore, path: Path) -> None:
    commit(store, Put("na", Ref("x")))
    commit(store, Drop("na", "x"))
    said: list[str] = []
    store._database.connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda told: said.append(told["sql"]))
    store.prune()
    assert any("DELETE FROM journal" in each for each in said)
    assert not any("entry" in each for each in said)


def test_it_is_folded_when_it_is_long(store: SqliteStore, path: Path) -> None:
    lengths = []
    for number in range(60):
        commit(store, Put("na", Ref(f"x{number}")))
        lengths.append(rows(path))
    assert max(lengths) == 30
    assert lengths.count(0) == 1
    assert len(seen(store, "na")) == 60


@pytest.mark.parametrize(("early", "whole", "expected"), [(1, 10**9, True), (10**9, 10**9, False), (1, 1, True)])
def test_the_log_is_copied_back_when_the_journal_is_folded(
    store: SqliteStore, path: Path, early: int, whole: int, expected: bool
) -> None:
    """Folding stalls the requests of that moment, and so does copying the log back: both happen in one turn."""
    store._database.log.limit, store._database.log.fold_limit = whole, early
    before = path.read_bytes()
    for number in range(5):
        commit(store, Put("na", Ref(f"x{number}")))
    assert (path.read_bytes() != before) is (whole == 1)
    store.prune()
    assert rows(path) == 0
    assert (path.read_bytes() != before) is expected


def test_the_log_is_copied_back_when_it_is_long(path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
    monkeypatch.setattr(long_running, "CHECKPOINT", 3)
    monkeypatch.setattr(long_running, "EARLY", 10**9)
    with closing(staying(path, clock)) as store:
        before = path.read_bytes()
        for number in range(5):
            commit(store, Put("na", Ref(f"x{number}")))
        assert rows(path) == 5, "nothing was folded"
        assert path.read_bytes() != before


def test_it_is_folded_when_it_is_large(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "LARGE", 10_000)
    lengths = []
    for number in range(8):
        commit(store, events=(event(at=number, detail={"told": "x" * 4_000}),))
        lengths.append(rows(path))
    assert lengths == [1, 2, 3, 0, 1, 2, 3, 0]


def test_a_batch_that_is_long_by_itself_is_not_written_twice(store: SqliteStore, path: Path) -> None:
    commit(store, *(Put(f"n{number}", Ref("x")) for number in range(31)))
    assert rows(path) == 0
    assert rows(path, "entry") == 31


def test_a_record_that_was_forgotten_is_found_again(
    path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch, 1_000)
    store = staying(path, clock, cache=4)
    for number in range(40):
        commit(store, Put(f"n{number}", Ref("x")), Put(f"n{number}", Ref("y")))
        commit(store, Drop(f"n{number}", "x"))
    assert rows(path) == 80
    for number in range(40):
        assert entries(store, f"n{number}") == {"y": Ref("y")}
    store.close()


def test_half_a_character_is_refused_and_harms_nothing(store: SqliteStore, path: Path) -> None:
    commit(store, Put("na", Ref("x")))
    with pytest.raises(UnicodeEncodeError):
        commit(store, Put("na", Ref("half \ud800")), events=(event(at=1),))
    assert entries(store, "na") == seen(store, "na") == {"x": Ref("x")}
    commit(store, Put("na", Ref("y")))
    assert set(entries(store, "na")) == {"x", "y"}
    assert store.history(ALL) == []


def test_a_commit_that_fails_is_not_remembered(store: SqliteStore, path: Path, clock: FakeClock) -> None:
    commit(store, Put("na", Ref("x")), fences=1)
    connection = store._database.connection

    def refuse() -> bool:
        return True

    connection.set_commit_hook(refuse)
    with pytest.raises(StoreError):
        commit(store, Put("na", Ref("y")), Drop("na", "x"), events=(event(at=clock.wall()),), fences=7)
    connection.set_commit_hook(None)
    assert entries(store, "na") == seen(store, "na") == {"x": Ref("x")}
    assert store.history(ALL) == []
    commit(store, Put("na", Ref("z")), events=(event(at=clock.wall() + 2),))
    assert [each.seq for each in store.history(ALL)] == [1]
    store.prune()
    assert entries(store, "na") == seen(store, "na") == {"x": Ref("x"), "z": Ref("z")}
    store.close()  # which folds the journal
    later = SqliteStore(str(path), clock=clock)
    assert [(each.seq, each.at_us) for each in later.history(ALL)] == [(1, clock.wall() + 2)]
    later.close()


def test_a_journal_that_could_not_be_read_is_read_again_from_where_it_was(
    store: SqliteStore, path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = staying(path, clock)
    commit(store, Put("na", Ref("x")), events=(event(at=clock.wall()),))
    assert set(entries(other, "na")) == {"x"}
    for number in range(3):
        commit(store, Put("na", Ref(f"y{number}")), events=(event(at=clock.wall()),))
    decode, calls = apsw.jsonb_decode, iter([False, True])

    def fail_once(body: bytes) -> object:
        if next(calls, False):
            raise apsw.IOError("the disk")
        return decode(body)

    monkeypatch.setattr(apsw, "jsonb_decode", fail_once)
    with pytest.raises(StoreError):
        other.begin()
    commit(other, Put("na", Ref("z")), events=(event(at=clock.wall()),))
    other.prune()
    assert set(entries(other, "na")) == {"x", "y0", "y1", "y2", "z"}
    assert [each.seq for each in store.history(ALL)] == [5, 4, 3, 2, 1]
    other.close()


# ------------------------------------------------------------------------------------------ numbers


def fence(store: SqliteStore) -> int:
    turn = store.begin()
    turn.close()
    return turn.fence


def test_fences_and_events_go_on_from_the_journal(store: SqliteStore, path: Path, clock: FakeClock) -> None:
    commit(store, events=(event(at=1), event(at=2)), fences=5)
    commit(store, fences=3)
    expected = fence(store)
    assert rows(path) == 2
    assert look(str(path)).fence == expected
    with brief(path, clock) as other:
        assert fence(other) == expected
        commit(other, events=(event(at=3),), fences=1)
        assert rows(path) == 0
    assert fence(store) == expected + 1
    assert [(each.seq, each.at_us) for each in store.history(ALL)] == [(3, 3), (2, 2), (1, 1)]


def test_the_clock_goes_on_from_the_journal(store: SqliteStore, path: Path, clock: FakeClock) -> None:
    clock.pass_time(10 * MINUTE)
    commit(store, Put("na", Ref("x")))
    assert rows(path) == 1
    told, _ = store.read([])
    clock.step_wall(-60 * MINUTE)
    clock.reboot(after=0)
    with brief(path, clock) as other:
        assert other.read([])[0] >= told


def test_numbers_of_rows_are_not_used_again(store: SqliteStore, path: Path, clock: FakeClock) -> None:
    """A reader of one journal that returns after another was written must not take one for the other."""
    reader = SqliteStore(str(path), clock=clock)
    for turn in range(3):
        commit(store, Put("na", Ref(f"x{turn}")))
        assert set(seen(reader, "na")) == {f"x{each}" for each in range(turn + 1)}
        store.prune()
    reader.close()


def test_a_scan_of_one_kind_of_record_skips_other_rows(
    store: SqliteStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(store, Put("ka", Ref("x")), Put("na", Ref("w")))
    for number in range(5):
        commit(store, Put("na", Ref(f"y{number}")), events=(event("granted", "issue:k", at=clock.wall()),))
    commit(store, Put("kb", Ref("z")), Drop("ka", "x"))
    decode, decoded = apsw.jsonb_decode, list[bytes]()

    def count(body: bytes) -> object:
        decoded.append(body)
        return decode(body)

    monkeypatch.setattr(apsw, "jsonb_decode", count)
    assert [(key, list(record.notes)) for key, record in store.scan("k")] == [("kb", ["z"])]
    assert len(decoded) == 2


def test_the_doctor_counts_events_wherever_they_are(
    path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> tuple[int, int | None]:
        facts = look(str(path))
        assert facts.damage == ""
        return facts.events, facts.oldest

    shorten(monkeypatch)
    store, now = staying(path, clock), clock.wall()
    assert told() == (0, None)
    commit(store, events=(event(at=now), event(at=now + 1)))
    assert rows(path) == 1
    assert told() == (2, now)
    store.prune()
    commit(store, events=(event(at=now + 2),))
    assert rows(path) == 1
    assert told() == (3, now)
    store.close()


# ------------------------------------------------------------------------------------------ after a while away


def test_survivors_of_a_reboot_are_found_in_the_journal(store: SqliteStore, path: Path, clock: FakeClock) -> None:
    commit(store, Put("na", Ref(keys.waiter_id(1, node("a")))))
    turn = store.begin()
    lease = hold(1, "a", now=turn.now)
    turn.commit([Put(node("a"), lease), Put("na", Ref(lease.id))], [event(at=turn.now)], turn.fence + 1)
    turn.close()
    assert rows(path) == 2
    expected = fence(store)
    clock.reboot(after=MINUTE)
    with brief(path, clock) as other:
        assert rows(path) == 0
        (after,) = entries(other, node("a")).values()
        assert after.expires_at == other.read([])[0] + 30 * MINUTE  # type: ignore[union-attr]
        assert set(entries(other, "na")) == {lease.id}
        assert len(other.history(ALL)) == 1
        assert fence(other) == expected


def test_a_backup_with_a_journal_is_noticed_and_can_be_accepted(
    store: SqliteStore, path: Path, clock: FakeClock
) -> None:
    turn = store.begin()
    turn.commit([Put(node("a"), hold(1, "a", now=turn.now))], [event(at=1)], turn.fence + 1)
    turn.close()
    backup = back_up(path)
    commit(store, Put(node("b"), hold(2, "b", now=turn.now)), fences=7)
    expected = fence(store)
    assert rows(path) == 2
    store.close()
    restore(path, backup)
    with pytest.raises(StoreBehind):
        SqliteStore(str(path), clock=clock)
    assert rows(path) == 1, "nothing was touched"
    accepted = SqliteStore(str(path), clock=clock, accept_restore=True)
    assert fence(accepted) == expected + 1_000_000
    assert len(entries(accepted, node("a"))) == 1
    assert entries(accepted, node("b")) == {}
    assert len(accepted.history(ALL)) == 1
    accepted.close()


def test_a_backup_of_the_newest_journal_is_as_good_as_the_database(
    store: SqliteStore, path: Path, clock: FakeClock
) -> None:
    commit(store, Put("na", Ref("x")), events=(event(at=1),), fences=4)
    expected = known(store)
    backup = back_up(path)
    assert rows(backup) == 1
    store.close()
    restore(path, backup)
    with brief(path, clock) as again:
        assert known(again) == expected


# ------------------------------------------------------------------------------------------ history


def many(start: int, count: int) -> tuple[Event, ...]:
    return tuple(event(at=start + number) for number in range(count))


def test_pruning_counts_the_journal_in(path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch, 1_000)
    store = staying(path, clock, keeps=5)
    for number in range(4):
        commit(store, events=many(clock.wall() + number, 4))
    assert rows(path) == 4
    assert store.prune() == 11
    assert [each.seq for each in store.history(ALL)] == [16, 15, 14, 13, 12]
    assert store.prune() == 0
    commit(store, events=many(clock.wall() + 10, 1))
    assert store.prune() == 1
    store.close()


def test_a_journal_does_not_keep_history_from_being_trimmed(
    path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch, 100_000)
    monkeypatch.setattr("leasehold.stores.sqlite.TRIM_EVERY", 20)
    store = staying(path, clock, keeps=10)
    for number in range(200):
        commit(store, events=many(clock.wall() + number, 1))
        assert len(store.history(ALL)) <= 10 + 20
    assert [each.seq for each in store.history(HistoryQuery(limit=10))] == list(range(200, 190, -1))
    store.close()


def test_a_little_more_history_is_forgotten_when_the_journal_is_folded_anyway(
    path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To fold takes a while, and a server's history is at its limit for most of its life."""
    shorten(monkeypatch, 100)
    monkeypatch.setattr("leasehold.stores.sqlite.TRIM_EVERY", 20)
    store = staying(path, clock, keeps=64 * 30)
    commit(store, events=many(clock.wall(), 64 * 30))
    commit(store, events=many(clock.wall(), 25))
    assert (rows(path), len(store.history(ALL))) == (1, 64 * 30 + 25)
    commit(store, events=many(clock.wall(), 25))
    assert (rows(path), len(store.history(ALL))) == (0, 64 * 30), "that is more than a little"
    for number in range(101):
        commit(store, events=many(clock.wall(), 1))
        assert len(store.history(ALL)) <= 64 * 31 + 20, number
    store.prune()
    assert len(store.history(ALL)) == 64 * 30
    store.close()


# ------------------------------------------------------------------------------------------ coming and going


def test_closing_leaves_no_journal_behind(store: SqliteStore, path: Path, clock: FakeClock) -> None:
    commit(store, Put("na", Ref("x")), events=(event(at=1),), fences=2)
    expected = known(store)
    assert rows(path) == 1
    store.close()
    assert rows(path) == 0
    with brief(path, clock) as other:
        assert known(other) == expected


def test_closing_does_not_wait_for_a_writer(store: SqliteStore, path: Path, clock: FakeClock) -> None:
    commit(store, Put("na", Ref("x")))
    with brief(path, clock) as other:
        turn = other.begin()
        store.close()
        turn.close()
        assert rows(path) == 1
        assert entries(other, "na") == {"x": Ref("x")}


def test_reading_does_not_fold_the_journal(store: SqliteStore, path: Path, clock: FakeClock) -> None:
    commit(store, Put("na", Ref("x")))
    with brief(path, clock) as other:
        looked(other)
        known(other)
    assert rows(path) == 1


def test_processes_take_turns(path: Path) -> None:
    """Real ones, one of which stays; what either has said is seen by the other at once."""
    staying_on, fleeting = Child(path), []
    for number in range(3):
        staying_on.ask(f"count {LASTING}")
        assert staying_on.ask(f"put na l{number}").startswith("put ")
        assert rows(path) > 0
        fleeting.append(Child(path))
        assert fleeting[-1].ask(f"has na l{number}") == "yes"
        assert rows(path) > 0, "looking changes nothing"
        assert fleeting[-1].ask(f"put na b{number}").startswith("put ")
        assert rows(path) == 0
        assert staying_on.ask(f"has na b{number}") == "yes"
    for child in (staying_on, *fleeting):
        child.close()
    with closing(SqliteStore(str(path))) as store:
        assert set(entries(store, "na")) == {f"{who}{number}" for who in "lb" for number in range(3)}
        assert fence(store) == 3 * LASTING + 6 + 1


def test_processes_that_take_turns_write_no_journal(path: Path, clock: FakeClock) -> None:
    ours, theirs = (SqliteStore(str(path), clock=clock) for _ in range(2))
    for number in range(LASTING + 2):
        commit(ours, Put("na", Ref(f"o{number}")))
        commit(theirs, Put("na", Ref(f"t{number}")))
        assert rows(path) == 0
    for number in range(ALONE + 3):
        commit(ours, Put("nb", Ref(f"p{number}")))
    assert rows(path) == 3
    commit(theirs, Put("nb", Ref("t")))
    assert rows(path) == 0
    commit(ours, Put("nb", Ref("o")))
    assert rows(path) == 0
    assert entries(ours, "na", "nb") == entries(theirs, "na", "nb") == seen(ours, "na", "nb")
    assert len(seen(ours, "na", "nb")) == 2 * (LASTING + 2) + ALONE + 3 + 2
    ours.close()
    theirs.close()


ONE_SHOT = """
import sys
sys.path.insert(0, sys.argv[1])
from leasehold.domain.entries import Put, Ref
from leasehold.stores.sqlite import SqliteStore
store = SqliteStore(sys.argv[2])
transaction = store.begin()
assert set(transaction.load(["na"])["na"].notes) == {"x"}
transaction.commit([Put("na", Ref("y"))], [], transaction.fence + 1)
transaction.close()
store.close()
print(*sys.modules)
"""


def test_a_one_shot_that_finds_a_journal_needs_nothing_dear(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
    store = SqliteStore(str(path))
    for _ in range(STAYS):
        commit(store, fences=1)
    commit(store, Put("na", Ref("x")), events=(event(at=1),))
    assert rows(path) == 1
    command = [sys.executable, "-I", "-c", ONE_SHOT, str(ROOT / "src"), str(path)]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert "leasehold.stores.sqlite.journal" in loaded
    assert loaded.isdisjoint({"json", "msgspec", "re", "enum", "typing", "leasehold.stores.sqlite.journal_rows"})
    assert rows(path) == 0
    assert set(entries(store, "na")) == {"x", "y"}
    store.close()

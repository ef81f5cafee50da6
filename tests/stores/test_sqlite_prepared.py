"""What is likely to be asked next is written before anybody asks: nothing comes of it, or just what was asked."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import pytest

from leasehold import batch
from leasehold.batch import RECENT
from leasehold.commands import Renew
from leasehold.engine import Engine
from leasehold.errors import StoreError
from leasehold.model import SECOND, Granted, Put, Ref, Refused, Released, Renewed
from leasehold.pending import Pending
from leasehold.stores.sqlite import SqliteStore, journal
from tests.engine.rig import acquire, begin_waiting, release, take
from tests.stores.early import handed_on, is_open
from tests.stores.journals import ALL, KEYS, known, rows
from tests.stores.samples import FakeClock, commit, entries, event, node, seen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from leasehold.model import Event
    from leasehold.stores.sqlite import SqliteTransaction

A = KEYS[0]


@pytest.fixture
def store(alone: SqliteStore) -> SqliteStore:
    return alone


def prepared(store: SqliteStore, *names: str) -> SqliteTransaction:
    """A turn in which everything is written but the commit: see `carried_out`."""
    assert store.begin_early()
    transaction = store.begin()
    transaction.load([A])
    assert transaction.prepare(*written(transaction, *names))
    assert transaction.is_prepared()
    return transaction


def written(transaction: SqliteTransaction, *names: str) -> tuple[list[Put], list[Event], int]:
    return [Put(A, Ref(name)) for name in names], [event(at=transaction.now)], transaction.fence + 1


class TestTurns:
    def test_a_commit_of_it_is_like_any_other(self, store: SqliteStore, path: Path, clock: FakeClock) -> None:
        commit(store, Put(A, Ref("before")))
        before = known(store), rows(path)
        transaction = prepared(store, "x", "y")
        assert seen(store, A) == {"before": Ref("before")}, "nobody can see it yet"
        assert rows(path) == before[1]
        transaction.commit(*written(transaction, "x", "y"))
        transaction.close()
        assert is_open(path)
        assert rows(path) == before[1] + 1
        assert entries(store, A) == seen(store, A) == {name: Ref(name) for name in ("before", "x", "y")}
        assert store._database.meta.fence == before[0][0] + 1  # type: ignore[operator]
        assert len(store.history(ALL)) == 1
        with closing(SqliteStore(str(path), clock=clock)) as other:
            assert known(other) == known(store)

    def test_what_is_not_committed_never_happened_and_it_is_still_our_turn(
        self, store: SqliteStore, path: Path, clock: FakeClock
    ) -> None:
        before = known(store)
        for _ in range(3):
            transaction = prepared(store, "x")
            transaction.close()
            assert not transaction.is_prepared()
            assert not is_open(path)
        commit(store, Put(A, Ref("y")))
        assert entries(store, A) == {"y": Ref("y")}
        assert known(store)[0] == before[0], "no number was used up"
        assert not store.history(ALL)
        with closing(SqliteStore(str(path), clock=clock)) as other:
            assert known(other) == known(store)

    @pytest.mark.parametrize("closes", [True, False])
    def test_who_begins_another_undoes_it(self, store: SqliteStore, path: Path, closes: bool) -> None:
        transaction = prepared(store, "x")
        another = store.begin()
        assert not transaction.is_prepared()
        if closes:
            transaction.close()
        else:
            with pytest.raises(StoreError, match="over"):
                transaction.commit(*written(transaction, "x"))
        another.commit([Put(A, Ref("y"))], [], another.fence)
        transaction.close()  # it is not its turn any more that this would end
        assert not is_open(path)
        another.close()
        assert is_open(path)
        assert entries(store, A) == {"y": Ref("y")}

    @pytest.mark.parametrize("ends", [SqliteStore.leave_early, SqliteStore.prune, SqliteStore.close])
    def test_who_ends_the_turn_undoes_it(
        self, store: SqliteStore, path: Path, clock: FakeClock, ends: Callable[[SqliteStore], object]
    ) -> None:
        transaction = prepared(store, "x")
        ends(store)
        assert is_open(path)
        assert not transaction.is_prepared()
        transaction.close()
        with closing(SqliteStore(str(path), clock=clock)) as other:
            assert entries(other, A) == {}
            assert not other.history(ALL)

    def test_it_is_for_who_began_early_and_journals(self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
        with closing(store.begin()) as transaction:
            assert not transaction.prepare(*written(transaction, "x")), "it could not be undone without ending the turn"
        assert store.begin_early()
        with closing(store.begin()) as transaction, monkeypatch.context() as full:
            full.setattr(journal, "FULL", 1)
            assert not transaction.prepare(*written(transaction, "x")), "this one folds the journal"
            transaction.commit(*written(transaction, "x"))
        assert entries(store, A) == {"x": Ref("x")}

    def test_the_journal_has_as_much_room_as_without(self, store: SqliteStore, path: Path) -> None:
        lengths = []
        for number in range(60):
            assert store.begin_early()
            with closing(store.begin()) as transaction:
                changes = [Put(A, Ref(f"x{number}"))]
                assert transaction.prepare(changes, [], transaction.fence) or rows(path) == 30
                transaction.commit(changes, [], transaction.fence)
            lengths.append(rows(path))
        assert max(lengths) == 30
        assert lengths.count(0) == 1
        assert len(entries(store, A)) == 60

    def test_a_commit_that_fails_leaves_nothing_behind(
        self, store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        transaction = prepared(store, "x")

        with monkeypatch.context() as trouble:
            fill_disk(trouble, store)
            with pytest.raises(StoreError, match="full"):
                transaction.commit(*written(transaction, "x"))
        assert is_open(path)
        assert entries(store, A) == {}
        commit(store, Put(A, Ref("y")))
        assert entries(store, A) == seen(store, A) == {"y": Ref("y")}

    def test_what_cannot_be_undone_ends_the_turn(self, store: SqliteStore, path: Path) -> None:
        transaction = prepared(store, "x")
        store._database.connection.execute("RELEASE prepared")  # as if SQLite had forgotten it
        with pytest.raises(StoreError, match="no such savepoint"):
            transaction.close()
        assert is_open(path)
        assert entries(store, A) == {}

    def test_a_process_that_is_killed_before_its_commit_has_done_nothing(self, path: Path) -> None:
        code = f"""
import os, signal
from leasehold.model import Put, Ref
from leasehold.stores.sqlite import SqliteStore, database
database.LASTING, database.ALONE, database.LONG_ALONE = 3, 0, 3
store = SqliteStore("{path}")
for number in range(4):
    transaction = store.begin()
    transaction.commit([Put("{A}", Ref("kept"))], [], transaction.fence + 1)
    transaction.close()
assert store.begin_early()
transaction = store.begin()
assert transaction.prepare([Put("{A}", Ref("never"))], [], transaction.fence + 1)
os.kill(os.getpid(), signal.SIGKILL)
"""
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
        assert is_open(path)
        with closing(SqliteStore(str(path))) as store:
            assert entries(store, A) == {"kept": Ref("kept")}
            commit(store, Put(A, Ref("next")), fences=1)
            assert entries(store, A) == {"kept": Ref("kept"), "next": Ref("next")}


def fill_disk(monkeypatch: pytest.MonkeyPatch, store: SqliteStore) -> None:
    def commit(*_: object, **__: object) -> None:
        raise apsw.FullError("the disk is full")

    monkeypatch.setattr(store._database, "commit", commit)


def deciding_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(*_: object) -> None:
        raise AssertionError("this was decided before")

    monkeypatch.setattr(batch, "step", step)


class TestRehearsing:
    @pytest.fixture
    def engine(self, store: SqliteStore) -> Engine:
        """One that has swept and said that its waiters live, and will not for a while: its clock stands still."""
        return Engine(store, clock=lambda: 1.0)

    def test_nothing_comes_of_it(self, store: SqliteStore, path: Path) -> None:
        engine = Engine(store)
        take(engine, "other")
        engine.rehearse()
        assert is_open(path), "nothing was handed on yet"
        hot = handed_on(engine)
        last = begin_waiting(engine, "hot", "last")
        before = seen(store, node("hot")), store.history(ALL), store._database.meta.fence
        for _ in range(3):
            engine.rehearse()
            assert not is_open(path)
        assert (seen(store, node("hot")), store.history(ALL), store._database.meta.fence) == before
        assert not last.is_done
        given_back = engine.submit(release(hot, "next"))
        engine.turn()
        assert isinstance(given_back.outcome, Released)
        assert given_back.outcome.released
        assert isinstance(last.outcome, Granted)
        assert last.outcome.lease.fence == before[2], "no number was used up"
        engine.rehearse()
        engine.rest()
        assert is_open(path)
        engine.close()

    def test_what_was_expected_is_only_committed(
        self, engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hot = handed_on(engine)
        last = begin_waiting(engine, "hot", "last")
        engine.rehearse()
        given_back = engine.submit(release(hot, "next"))
        with monkeypatch.context() as fixed:
            deciding_nothing(fixed)
            engine.turn()
        assert is_open(path)
        assert given_back.outcome == Released(hot.lease.id, True, "completed", ("hot",))
        assert isinstance(last.outcome, Granted)
        assert last.outcome.token == "last"
        again = engine.submit(release(hot, "next"))
        engine.submit(release(last.outcome, "last"))
        engine.turn()
        assert isinstance(again.outcome, Released)
        assert not again.outcome.released
        engine.close()

    def test_it_comes_to_the_same_as_without(self, tmp_path: Path, store: SqliteStore) -> None:
        plain = SqliteStore(str(tmp_path / "plain.db"), clock=FakeClock())
        for _ in range(3):
            commit(plain, fences=1)
        told = []
        for each, rehearses in ((plain, False), (store, True)):
            engine = Engine(each, clock=lambda: 1.0, engine_id="0" * 32)
            hot = handed_on(engine)
            for number in range(12):
                waiting = begin_waiting(engine, "hot", f"h{number}")
                if rehearses:
                    engine.rehearse()
                engine.submit(release(hot, hot.token))
                engine.turn()
                assert isinstance(waiting.outcome, Granted)
                hot = waiting.outcome
            told.append((seen(each, node("hot")), each.history(ALL), each._database.meta.fence))
            engine.close()
        assert told[0] == told[1]
        plain.close()

    def test_another_end_is_decided_when_it_is_asked_for(self, engine: Engine, store: SqliteStore) -> None:
        hot = handed_on(engine)
        last = begin_waiting(engine, "hot", "last")
        engine.rehearse()
        engine.submit(release(hot, "next")._replace(status="failed", error="no idea"))
        engine.turn()
        assert isinstance(last.outcome, Granted)
        (told,) = [each for each in store.history(ALL) if each.kind == "released" and each.lease == hot.lease.id]
        assert told.detail["status"] == "failed"
        engine.close()

    def test_another_token_is_not_taken_for_the_expected_one(self, engine: Engine) -> None:
        hot = handed_on(engine)
        last = begin_waiting(engine, "hot", "last")
        engine.rehearse()
        asked = engine.submit(release(hot, "somebody"))
        engine.turn()
        assert isinstance(asked.outcome, Refused)
        assert asked.outcome.code == "not_allowed"
        assert not last.is_done
        engine.close()

    def test_another_verb_is_not_taken_for_a_release(self, engine: Engine) -> None:
        hot = handed_on(engine)
        begin_waiting(engine, "hot", "last")
        engine.rehearse()
        expected = release(hot, "next")
        renewing = engine.submit(Renew(expected.lease, expected.proof))
        engine.turn()
        assert isinstance(renewing.outcome, Renewed)
        engine.close()

    def test_two_at_once_are_decided_together(self, engine: Engine) -> None:
        hot = handed_on(engine)
        last = begin_waiting(engine, "hot", "last")
        engine.rehearse()
        engine.submit(release(hot, "next"))
        other = engine.submit(acquire(engine, "other"))
        engine.turn()
        assert isinstance(last.outcome, Granted)
        assert isinstance(other.outcome, Granted)
        assert last.outcome.lease.fence != other.outcome.lease.fence
        engine.close()

    @pytest.mark.parametrize(("passed", "is_new"), [(RECENT - 1, False), (RECENT, True)])
    def test_what_was_prepared_too_long_ago_does_not_count(
        self, engine: Engine, store: SqliteStore, clock: FakeClock, passed: int, is_new: bool
    ) -> None:
        hot = handed_on(engine)
        last = begin_waiting(engine, "hot", "last")
        engine.rehearse()
        then = store._database.time(store._database.meta)
        clock.pass_time(passed)
        engine.submit(release(hot, "next"))
        engine.turn()
        assert isinstance(last.outcome, Granted)
        assert last.outcome.lease.acquired_at == (then + passed if is_new else then)
        engine.close()

    def test_a_lease_that_has_run_out_meanwhile_is_not_given_back_in_good_order(
        self, engine: Engine, clock: FakeClock
    ) -> None:
        hot = handed_on(engine, on_expiry="quarantine")
        last = begin_waiting(engine, "hot", "last")
        clock.pass_time(hot.lease.ttl - RECENT // 2)
        engine.rehearse()
        clock.pass_time(RECENT // 2)
        given_back = engine.submit(release(hot, "next"))
        engine.turn()
        assert isinstance(given_back.outcome, Released)
        assert not given_back.outcome.released
        assert not last.is_done, "somebody has to look first at what is left"
        engine.close()

    def test_heartbeats_and_sweeps_go_on(self, store: SqliteStore, clock: FakeClock) -> None:
        now = [1.0]
        engine = Engine(store, clock=lambda: now[0], housekeeping=True)
        hot = handed_on(engine)
        last = begin_waiting(engine, "hot", "last")
        soon = take(engine, "soon", ttl=1)
        engine.rehearse()
        alive = seen(store, engine.key)
        now[0] += 2.0
        clock.pass_time(2 * SECOND)
        engine.rehearse()
        engine.submit(release(hot, "next"))
        engine.turn()
        assert isinstance(last.outcome, Granted)
        assert seen(store, engine.key) != alive
        assert soon.lease.id in {each.lease for each in store.history(ALL) if each.kind == "expired"}
        engine.close()

    def test_a_turn_that_nobody_asked_for_changes_nothing_of_it(self, engine: Engine, path: Path) -> None:
        hot = handed_on(engine)
        last = begin_waiting(engine, "hot", "last")
        engine.rehearse()
        engine.turn()
        assert not is_open(path)
        engine.submit(release(hot, "next"))
        engine.turn()
        assert isinstance(last.outcome, Granted)
        engine.close()

    def test_whoever_would_be_served_can_find_the_words_before(self, engine: Engine) -> None:
        class Eloquent(Pending):
            foreseen: Granted | None = None

            def foresee(self, outcome: Granted) -> None:
                self.foreseen = self._complete(outcome)

        hot = handed_on(engine)
        waiting = Eloquent(acquire(engine, "hot", "last", wait=3600), "last")
        engine.enter(waiting)
        engine.turn()
        engine.rehearse()
        assert waiting.foreseen is not None
        assert not waiting.is_done
        engine.submit(release(hot, "next"))
        engine.turn()
        assert waiting.outcome == waiting.foreseen
        engine.close()

    def test_what_is_gone_can_be_rehearsed_too(self, store: SqliteStore) -> None:
        engine = Engine(store)
        engine.submit(release(handed_on(engine), "next"))
        engine.turn()
        told = store.history(ALL)
        engine.rehearse()
        assert store.history(ALL) == told
        engine.close()

    def test_a_store_in_trouble_is_told_of_by_the_next_call(
        self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = Engine(store)
        hot = handed_on(engine)

        def fail() -> None:
            raise apsw.IOError("the disk is gone")

        with monkeypatch.context() as trouble:
            trouble.setattr(store._database, "begin", fail)
            engine.rehearse()
            asked = engine.submit(release(hot, "next"))
            engine.turn()
            assert isinstance(asked.error, StoreError)
        again = engine.submit(release(hot, "next"))
        engine.turn()
        assert isinstance(again.outcome, Released)
        assert again.outcome.released
        engine.close()

    def test_a_commit_that_fails_is_told_to_who_asked_for_it(
        self, engine: Engine, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hot = handed_on(engine)
        last = begin_waiting(engine, "hot", "last")
        engine.rehearse()

        asked = engine.submit(release(hot, "next"))
        with monkeypatch.context() as trouble:
            fill_disk(trouble, store)
            engine.turn()
        assert isinstance(asked.error, StoreError)
        assert not last.is_done
        engine.submit(release(hot, "next"))
        engine.turn()
        assert isinstance(last.outcome, Granted)
        engine.close()

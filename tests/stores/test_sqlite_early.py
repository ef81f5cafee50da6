"""A turn that begins before there is anything to do in it: others come in, and nothing is lost or made up."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from leasehold.engine import Engine
from leasehold.errors import StoreError
from leasehold.model import Put, Ref
from leasehold.stores.sqlite import SqliteStore, database
from leasehold.stores.sqlite.gate import Gate
from tests.engine.rig import release
from tests.stores.early import handed_on, is_open
from tests.stores.journals import ALL, STAYS
from tests.stores.samples import FakeClock, commit, entries, event, node

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(alone: SqliteStore) -> SqliteStore:
    return alone


def test_the_gate_has_the_name_that_these_tests_look_for(store: SqliteStore, path: Path) -> None:
    with closing(Gate(f"{path}.gate")) as gate:
        assert gate.mark() == store.begin().fence


class TestTurns:
    def test_others_are_kept_out_until_it_is_given_up(self, store: SqliteStore, path: Path) -> None:
        assert is_open(path)
        assert store.begin_early()
        assert not is_open(path)
        assert store.begin_early(), "it is our turn already"
        store.leave_early()
        assert is_open(path)
        store.leave_early()  # there is nothing to give up

    def test_what_commits_nothing_does_not_end_it(self, store: SqliteStore, path: Path) -> None:
        assert store.begin_early()
        for _ in range(3):
            transaction = store.begin()
            assert transaction.load([node("a")])
            transaction.close()
            assert not is_open(path)
        transaction = store.begin()
        transaction.commit([], [], transaction.fence)
        transaction.close()
        assert not is_open(path)

    def test_a_commit_ends_it_like_any_other(self, store: SqliteStore, path: Path) -> None:
        assert store.begin_early()
        commit(store, Put(node("a"), Ref("x")), events=(event(),))
        assert is_open(path)
        assert entries(store, node("a")) == {"x": Ref("x")}
        with closing(SqliteStore(str(path), clock=FakeClock())) as other:
            assert entries(other, node("a")) == {"x": Ref("x")}

    def test_a_commit_that_fails_ends_it_and_leaves_nothing_behind(self, store: SqliteStore, path: Path) -> None:
        assert store.begin_early()
        transaction = store.begin()
        with pytest.raises(UnicodeEncodeError):
            transaction.commit([Put(node("a"), Ref("half a character: \ud800"))], [], transaction.fence)
        assert is_open(path)
        assert entries(store, node("a")) == {}
        commit(store, Put(node("a"), Ref("x")))
        assert entries(store, node("a")) == {"x": Ref("x")}

    def test_forgetting_history_takes_a_turn_of_its_own(self, store: SqliteStore, path: Path) -> None:
        commit(store, Put(node("a"), Ref("x")), events=(event(),))
        assert store.begin_early()
        assert store.prune() == 1, "that event is as old as can be"
        assert is_open(path)
        assert not store.history(ALL)

    def test_who_closes_gives_it_up(self, store: SqliteStore, path: Path) -> None:
        commit(store, Put(node("a"), Ref("x")))
        assert store.begin_early()
        store.close()
        assert is_open(path)
        with closing(SqliteStore(str(path), clock=FakeClock())) as other:
            assert entries(other, node("a")) == {"x": Ref("x")}

    def test_it_is_of_one_thread(self, store: SqliteStore) -> None:
        assert store.begin_early()
        there: list[object] = []

        def elsewhere() -> None:
            there.append(store.begin_early())
            store.leave_early()  # it is not that thread's to give up
            commit(store, Put(node("a"), Ref("there")))
            there.append("committed")

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join(0.05)
        assert there == [False], "a transaction in another thread waits until we are done"
        commit(store, Put(node("a"), Ref("here")))
        thread.join(30)
        assert there == [False, "committed"]
        assert entries(store, node("a")) == {"here": Ref("here"), "there": Ref("there")}

    def test_what_others_did_can_be_told_meanwhile(self, store: SqliteStore) -> None:
        store.hint()
        before = store.others()
        assert before is not None
        assert store.begin_early()
        assert not store.hint(), "nobody else can have written"
        assert store.others() == before
        store.leave_early()
        assert store.others() == before


class TestOthers:
    def test_who_has_just_been_here_is_not_kept_out(
        self, store: SqliteStore, path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert store.begin_early()
        store.leave_early()
        with closing(SqliteStore(str(path), clock=clock)) as other:
            commit(other, Put(node("a"), Ref("x")))
        for _ in range(STAYS):
            commit(store, fences=1)
            assert store._database._alone <= STAYS
        monkeypatch.setattr(database, "LONG_ALONE", STAYS + 2)
        assert not store.begin_early(), "somebody else has written lately"
        commit(store, fences=1)
        commit(store, fences=1)
        assert store.begin_early()

    def test_who_has_the_gate_is_not_waited_for(self, store: SqliteStore, path: Path) -> None:
        with closing(Gate(f"{path}.gate")) as gate:
            gate.take()
            assert not store.begin_early()
        assert store.begin_early(), "and nothing is left of the try"

    def test_one_in_so_many_leaves_the_gate_open(self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(database, "OPEN_EVERY", 3)
        begun: list[bool] = []
        for _ in range(9):
            commit(store, fences=1)
            begun.append(store.begin_early())
        assert begun.count(False) == 3
        assert [True, True, True] not in [begun[place : place + 3] for place in range(7)]

    def test_who_comes_by_while_leases_are_handed_on_gets_in(
        self, store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(database, "OPEN_EVERY", 31)
        code = f"""
import leasehold
with leasehold.connect("sqlite:///{path}") as locks:
    for number in range(20):
        granted = locks.acquire(f"other-{{number}}", ttl=60)
        assert locks.release(granted.lease.id, granted.token).released
"""
        store.close()  # and opened again by the clock that the other process goes by
        engine = Engine(mine := SqliteStore(str(path)))
        visitor = subprocess.Popen([sys.executable, "-c", code])
        try:
            early = 0
            while visitor.poll() is None:
                lease = handed_on(engine)
                for _ in range(20):
                    engine.rehearse()
                    early += mine._database.is_early()
                engine.submit(release(lease, "next"))
                engine.turn()
            assert visitor.returncode == 0
            assert early, "nobody was kept out, so nothing was tried"
        finally:
            visitor.kill()
            visitor.wait()
        engine.rest()
        engine.close()
        mine.close()

    def test_a_file_that_was_replaced_is_noticed(self, store: SqliteStore, path: Path) -> None:
        path.rename(path.with_suffix(".gone"))
        with pytest.raises(StoreError, match="removed or replaced"):
            store.begin_early()
        path.with_suffix(".gone").rename(path)
        assert store.begin_early(), "and nothing is left of the try"

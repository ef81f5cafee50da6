"""Several processes on one database: turns, hints, kills and forks."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from leasehold.domain.entries import Put, Ref
from leasehold.errors import StoreError
from leasehold.stores.sqlite import SqliteStore
from tests.kit.samples import commit, entries, seen
from tests.stores.sqlite.child import COUNTER, Child

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KILLS = 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "locks.db"


@pytest.fixture
def spawn(path: Path) -> Iterator[Callable[[], Child]]:
    children: list[Child] = []

    def new() -> Child:
        children.append(Child(path))
        return children[-1]

    yield new
    for child in children:
        child.close()


def test_another_process_sees_what_was_committed(store: SqliteStore, spawn: Callable[[], Child]) -> None:
    child = spawn()
    assert child.ask("has na x") == "no"
    commit(store, Put("na", Ref("x")))
    assert child.ask("has na x") == "yes"


def test_what_another_process_writes_is_hinted_once_and_seen(store: SqliteStore, spawn: Callable[[], Child]) -> None:
    child = spawn()
    child.ask("open")
    store.hint()
    assert entries(store, "na") == {}
    assert not store.hint()
    assert child.ask("put na x") == "put 1"
    assert store.hint()
    assert not store.hint()
    assert entries(store, "na") == {"x": Ref("x")}
    assert seen(store, "na") == {"x": Ref("x")}


def test_a_transaction_in_between_does_not_swallow_the_hint(store: SqliteStore, spawn: Callable[[], Child]) -> None:
    child = spawn()
    child.ask("open")
    store.hint()
    child.ask("put na x")
    commit(store, Put("nb", Ref("y")))
    assert store.hint()
    assert not store.hint()


def test_own_commits_give_no_hint(store: SqliteStore) -> None:
    store.hint()
    commit(store, Put("na", Ref("x")), fences=1)
    assert not store.hint()


def test_a_turn_is_waited_for(store: SqliteStore, spawn: Callable[[], Child]) -> None:
    child = spawn()
    assert child.ask("begin") == "begun"
    done = threading.Event()

    def wait_for_turn() -> None:
        commit(store, Put("na", Ref("x")))
        done.set()

    thread = threading.Thread(target=wait_for_turn)
    thread.start()
    assert child.ask("has na x") == "no"  # it cannot get in, and readers are not kept out
    assert not done.is_set()
    assert child.ask("leave") == "left"
    thread.join(30)
    assert done.is_set()


def test_a_process_killed_during_its_turn_blocks_no_other(store: SqliteStore, spawn: Callable[[], Child]) -> None:
    child = spawn()
    assert child.ask("begin") == "begun"
    child.kill()
    commit(store, Put("na", Ref("x")))


def test_many_processes_lose_no_update(path: Path, spawn: Callable[[], Child]) -> None:
    children = [spawn() for _ in range(4)]  # they also race to create the database
    for child in children:
        child.tell("count 50")
    assert [child.answer() for child in children] == ["counted"] * 4
    store = SqliteStore(str(path))
    assert len(entries(store, COUNTER)) == 200
    transaction = store.begin()
    assert transaction.fence == 201
    transaction.close()
    store.close()


def test_sigkill_loses_nothing_that_was_acknowledged(path: Path, spawn: Callable[[], Child]) -> None:
    acknowledged: set[str] = set()
    for number in range(KILLS):
        children = [spawn(), spawn()]
        for child in children:
            child.tell("forever na")
        for child in children:
            acknowledged.update(child.answer() for _ in range(10 + 7 * number))
        for child in children:
            acknowledged.update(child.kill())
        store = SqliteStore(str(path))
        assert acknowledged <= set(entries(store, "na"))
        transaction = store.begin()
        assert transaction.fence > len(acknowledged)
        transaction.close()
        store.close()


def in_fork(work: Callable[[], str]) -> str:
    """What the work says in a forked child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = work()
        except BaseException as error:  # noqa: BLE001 (the parent is told)
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.parametrize("use", ["begin", "hint", "read", "scan"])
def test_a_forked_child_is_told_to_connect_again(store: SqliteStore, use: str) -> None:
    def work() -> str:
        getattr(store, use)(*{"read": (["na"],), "scan": ("n",)}.get(use, ()))
        return "it worked"

    seen(store, "na")
    said = in_fork(work)
    assert said.startswith(StoreError.__name__)
    assert "opened before a fork: connect again in the child" in said


def test_a_forked_child_can_connect_again_and_leaves_its_parent_alone(store: SqliteStore, path: Path) -> None:
    transaction = store.begin()

    def work() -> str:
        transaction.close()  # not its own: the parent keeps its turn
        store.close()
        fresh = SqliteStore(str(path))
        _, records = fresh.read(["na"])
        return str(len(records["na"].notes))

    assert in_fork(work) == "0"
    transaction.commit([Put("na", Ref("x"))], [], transaction.fence)
    transaction.close()
    assert entries(store, "na") == {"x": Ref("x")}

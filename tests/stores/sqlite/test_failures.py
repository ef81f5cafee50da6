"""When the disk or the system says no: a clear error, nothing changed, and life goes on afterwards."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import apsw
import pytest

from leasehold.domain.entries import Put, Ref
from leasehold.errors import StoreError
from leasehold.stores.sqlite import SqliteStore
from leasehold.stores.sqlite.gate import Gate
from leasehold.stores.sqlite.wal import Mark
from tests.kit.samples import commit, entries, seen
from tests.stores.sqlite.child import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def connections() -> Iterator[list[apsw.Connection]]:
    opened: list[apsw.Connection] = []
    apsw.connection_hooks.append(opened.append)
    yield opened
    apsw.connection_hooks.remove(opened.append)


def large(store: SqliteStore) -> None:
    commit(store, *(Put("na", Ref(f"{number}-{'x' * 1_000}")) for number in range(200)), fences=1)


def test_a_full_disk(path: Path, connections: list[apsw.Connection]) -> None:
    store = SqliteStore(str(path))
    commit(store, Put("na", Ref("before")))
    pages = connections[0].execute("PRAGMA page_count").get
    connections[0].execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match=r"disk is full.*nothing was changed.*FullError"):
        large(store)
    assert entries(store, "na") == {"before": Ref("before")}
    connections[0].execute("PRAGMA max_page_count = 1000000")
    large(store)
    assert len(entries(store, "na")) == 201
    store.close()


def test_a_read_only_database(path: Path, connections: list[apsw.Connection]) -> None:
    store = SqliteStore(str(path))
    connections[0].execute("PRAGMA query_only = 1")
    with pytest.raises(StoreError, match="read-only"):
        commit(store, Put("na", Ref("x")))
    connections[0].execute("PRAGMA query_only = 0")
    assert entries(store, "na") == {}
    commit(store, Put("na", Ref("x")))
    store.close()


def test_another_program_that_locks_the_database(path: Path) -> None:
    store = SqliteStore(str(path), busy_ms=1)
    rude = apsw.Connection(str(path))
    rude.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked by another program"):
        store.begin()
    assert seen(store, "na") == {}  # looking is still possible
    rude.execute("ROLLBACK")
    commit(store, Put("na", Ref("x")))
    rude.close()
    store.close()


def test_a_turn_that_failed_is_handed_on(path: Path) -> None:
    store, other = SqliteStore(str(path), busy_ms=1), SqliteStore(str(path))
    rude = apsw.Connection(str(path))
    rude.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError):
        store.begin()
    rude.close()
    commit(other, Put("na", Ref("x")))
    assert entries(store, "na") == {"x": Ref("x")}
    store.close()
    other.close()


FILE_TOO_LARGE = """
import resource, sys
from leasehold.errors import StoreError
from leasehold.domain.entries import Put, Ref
from leasehold.stores.sqlite import SqliteStore
from tests.kit.samples import commit, entries
store = SqliteStore(sys.argv[1])
commit(store, Put("na", Ref("before")))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
try:
    commit(store, *(Put("na", Ref(f"{n}-{'x' * 1000}")) for n in range(400)))
except StoreError as error:
    print(error)
print(sorted(entries(store, "na")))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
commit(store, Put("na", Ref("later")))
print(sorted(entries(store, "na")))
store.close()
"""


def test_a_write_that_the_system_refuses(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILE_TOO_LARGE, str(path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said, after, later = done.stdout.splitlines()
    assert "the disk failed; nothing was changed" in said
    assert after == "['before']"
    assert later == "['before', 'later']"
    store = SqliteStore(str(path))
    assert set(entries(store, "na")) == {"before", "later"}
    store.close()


def test_the_next_turn_reports_a_mark_that_cannot_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_gate: Gate, _mark: Mark) -> None:
        raise OSError(28, "No space left on device")

    store = SqliteStore(str(path))
    with monkeypatch.context() as patched:
        patched.setattr(Gate, "set_mark", refuse)
        commit(store, Put("na", Ref("x")), fences=3)  # durable all the same, so it is not reported as failed
        with pytest.raises(StoreError, match="No space left"):
            store.begin()
    other = SqliteStore(str(path))
    commit(other, fences=5)
    assert entries(store, "na") == {"x": Ref("x")}  # and what is made up for does not undo what others have marked
    assert path.with_name("locks.db.gate").read_bytes().startswith(b"00000000000000000009 ")
    store.close()
    other.close()


def test_an_interruption_right_after_the_commit_is_not_forgotten(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_gate: Gate, _mark: Mark) -> None:
        raise KeyboardInterrupt

    store = SqliteStore(str(path))
    assert entries(store, "na") == {}
    with monkeypatch.context() as patched:
        patched.setattr(Gate, "set_mark", interrupted)
        with pytest.raises(KeyboardInterrupt):
            commit(store, Put("na", Ref("x")), fences=3)
    transaction = store.begin()
    assert transaction.fence == 4
    assert set(transaction.load(["na"])["na"].notes) == {"x"}
    assert (store._database.gate.mark() or Mark(0)).fence == 4, "and our next turn makes up for it"
    transaction.close()
    store.close()


def test_a_directory_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("leasehold.stores.sqlite.gate.os.open", refuse)
    with pytest.raises(StoreError, match=r"may not open or create it: .* \(Permission denied\)"):
        SqliteStore(str(tmp_path / "locks.db"))

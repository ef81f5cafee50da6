"""What is created, and what is refused."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import pytest

from leasehold.domain.entries import Put, Ref
from leasehold.errors import StoreError, StoreUnsuitable
from leasehold.stores.sqlite import SqliteStore
from leasehold.stores.sqlite.meta import SCHEMA_VERSION
from tests.kit.samples import FakeClock, commit, entries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "locks.db"


@pytest.fixture
def connections() -> Iterator[list[apsw.Connection]]:
    """Every connection that is opened during the test."""
    opened: list[apsw.Connection] = []
    apsw.connection_hooks.append(opened.append)
    yield opened
    apsw.connection_hooks.remove(opened.append)


def schema(connection: apsw.Connection) -> list[tuple[str, str, str]]:
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name")
    return [(str(kind), str(name), str(sql)) for kind, name, sql in rows]


def test_directory_and_files_are_for_their_owner_only(path: Path) -> None:
    store = SqliteStore(str(path))
    commit(store, Put("na", Ref("x")))
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert {file.name for file in path.parent.iterdir()} == {
        "locks.db",
        "locks.db-shm",
        "locks.db-wal",
        "locks.db.gate",
    }
    for file in path.parent.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600, file
    store.close()


def test_what_durability_needs_is_in_force(path: Path, connections: list[apsw.Connection]) -> None:
    first = SqliteStore(str(path))
    again = SqliteStore(str(path))
    again.read(["na"])
    assert len(connections) == 3
    for connection in connections:
        assert connection.execute("PRAGMA journal_mode").get == "wal"
        assert connection.execute("PRAGMA synchronous").get == 2
    first.close()
    again.close()


def test_a_current_database_is_opened_without_its_sql(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SqliteStore(str(path)).close()

    def never(*_: object, **__: object) -> None:
        raise AssertionError("this database needs no preparation")

    monkeypatch.setattr("leasehold.stores.sqlite.opening.prepare", never)
    SqliteStore(str(path)).close()


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        (SCHEMA_VERSION + 1, "update Leasehold"),
        (
            SCHEMA_VERSION - 1,
            "Nothing was changed. To start anew, .* remove it together with its -wal",
        ),
    ],
)
def test_another_schema_is_refused_and_left_alone(path: Path, version: int, advice: str) -> None:
    store = SqliteStore(str(path))
    commit(store, Put("na", Ref("x")))
    store.close()
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA journal_mode = DELETE; DROP TABLE journal")
        connection.execute(f"PRAGMA user_version = {version}")
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    for _ in range(2):
        with pytest.raises(StoreUnsuitable, match=f"schema {version}.*schema {SCHEMA_VERSION} only: .*{advice}"):
            SqliteStore(str(path))
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


def test_the_advice_for_an_older_schema_leads_to_a_new_database(path: Path) -> None:
    SqliteStore(str(path)).close()
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
    for more in ("", "-wal", "-shm", ".gate"):
        path.with_name(path.name + more).unlink(missing_ok=True)
    store = SqliteStore(str(path))
    commit(store, Put("na", Ref("x")))
    assert entries(store, "na") == {"x": Ref("x")}
    store.close()


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, SCHEMA_VERSION - 1])
def test_a_schema_that_changes_while_open_is_refused(path: Path, version: int) -> None:
    store = SqliteStore(str(path))
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA user_version = {version}")
    for _ in range(2):
        with pytest.raises(StoreUnsuitable, match=f"has schema {version}"):
            store.begin()
    connection.close()
    store.close()


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(StoreUnsuitable, match="another program"):
        SqliteStore(str(path))
    assert [name for _, name, _ in schema(connection)] == ["theirs"]
    assert connection.execute("PRAGMA journal_mode").get == "delete"
    connection.close()


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("This is a diary, not a database. " * 100)
    before = path.read_bytes()
    with pytest.raises(StoreUnsuitable, match="not a database"):
        SqliteStore(str(path))
    assert path.read_bytes() == before


def test_a_directory_in_its_place_is_refused(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(StoreError, match=str(path)):
        SqliteStore(str(path))


def test_a_file_in_place_of_the_directory_is_refused(path: Path) -> None:
    path.parent.write_text("in the way")
    with pytest.raises(StoreError, match=str(path)):
        SqliteStore(str(path))


def test_a_database_that_lost_its_row_is_refused(path: Path) -> None:
    SqliteStore(str(path)).close()
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM meta")
    connection.close()
    with pytest.raises(StoreError, match="damaged"):
        SqliteStore(str(path))


@pytest.mark.parametrize("again", [True, False])
def test_a_database_that_vanished_while_open_is_reported(path: Path, again: bool) -> None:
    store = SqliteStore(str(path))
    commit(store, Put("na", Ref("x")))
    for file in path.parent.iterdir():
        file.unlink()
    successor = SqliteStore(str(path)) if again else None
    with pytest.raises(StoreError, match=r"removed or replaced.*connect again"):
        store.begin()
    store.close()
    if successor is not None:
        assert entries(successor, "na") == {}
        successor.close()


def test_a_second_machine_on_the_same_file_is_refused(path: Path) -> None:
    # Where the network was not recognised as one: the boot id gives it away.
    here, there = FakeClock(), FakeClock()
    there.reboot(after=0, boot="another machine")
    ours = SqliteStore(str(path), clock=here)
    theirs = SqliteStore(str(path), clock=there)
    commit(theirs, Put("na", Ref("x")))
    with pytest.raises(StoreUnsuitable, match="one machine"):
        ours.begin()
    ours.close()
    theirs.close()


def test_a_long_user_leaves_no_log_behind_and_a_short_one_does_not_stop_for_it(path: Path) -> None:
    short = SqliteStore(str(path), is_one_shot=True)
    commit(short, Put("na", Ref("x")))
    short.close()
    assert path.with_name("locks.db-wal").exists()
    long = SqliteStore(str(path))
    for number in range(100):
        commit(long, Put("na", Ref(f"x{number}")))
    long.close()
    assert not path.with_name("locks.db-wal").exists()
    assert path.with_name("locks.db.gate").exists()
    again = SqliteStore(str(path))
    assert len(entries(again, "na")) == 101
    again.close()

"""The statements for PostgreSQL, on a real one: what comes with an older fence changes nothing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from leasehold import fencing
from tests.kit.postgres import server
from tests.kit.shell import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    Connection = psycopg.Connection[tuple[object, ...]]

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = "fencing"
BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = %s"


def connect() -> Connection:
    return psycopg.connect(server().url, options=f"-c search_path={SCHEMA}")


@pytest.fixture
def table() -> Iterator[Connection]:
    with connect() as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
        connection.execute("CREATE TABLE deployment (id integer PRIMARY KEY, version text)")
        connection.execute("INSERT INTO deployment VALUES (1, 'v0')")
        connection.execute(fencing.POSTGRESQL_COLUMN)
        connection.commit()
        yield connection
        connection.rollback()
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
        connection.commit()


@pytest.fixture
def guarded(table: Connection) -> Connection:
    table.execute(fencing.POSTGRESQL_TRIGGER)
    table.commit()
    return table


def rows(connection: Connection) -> list[tuple[object, ...]]:
    return connection.execute("SELECT id, version, fence FROM deployment ORDER BY id").fetchall()


def with_fence(connection: Connection, fence: int | str, statement: str) -> None:
    """One transaction that says its fence first."""
    with connection.transaction():
        connection.execute(fencing.POSTGRESQL_FENCE.replace(":fence", "%s"), (fence,))
        connection.execute(statement)


def written(connection: Connection, version: str, fence: int) -> int:
    statement = fencing.POSTGRESQL_UPDATE
    for name in ("version", "fence", "id"):
        statement = statement.replace(f":{name}", f"%({name})s")
    return connection.execute(statement, {"id": 1, "version": version, "fence": fence}).rowcount


def test_the_update_compares(table: Connection) -> None:
    assert [written(table, "v1", 7), written(table, "v2", 9), written(table, "old", 8), written(table, "v3", 9)] == [
        *(1, 1, 0, 1)
    ]
    assert rows(table) == [(1, "v3", 9)]


def test_the_trigger_accepts_the_same_fence_and_larger_ones(guarded: Connection) -> None:
    with_fence(guarded, 7, "UPDATE deployment SET version = 'v1'")
    with_fence(guarded, 7, "UPDATE deployment SET version = 'v2'")
    with_fence(guarded, 9, "INSERT INTO deployment (id, version) VALUES (2, 'new')")
    assert rows(guarded) == [(1, "v2", 7), (2, "new", 9)]
    with_fence(guarded, 10, "DELETE FROM deployment WHERE id = 2")
    assert rows(guarded) == [(1, "v2", 7)]


def test_the_documented_statements_are_those_that_are_tested() -> None:
    told = (ROOT / "docs" / "how-to" / "fencing.md").read_text()
    assert f"```sql\n{fencing.POSTGRESQL_FENCE}```" in told
    assert fencing.POSTGRESQL_FENCE in fencing.POSTGRESQL
    assert fencing.POSTGRESQL_UPDATE in told
    assert fencing.POSTGRESQL_COLUMN in told


def test_a_second_table_is_guarded_like_the_first(guarded: Connection) -> None:
    guarded.execute("CREATE TABLE site (id integer PRIMARY KEY)")
    guarded.execute(fencing.POSTGRESQL.replace("deployment", "site"))
    with_fence(guarded, 7, "INSERT INTO site VALUES (1)")
    with_fence(guarded, 7, "UPDATE deployment SET version = 'v1'")
    for table in ("site", "deployment"):
        with pytest.raises(psycopg.errors.CheckViolation, match="stale fence 6"):
            with_fence(guarded, 6, f"DELETE FROM {table}")


@pytest.mark.parametrize("fence", [9, 8, ""])
def test_nothing_is_truncated(guarded: Connection, fence: int | str) -> None:
    with_fence(guarded, 9, "UPDATE deployment SET version = 'v1'")
    with pytest.raises(psycopg.errors.CheckViolation, match="DELETE"):
        with_fence(guarded, fence, "TRUNCATE deployment")
    assert rows(guarded) == [(1, "v1", 9)]


@pytest.mark.parametrize("fence", [0, -1])
def test_the_trigger_refuses_a_number_that_is_no_fence(guarded: Connection, fence: int) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="no fence"):
        with_fence(guarded, fence, "INSERT INTO deployment (id, version) VALUES (2, 'new')")


@pytest.mark.parametrize("statement", ["UPDATE deployment SET version = 'old'", "DELETE FROM deployment"])
def test_the_trigger_refuses_a_stale_fence_and_a_missing_one(guarded: Connection, statement: str) -> None:
    with_fence(guarded, 9, "UPDATE deployment SET version = 'v1'")
    with pytest.raises(psycopg.errors.CheckViolation, match="stale fence 8: 9 was seen"):
        with_fence(guarded, 8, statement)
    with pytest.raises(psycopg.errors.CheckViolation, match="no fence"):
        with_fence(guarded, "", statement)
    with connect() as newcomer, pytest.raises(psycopg.errors.CheckViolation, match="no fence"):
        newcomer.execute(statement)
    assert rows(guarded) == [(1, "v1", 9)]


@pytest.mark.parametrize("way", ["update", "trigger"])
def test_a_stale_writer_that_waited_for_the_row_is_refused_too(guarded: Connection, way: str) -> None:
    if way == "update":
        guarded.execute("DROP TRIGGER leasehold_fence ON deployment")
        guarded.commit()
    told: list[object] = []

    def late(connection: Connection) -> None:
        try:
            if way == "update":
                told.append(written(connection, "old", 8))
            else:
                with_fence(connection, 8, "UPDATE deployment SET version = 'old'")
        except psycopg.errors.CheckViolation:
            told.append(0)

    with connect() as other:
        with guarded.transaction():
            guarded.execute("SELECT set_config('leasehold.fence', '9', true)")
            guarded.execute("UPDATE deployment SET version = 'v2', fence = 9")
            thread = threading.Thread(target=late, args=(other,))
            thread.start()
            until(lambda: guarded.execute(BLOCKED, (other.info.backend_pid,)).fetchone() == (1,))
        thread.join(60)
    assert told == [0]
    assert rows(guarded) == [(1, "v2", 9)]

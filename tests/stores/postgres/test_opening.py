"""Opening a PostgreSQL store: its tables, its role, its URL, and what is said when something is wrong."""

from __future__ import annotations

import threading
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

import leasehold
from leasehold.cli import main
from leasehold.errors import InvalidInput, LeaseholdError, StoreError, StoreUnsuitable, Unreachable
from leasehold.stores import postgres
from leasehold.stores.postgres import PostgresStore, journal
from leasehold.stores.postgres.address import parse
from leasehold.stores.postgres.queries import SCHEMA_VERSION, SQL, Queries
from leasehold.testing.conformance.asking import expect, leases_of, release, take, wait_for
from leasehold.testing.lending import free_port
from leasehold.testing.postgres import QUICK, Postgres
from tests.kit.postgres import server

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def _admin() -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(server().url, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("name", ["user", "order", "left", "analyze", "current_user"])
def test_a_schema_may_have_a_name_that_means_something_to_postgresql(name: str) -> None:
    url = f"{server().url}?schema={name}"
    try:
        with leasehold.connect(url, holder="ada") as one, leasehold.connect(url, holder="bob") as two:
            held = take(one, "r")
            waiting = wait_for(two, "r")
            release(one, held)
            assert isinstance(waiting.answer(), leasehold.Granted)
            assert len(expect(tuple, two.history())) >= 3
            two.gc()
    finally:
        with _admin() as connection:
            connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


def test_ten_servers_may_start_at_once(url: str) -> None:
    together, broken = threading.Barrier(10), list[Exception]()

    def open_one() -> None:
        together.wait()
        try:
            PostgresStore(url).close()
        except Exception as error:  # noqa: BLE001
            broken.append(error)

    threads = [threading.Thread(target=open_one) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert broken == []


def _contents(name: str) -> dict[str, str]:
    """Every table and sequence of a schema with its rows, and every function with its text."""
    with _admin() as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'S')", [name]
        ).fetchall()
        rows = {str(table): str(connection.execute(f"SELECT * FROM {name}.{table}").fetchall()) for (table,) in tables}
        functions = "SELECT string_agg(prosrc, '' ORDER BY proname) FROM pg_proc WHERE pronamespace = %s::regnamespace"
        return {**rows, "functions": str(connection.execute(functions, [name]).fetchall())}


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        (SCHEMA_VERSION + 1, "update Leasehold"),
        (SCHEMA_VERSION - 1, 'Nothing was changed.*\nDROP SCHEMA "{}" CASCADE'),
    ],
)
def test_tables_of_another_version_are_refused_and_left_alone(url: str, version: int, advice: str) -> None:
    name = parse(url).schema
    with leasehold.connect(url, holder="ada") as locks:
        take(locks, "r")
    with _admin() as connection:
        connection.execute(f"UPDATE {name}.meta SET version = {version}; DROP FUNCTION {name}.fold")
    before = _contents(name)
    told = f"(?s)schema {version}.*schema {SCHEMA_VERSION} only.*{advice.format(name)}"
    with pytest.raises(StoreUnsuitable, match=told):
        PostgresStore(url)
    assert _contents(name) == before


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, SCHEMA_VERSION - 1])
def test_a_server_notices_that_the_schema_was_changed_under_it(url: str, version: int) -> None:
    with leasehold.connect(url, holder="ada") as locks:
        take(locks, "r")
        with _admin() as connection:
            connection.execute(f"UPDATE {parse(url).schema}.meta SET version = {version}")
        with pytest.raises(StoreUnsuitable, match=f"has tables of schema {version}"):
            locks.acquire("s", ttl=60)


@pytest.mark.parametrize("what", ["SCHEMA {schema}", "TABLE {schema}.folded", "FUNCTION {schema}.begin_turn"])
def test_tables_that_were_dropped_are_reported(url: str, what: str) -> None:
    with leasehold.connect(url, holder="ada") as locks:
        take(locks, "before")
        with _admin() as connection:
            connection.execute(f"DROP {what} CASCADE".replace("{schema}", parse(url).schema))
        with pytest.raises(StoreUnsuitable, match="gone"):
            locks.acquire("r", ttl=60)


# ------------------------------------------------------------------------------------------- the role


@pytest.fixture
def role(url: str) -> Iterator[str]:
    """The name of a role that may do what the documentation says, and no more."""
    PostgresStore(url).close()
    name, queries = f"role_{parse(url).schema}", Queries(parse(url).schema)
    with _admin() as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN")
        connection.execute(queries.in_schema((SQL / "role.sql").read_text()).replace("{role}", name))
        yield name
        connection.execute(f"DROP OWNED BY {name}")
        connection.execute(f"DROP ROLE {name}")


def test_the_documented_rights_are_those_that_are_tested() -> None:
    told = (ROOT / "docs" / "how-to" / "postgresql.md").read_text()
    ours = (SQL / "role.sql").read_text().replace("{schema}", "leasehold").replace("{role}", "leasehold")
    grants = [line for line in ours.splitlines() if line.startswith("GRANT")]
    assert grants
    assert "\n".join(grants) in told


def test_a_role_with_few_rights_is_enough(url: str, role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for patience in ("PRACTICE", "ALONE"):  # so that it writes a journal, too
        monkeypatch.setattr(postgres, patience, 1)
    monkeypatch.setattr(journal, "FULL", 12)
    theirs = url.replace("postgres@", f"{role}@")
    with leasehold.connect(f"{theirs}&retention_rows=1", holder="ada") as locks:
        for _ in range(9):
            held = take(locks, "r", name="deploy")
            assert [lease.id for lease in leases_of(locks)] == [held.lease.id]
            locks.release(held.lease.id, held.token)
        locks.gc()
        assert len(expect(tuple, locks.history())) == 1
    with _admin() as connection:
        row = connection.execute(f"SELECT count(*) > 0 FROM {parse(url).schema}.page").fetchone()
        assert row == (True,)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE {schema}.folded",
        "ALTER TABLE {schema}.meta ADD COLUMN x int",
        "TRUNCATE {schema}.history",
        "UPDATE {schema}.history SET events = '[]'",
        "INSERT INTO {schema}.meta SELECT * FROM {schema}.meta",
        "CREATE TABLE {schema}.other (x int)",
    ],
)
def test_that_role_may_do_nothing_else(url: str, role: str, statement: str) -> None:
    theirs = server().url.replace("postgres@", f"{role}@")
    with psycopg.connect(theirs) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement.replace("{schema}", parse(url).schema))


def test_a_role_without_rights_gets_a_list_of_what_it_needs(url: str, role: str) -> None:
    with _admin() as connection:
        connection.execute(f"REVOKE UPDATE ON {parse(url).schema}.folded FROM {role}")
    with (
        leasehold.connect(url.replace("postgres@", f"{role}@"), holder="ada") as locks,
        pytest.raises(StoreUnsuitable, match=r"docs/how-to/postgresql\.md"),
    ):
        locks.acquire("r", ttl=60)


# ------------------------------------------------------------------------------------------ for people


def test_people_can_query_what_is_held(url: str) -> None:
    with leasehold.connect(url, holder="ada") as locks:
        held = take(locks, ["deploy://api", "deploy://web"], name="release 7", reason="friday")
        gone = take(locks, "gone")
        locks.release(gone.lease.id, gone.token)
        with _admin() as connection:
            columns = "id, space, resources::text, holder, mode, fence, name, reason, expires_at > now()"
            rows = connection.execute(f"SELECT {columns} FROM {parse(url).schema}.leases").fetchall()
    resources = '["deploy://api", "deploy://web"]'
    told = [tuple(str(each).replace('","', '", "') for each in row) for row in rows]
    lease = held.lease
    wanted = (lease.id, "default", resources, "ada", "exclusive", lease.fence, "release 7", "friday", True)
    assert told == [tuple(map(str, wanted))]


# --------------------------------------------------------------------------------------- what is wrong


def _everything_told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:sekret@127.0.0.1:{port}/locks",
        "postgresql://ada@127.0.0.1:{port}/locks?password=sekret",
        "postgresql://ada:sekret@127.0.0.1:{port}/locks?no_such_option=1",
        "postgresql://ada:sekret%zz@127.0.0.1:{port}/locks",
        "postgresql://ada:what?sekret@127.0.0.1:{port}/locks",
        "postgresql://ada:what?sekret=1@127.0.0.1:{port}/locks",
        "postgresql://ada:what/sekret@127.0.0.1:{port}/locks",
        "postgresql://ada:sekret@127.0.0.1:{port}/locks?schema=Not-One",
    ],
)
def test_no_message_has_the_password_in_it(url: str) -> None:
    with pytest.raises(LeaseholdError) as raised:
        leasehold.connect(url.format(port=free_port()))
    assert "sekret" not in _everything_told(raised.value)


def test_a_database_that_does_not_answer(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"postgresql://ada:sekret@127.0.0.1:{free_port()}/locks"
    with pytest.raises(Unreachable, match="database locks does not answer"):
        leasehold.connect(url)
    monkeypatch.setenv("LEASEHOLD_URL", url)
    assert main(["list"]) == 9
    assert main(["list", "--url", f"{url}?password=sekret"]) == 9
    told = capsys.readouterr()
    assert "does not answer" in told.err
    assert "sekret" not in told.err + told.out


def test_a_database_that_is_not_there() -> None:
    with pytest.raises(Unreachable, match="no such database"):
        leasehold.connect(server().url.removesuffix("postgres") + "nowhere")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("sslmode=require", "no TLS that both sides trust"),
        ("sslmode=verify-full&sslrootcert=/nowhere/ca.crt", "no TLS that both sides trust"),
        ("sslmode=perhaps", "libpq cannot use"),
        ("service=nowhere", "libpq cannot use"),
    ],
)
def test_who_is_running_is_not_asked_whether_it_is(query: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSERVICEFILE", "/nowhere")
    with pytest.raises(Unreachable, match=told) as raised:
        leasehold.connect(f"{server().url}?{query}")
    assert "is it running" not in str(raised.value)


@pytest.fixture
def shut_out() -> Iterator[str]:
    """The name of a role, and of its database."""
    name = "shut_out"
    with _admin() as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN")
        connection.execute(f"CREATE DATABASE {name} OWNER {name}")
        yield name
        connection.execute(f"DROP DATABASE {name}")
        connection.execute(f"DROP ROLE {name}")


@pytest.mark.parametrize(
    ("statement", "kind", "told"),
    [
        ("REVOKE CONNECT ON DATABASE {name} FROM PUBLIC, {name}", StoreUnsuitable, r"docs/how-to/postgresql\.md"),
        ("ALTER DATABASE {name} ALLOW_CONNECTIONS false", Unreachable, "set to accept no connections"),
        ("ALTER ROLE {name} SET default_transaction_read_only = on", Unreachable, "default_transaction_read_only is"),
    ],
)
def test_a_refused_connection_names_its_reason(
    shut_out: str, statement: str, kind: type[StoreError], told: str
) -> None:
    url = server().url.replace("postgres@", f"{shut_out}@").removesuffix("postgres") + shut_out
    leasehold.connect(url).close()
    with _admin() as connection:
        connection.execute(statement.format(name=shut_out))
    with pytest.raises(kind, match=told) as raised:
        leasehold.connect(url)
    assert "is it running" not in str(raised.value)


def test_a_statement_that_is_cancelled_is_no_database_that_is_gone(url: str) -> None:
    """By a statement_timeout that somebody has set, while another server has its turn."""
    short = f"{url}&options=-c%20statement_timeout%3D50ms"
    with leasehold.connect(url, holder="ada") as there, leasehold.connect(short, holder="bob") as here:
        take(there, "r")
        take(here, "s")
        with _admin() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [parse(url).salt])
            with pytest.raises(StoreError, match="statement_timeout is too short; nothing was changed"):
                here.acquire("t", ttl=60)


def test_a_standby_is_refused_although_the_url_accepts_any_server() -> None:
    with Postgres(*QUICK) as first:
        leasehold.connect(first.url).close()
        with first.standby() as second, leasehold.connect(f"{second.url}?target_session_attrs=any") as locks:
            assert leases_of(locks) == ()
            with pytest.raises(Unreachable, match="this is a standby"):
                locks.acquire("r", ttl=60)


def test_a_service_is_named_where_no_host_is() -> None:
    assert parse("postgresql://?service=locks").place == "PostgreSQL of the service locks"
    assert "at h port" in parse("postgresql://h/?service=locks").place


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("schema=a-b", "schema"),
        ("schema=pg_locks", "PostgreSQL.s own"),
        ("schema=information_schema", "PostgreSQL.s own"),
        ("synchronous=perhaps", "synchronous"),
        ("pause=soon", "pause"),
        ("retention_days=0", "retention_days"),
        ("retention_rows=many", "retention_rows"),
        ("listen=not a url", "not understood"),
        ("unheard_of=1", "there is no unheard_of= in a postgresql: URL; of Leasehold.s own there are schema=, "),
    ],
)
def test_a_word_that_is_not_understood_is_named(query: str, what: str) -> None:
    with pytest.raises(InvalidInput, match=what):
        parse(f"{server().url}?{query}")


def test_a_database_of_another_encoding_keeps_all_text() -> None:
    with _admin() as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    for url in ("latin", "latin?client_encoding=LATIN1"):
        with leasehold.connect(server().url.removesuffix("postgres") + url, holder="Zoë") as locks:
            held = take(locks, f"café {url}")
            assert [lease.resources for lease in leases_of(locks)] == [(f"café {url}",)]
            events = expect(tuple, locks.history(resource=f"café {url}"))
            assert [event.holder for event in events] == ["Zoë"]
            locks.release(held.lease.id, held.token)


def test_words_that_are_libpqs_own_are_handed_on() -> None:
    address = parse("postgresql://a@h1:1,h2:2/d?sslmode=require&schema=x&pause=0&application_name=ours")
    assert "sslmode=require" in address.conninfo
    assert "application_name=ours" in address.conninfo
    assert "schema" not in address.conninfo
    assert (address.schema, address.pause) == ("x", 0)

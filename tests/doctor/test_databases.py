"""The doctor on PostgreSQL and on etcd: it tells who may not write and what stands in the way, and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

import leasehold
from leasehold import doctor as doctoring
from leasehold.config import settings as config
from leasehold.stores.etcd import EtcdStore, messages
from leasehold.stores.postgres import PostgresStore
from leasehold.stores.postgres.address import parse
from leasehold.stores.postgres.checkup import look
from leasehold.stores.postgres.queries import SCHEMA_VERSION, SQL, Queries
from leasehold.testing.etcd import QUICK, Etcd
from leasehold.testing.lending import free_port
from leasehold.testing.postgres import Postgres
from tests.kit import etcd
from tests.kit.postgres import schema, server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasehold.doctor import Finding

GRANTS = [line for line in (SQL / "role.sql").read_text().splitlines() if line.startswith("GRANT")]


def found(url: str) -> dict[str, Finding]:
    return {finding.topic: finding for finding in doctoring.examine(config.find(url))}


def admin(statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server().url, autocommit=True) as connection:
        done = connection.execute(statement)
        return done.fetchall() if done.description else []


@pytest.fixture
def url() -> Iterator[str]:
    with schema() as url:
        yield url


@pytest.fixture
def role(url: str) -> Iterator[str]:
    """The URL for a role that may do nothing yet; the tables are there."""
    PostgresStore(url).close()
    name = f"role_{parse(url).schema}"
    admin(f"CREATE ROLE {name} LOGIN")
    yield url.replace("postgres@", f"{name}@")
    admin(f"DROP OWNED BY {name}; DROP ROLE {name}")


def grant(role: str, grants: list[str]) -> None:
    address = parse(role)
    admin(Queries(address.schema).in_schema("\n".join(grants)).replace("{role}", f"role_{address.schema}"))


def tables(url: str) -> list[tuple[object, ...]]:
    return admin(f"SELECT tablename FROM pg_tables WHERE schemaname = '{parse(url).schema}'")


# ------------------------------------------------------------------------------------------- PostgreSQL


def test_tables_that_are_not_there_are_not_created(url: str) -> None:
    assert found(url)["reachable"].ok is None
    assert "no tables yet" in found(url)["reachable"].text
    assert tables(url) == []
    admin("CREATE ROLE stranger LOGIN")
    try:
        assert found(url.replace("postgres@", "stranger@"))["reachable"].ok is False
    finally:
        admin("DROP ROLE stranger")


def test_tables_of_an_older_version_are_left_as_they_are(url: str) -> None:
    PostgresStore(url).close()
    admin(f"UPDATE {parse(url).schema}.meta SET version = {SCHEMA_VERSION - 1}")
    findings = found(url)
    assert findings["reachable"].ok is False
    assert f"this Leasehold works with schema {SCHEMA_VERSION} only" in findings["reachable"].text
    assert "DROP SCHEMA" in findings["reachable"].text
    assert "leases" not in findings
    assert admin(f"SELECT version FROM {parse(url).schema}.meta") == [(SCHEMA_VERSION - 1,)]


def test_a_role_that_may_do_what_is_documented_is_well(role: str) -> None:
    grant(role, GRANTS)
    assert {finding.ok for finding in found(role).values()} == {True}
    assert found(role)["permissions"].text


def test_a_role_that_may_only_look_is_told_what_it_lacks(role: str) -> None:
    name = parse(role).schema
    tables = f"{name}.folded, {name}.page, {name}.turn, {name}.history, {name}.meta, {name}.entry, {name}.journal"
    grant(role, ["GRANT USAGE ON SCHEMA {schema} TO {role};"])
    admin(f"GRANT SELECT ON {tables}, {name}.leases TO role_{name}")
    admin(f"GRANT SELECT ON ALL SEQUENCES IN SCHEMA {name} TO role_{name}")
    permissions = found(role)["permissions"]
    assert permissions.ok is False
    assert f"INSERT, UPDATE, DELETE on {name}.folded; " in permissions.text
    assert f"UPDATE (seq) on {name}.history; " in permissions.text
    assert permissions.text.endswith(f"UPDATE on {name}.event_seq")
    assert "docs/how-to/postgresql.md" in permissions.advice


@pytest.mark.parametrize("missing", [line for line in GRANTS if " SCHEMA " not in line and ".meta" not in line])
def test_no_right_that_is_documented_is_forgotten(role: str, missing: str) -> None:
    grant(role, [line for line in GRANTS if line != missing])
    admin(f"GRANT SELECT ON ALL SEQUENCES IN SCHEMA {parse(role).schema} TO role_{parse(role).schema}")
    store = PostgresStore(role)
    try:
        assert len(look(store).lacking) == missing.count(".")
    finally:
        store.close()


def test_functions_that_are_not_everybodys_are_told(role: str) -> None:
    name = parse(role).schema
    admin(f"REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {name} FROM PUBLIC")
    grant(role, [line for line in GRANTS if "FUNCTIONS" not in line])
    assert found(role)["permissions"].text == f"this role lacks EXECUTE on all functions in schema {name}"
    grant(role, GRANTS)
    assert found(role)["permissions"].ok
    with leasehold.connect(role, holder="ada") as locks:
        assert isinstance(locks.acquire("r", ttl=60), leasehold.Granted)


def test_a_pause_of_new_grants_is_told(url: str) -> None:
    PostgresStore(url).close()
    in_a_day = "(extract(epoch FROM now() + interval '1 day') * 1e6)::bigint"
    admin(f"UPDATE {parse(url).schema}.meta SET opens_at = {in_a_day}")
    grants = found(url)["grants"]
    assert grants.ok is None
    assert grants.text.startswith("nothing new is granted for another 23h")


def test_a_connection_for_notifications_that_cannot_be_had_is_told(url: str) -> None:
    PostgresStore(url).close()
    assert "notifications" not in found(f"{url}&listen={server().url}")
    notifications = found(f"{url}&listen=postgresql://ada:sesame@127.0.0.1:{free_port()}/locks")["notifications"]
    assert notifications.ok is False
    assert "sesame" not in notifications.text + notifications.advice


def test_replication_that_is_not_what_the_url_says_is_told(url: str) -> None:
    PostgresStore(url).close()
    assert found(f"{url}&synchronous=yes")["replication"].ok is False


def test_a_standby_cannot_be_written() -> None:
    with Postgres("fsync=off") as first:
        PostgresStore(first.url).close()
        with first.standby() as second:
            findings = found(f"{second.url}?target_session_attrs=any")
    assert findings["reachable"].ok
    assert findings["permissions"].ok is False


# ------------------------------------------------------------------------------------------------- etcd


def test_an_etcd_that_can_be_written_is_well_and_not_written() -> None:
    url = etcd.empty()
    with leasehold.connect(url, holder="ada") as locks:
        locks.acquire("x", ttl=60)
    before = revision(url)
    assert {finding.ok for finding in found(url).values()} == {True}
    assert found(url)["members"].text == "1 of 1 answer"
    assert revision(url) == before


def test_an_empty_etcd_stays_empty() -> None:
    url = etcd.empty(None)
    with leasehold.connect(etcd.empty()):
        before = revision(url)
        assert {finding.ok for finding in found(url).values()} == {True}
        assert revision(url) == before
    with leasehold.connect(url):
        assert found(url)["lanes"].text == "its spaces are divided among 4 lanes"


def revision(url: str) -> int:
    store = EtcdStore(url, is_examined=True)
    try:
        return store.txn([], [messages.get(store.names.meta)], []).revision
    finally:
        store.close()


def test_a_user_of_etcd_who_may_only_read_is_told_what_it_lacks() -> None:
    with Etcd(*QUICK) as cluster:
        etcd.let_in_users(cluster)
        url = cluster.url.replace("etcd://", "etcd://ada:secret@")
        assert found(url)["permissions"].ok is True
        for change in (["revoke-permission", "locks"], ["grant-permission", "locks", "read"]):
            cluster.control("--user", "root:top", "role", *change, "--prefix=true", "leasehold/")
        assert found(url)["permissions"].ok is False
        assert "readwrite leasehold/" in found(url)["permissions"].text


def test_a_member_that_does_not_answer_is_named() -> None:
    dead = f"127.0.0.1:{free_port()}"
    findings = found(etcd.empty().replace("etcd://", f"etcd://{dead},"))
    assert findings["reachable"].ok
    assert findings["members"].ok is None
    assert findings["members"].text.startswith(f"{dead}: ")


# ------------------------------------------------------------------------------------------------- lanes


@pytest.mark.parametrize("kind", ["postgres", "etcd"])
def test_leases_of_every_lane_are_counted(kind: str) -> None:
    with schema(3) as divided:
        url = divided if kind == "postgres" else etcd.empty(3)
        with leasehold.connect(url) as locks:
            for number in range(12):
                assert locks.acquire("r", ttl=60, space=f"team-{number}")
        findings = found(url)
    assert findings["leases"].text == "12 live"
    assert findings["lanes"].text == "its spaces are divided among 3 lanes"


def test_a_role_needs_its_rights_in_every_lane() -> None:
    with schema(2) as url:
        PostgresStore(url).close()
        address = parse(url)
        name = f"role_{address.schema}"
        admin(f"CREATE ROLE {name} LOGIN")
        try:
            for lane in range(3):
                queries = Queries(address.of_lane(lane).schema)
                kept = [line for line in GRANTS if lane != 2 or " ON {schema}.page " not in line]
                admin(queries.in_schema("\n".join(kept)).replace("{role}", name))
            told = found(url.replace("postgres@", f"{name}@"))["permissions"]
            assert (told.ok, f"on {address.schema}_2.page" in told.text) == (False, True)
        finally:
            admin(f"DROP OWNED BY {name}; DROP ROLE {name}")

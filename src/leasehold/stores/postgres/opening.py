"""Check that a database can be used, and create missing tables, one server at a time."""

from __future__ import annotations

import os

import psycopg

from leasehold.domain.timestamps import SECOND
from leasehold.errors import StoreUnsuitable
from leasehold.stores.postgres.connections import ask
from leasehold.stores.postgres.failures import other_schema
from leasehold.stores.postgres.queries import SCHEMA_VERSION, SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.stores.postgres.connections import Connection, PostgresConnections

LONGEST = 1_800 * SECOND
"""Assumed as the longest TTL until a longer one is granted: the default of all surfaces."""
OLDEST = 140_000
"""PostgreSQL 14, the oldest that is maintained and tested."""


def prepare(connections: PostgresConnections, *, is_examined: bool = False) -> None:
    """Create the tables unless the database is only examined. Raises StoreUnsuitable if it cannot be used."""
    if not psycopg.Pipeline.is_supported():
        raise StoreUnsuitable("this libpq is older than 14: install psycopg[binary], which brings a newer one")
    connection = connections.writer()
    try:
        if connection.info.server_version < OLDEST:
            raise StoreUnsuitable(f"{connections.address.place} is older than PostgreSQL {OLDEST // 10_000}: update it")
        if not has_tables(connections, connection) and not is_examined:
            _create(connections, connection)
    except psycopg.Error as error:
        raise connections.explain(error) from error
    finally:
        if connection.closed:
            connections.drop_writer()


def has_tables(connections: PostgresConnections, connection: Connection) -> bool:
    """Return False if there are no tables yet. Raises StoreUnsuitable if they are of another version."""
    if not ask(connection, connections.queries["exists"])[-1][0][0]:
        return False
    rows = ask(connection, connections.queries["version"])[-1]
    version = int(rows[0][0]) if rows else 0
    if version != SCHEMA_VERSION:
        raise other_schema(connections.address, version, SCHEMA_VERSION)
    return True


def _create(connections: PostgresConnections, connection: Connection) -> None:
    address, queries = connections.address, connections.queries
    with connection.transaction():
        ask(connection, "SELECT pg_advisory_xact_lock(hashtextextended('create', %(salt)s))", {"salt": address.salt})
        if has_tables(connections, connection):
            return  # another server was faster
        if not ask(connection, queries["has_schema"])[-1][0][0]:
            ask(connection, queries.in_schema("CREATE SCHEMA {schema}"))
        ask(connection, queries.in_schema((SQL / "schema.sql").read_text(encoding="utf-8")))
        system, timeline = ask(connection, queries["identity"])[-1][0]
        first = {"database": os.urandom(16).hex(), "system": system, "timeline": timeline, "longest": LONGEST}
        ask(connection, queries["first_meta"], {"version": SCHEMA_VERSION, **first})

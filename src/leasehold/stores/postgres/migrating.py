"""What is done once: create the tables and bring them up to date, one server at a time. Nothing while in use."""

from __future__ import annotations

import os

import psycopg

from leasehold.errors import StoreUnsuitable
from leasehold.model import SECOND
from leasehold.stores.postgres.connections import ask
from leasehold.stores.postgres.queries import migrations
from leasehold.stores.postgres.transaction import SCHEMA_VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.stores.postgres.connections import Connection, Connections

LONGEST = 1_800 * SECOND
"""What counts as the longest TTL until a longer one is granted: what surfaces give by default."""
OLDEST = 140_000
"""PostgreSQL 14: the oldest that is maintained and tested with."""


def prepare(connections: Connections, *, is_changed: bool = True) -> None:
    """Make the database ready for use, or say why it is not. Whoever only examines it has it left as it is."""
    if not psycopg.Pipeline.is_supported():
        raise StoreUnsuitable("this libpq is older than 14: install psycopg[binary], which brings a newer one")
    connection = connections.writer()
    try:
        if connection.info.server_version < OLDEST:
            raise StoreUnsuitable(f"{connections.address.place} is older than PostgreSQL {OLDEST // 10_000}: update it")
        if version(connections, connection) != SCHEMA_VERSION and is_changed:
            _migrate(connections, connection)
    except psycopg.Error as error:
        raise connections.explain(error) from error
    finally:
        if connection.closed:
            connections.drop_writer()


def version(connections: Connections, connection: Connection) -> int:
    """The last migration that was applied; 0 if there is nothing yet."""
    if not ask(connection, connections.queries["exists"])[-1][0][0]:
        return 0
    rows = ask(connection, connections.queries["version"])[-1]
    applied = int(rows[0][0]) if rows else 0
    if applied > SCHEMA_VERSION:
        raise StoreUnsuitable(
            f"{connections.address.place} has schema {applied}, this Leasehold knows schemas up to {SCHEMA_VERSION}: "
            "update Leasehold on every server, or give another schema= in the URL"
        )
    return applied


def _migrate(connections: Connections, connection: Connection) -> None:
    address, queries = connections.address, connections.queries
    with connection.transaction():
        # Whoever comes second finds everything done.
        ask(connection, "SELECT pg_advisory_xact_lock(hashtextextended('migrate', %(salt)s))", {"salt": address.salt})
        # Whoever is in a transaction, of whichever version, ends it first, and finds the new version in the next.
        ask(connection, queries["turn"], {"salt": address.salt})
        before = version(connections, connection)
        if before == 0 and not ask(connection, queries["has_schema"])[-1][0][0]:
            ask(connection, queries.in_schema("CREATE SCHEMA {schema}"))
        for number, text in migrations():
            if number > before:
                ask(connection, queries.in_schema(text))
        if before == 0:
            system, timeline = ask(connection, queries["identity"])[-1][0]
            first = {"database": os.urandom(16).hex(), "system": system, "timeline": timeline, "longest": LONGEST}
            ask(connection, queries["first_meta"], {"version": SCHEMA_VERSION, **first})
        else:
            ask(connection, queries["grant_functions"])
            ask(connection, queries["set_version"], {"version": SCHEMA_VERSION})

"""Create the tables, once, and refuse those of another version of Leasehold."""

from __future__ import annotations

import os

import psycopg

from leasehold.errors import StoreUnsuitable
from leasehold.model import SECOND
from leasehold.stores.postgres.connections import ask
from leasehold.stores.postgres.queries import SQL
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
        if not version(connections, connection) and is_changed:
            _create(connections, connection)
    except psycopg.Error as error:
        raise connections.explain(error) from error
    finally:
        if connection.closed:
            connections.drop_writer()


def version(connections: Connections, connection: Connection) -> int:
    """Which layout the tables have; 0 if there are none yet. Raises `StoreUnsuitable` for another one than ours."""
    if not ask(connection, connections.queries["exists"])[-1][0][0]:
        return 0
    rows = ask(connection, connections.queries["version"])[-1]
    applied = int(rows[0][0]) if rows else 0
    if applied > SCHEMA_VERSION:
        raise StoreUnsuitable(
            f"{connections.address.place} has schema {applied}, this Leasehold knows schemas up to {SCHEMA_VERSION}: "
            "update Leasehold on every server, or give another schema= in the URL"
        )
    if 0 < applied < SCHEMA_VERSION:
        raise StoreUnsuitable(
            f"{connections.address.place} has schema {applied}, of an earlier Leasehold; this one needs schema "
            f"{SCHEMA_VERSION}, and what is held cannot be carried over: once nothing is held there, drop the tables, "
            "or give another schema= in the URL"
        )
    return applied


def _create(connections: Connections, connection: Connection) -> None:
    address, queries = connections.address, connections.queries
    with connection.transaction():
        # A second server that starts at the same moment finds everything done.
        ask(connection, "SELECT pg_advisory_xact_lock(hashtextextended('migrate', %(salt)s))", {"salt": address.salt})
        if version(connections, connection):
            return
        if not ask(connection, queries["has_schema"])[-1][0][0]:
            ask(connection, queries.in_schema("CREATE SCHEMA {schema}"))
        ask(connection, queries.in_schema((SQL / "schema.sql").read_text(encoding="utf-8")))
        system, timeline = ask(connection, queries["identity"])[-1][0]
        first = {"database": os.urandom(16).hex(), "system": system, "timeline": timeline, "longest": LONGEST}
        ask(connection, queries["first_meta"], {"version": SCHEMA_VERSION, **first})

"""Check that a database can be used, and create missing tables, one server at a time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import psycopg

from leasehold.domain.timestamps import SECOND
from leasehold.errors import StoreUnsuitable
from leasehold.stores.layout import CONTROL, LANES_AT_FIRST, Layout, other_layout
from leasehold.stores.postgres.connections import ask
from leasehold.stores.postgres.failures import other_schema
from leasehold.stores.postgres.queries import SCHEMA_VERSION, SQL, Queries

if TYPE_CHECKING:
    from leasehold.stores.postgres.address import PostgresAddress
    from leasehold.stores.postgres.connections import Connection, PostgresConnections

LONGEST = 1_800 * SECOND
"""Assumed as the longest TTL until a longer one is granted: the default of all surfaces."""
OLDEST = 140_000
"""PostgreSQL 14, the oldest that is maintained and tested."""


def prepare(
    connections: PostgresConnections, *, lane: int = CONTROL, lanes: int | None = None, is_examined: bool = False
) -> Layout:
    """Return the layout of this lane, which must have its number, and this number of lanes unless that is None.

    Create the tables of all lanes unless the database is only examined. Raises StoreUnsuitable if it cannot be used.
    """
    if not psycopg.Pipeline.is_supported():
        raise StoreUnsuitable("this libpq is older than 14: install psycopg[binary], which brings a newer one")
    connection = connections.writer()
    try:
        if connection.info.server_version < OLDEST:
            raise StoreUnsuitable(f"{connections.address.place} is older than PostgreSQL {OLDEST // 10_000}: update it")
        found = layout_of(connections.address, connections.queries, connection)
        if found is None and lane == CONTROL and not is_examined:
            found = _create(connections, connection, lanes or LANES_AT_FIRST)
    except psycopg.Error as error:
        raise connections.explain(error) from error
    finally:
        if connection.closed:
            connections.drop_writer()
    if found is None and lane != CONTROL:
        raise StoreUnsuitable(f"{connections.address.shown}: the tables of lane {lane} are gone; restore a backup")
    found = found or Layout(CONTROL, lanes or 1)
    wanted = Layout(lane, lanes or found.lanes)
    if found != wanted:
        raise other_layout(connections.address.shown, found, wanted)
    return found


def layout_of(address: PostgresAddress, queries: Queries, connection: Connection) -> Layout | None:
    """Return the layout that the tables record; None if there are none. Raises StoreUnsuitable for another version."""
    if not ask(connection, queries["exists"])[-1][0][0]:
        return None
    rows = ask(connection, queries["version"])[-1]
    version = int(rows[0][0]) if rows else 0
    if version != SCHEMA_VERSION:
        raise other_schema(address, version, SCHEMA_VERSION)
    lane, lanes = ask(connection, queries["layout"])[-1][0]
    return Layout(lane, lanes)


def _create(connections: PostgresConnections, connection: Connection, lanes: int) -> Layout:
    """Create the tables of all lanes in one transaction, so that no lane is created later by a stale process."""
    address, queries = connections.address, connections.queries
    with connection.transaction():
        ask(connection, "SELECT pg_advisory_xact_lock(hashtextextended('create', %(salt)s))", {"salt": address.salt})
        found = layout_of(address, queries, connection)
        if found is not None:
            return found  # another server was faster
        for lane in range(lanes + 1) if lanes > 1 else [CONTROL]:
            create_lane(address.of_lane(lane), connection, Layout(lane, lanes))
    return Layout(CONTROL, lanes)


def create_lane(address: PostgresAddress, connection: Connection, layout: Layout) -> None:
    """Create the tables of one lane, in the transaction under way."""
    queries = Queries(address.schema)
    there = layout_of(address, queries, connection)
    if there is not None:
        raise other_layout(address.shown, there, layout)
    if not ask(connection, queries["has_schema"])[-1][0][0]:
        ask(connection, queries.in_schema("CREATE SCHEMA {schema}"))
    ask(connection, queries.in_schema((SQL / "schema.sql").read_text(encoding="utf-8")))
    system, timeline = ask(connection, queries["identity"])[-1][0]
    first = {"database": os.urandom(16).hex(), "system": system, "timeline": timeline, "longest": LONGEST}
    ask(connection, queries["first_meta"], {"version": SCHEMA_VERSION, **first, **layout._asdict()})

"""Detect that the database is a promoted standby, or was restored: it may have lost commits.

Then the fences rise into a new epoch, above all that may have been issued and lost, and nothing new is granted until
every lease that may have been lost has expired. The rules observe that pause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from leasehold.stores.postgres.connections import ask

if TYPE_CHECKING:
    from leasehold.stores.postgres.connections import Connection, PostgresConnections

EPOCH = 2**40
"""Fences that are skipped: more than a year of full load can issue. There is room for 8,000 epochs."""


def check(connections: PostgresConnections, connection: Connection) -> None:
    """Begin a new epoch if the database has another timeline than the one recorded."""
    queries = connections.queries
    try:
        system, timeline = ask(connection, queries["identity"])[-1][0]
        known = ask(connection, queries["known_identity"])[-1][0]
        if known != (system, timeline):
            _begin_epoch(connections, connection, system, timeline)
    except psycopg.Error as error:
        raise connections.explain(error) from error


def _begin_epoch(connections: PostgresConnections, connection: Connection, system: str, timeline: str) -> None:
    address, queries = connections.address, connections.queries
    with connection.transaction():
        ask(connection, queries["turn"], {"salt": address.salt})
        known_system, known_timeline, longest = ask(connection, queries["meta_for_update"])[-1][0]
        if (known_system, known_timeline) == (system, timeline):
            return  # another server was faster
        pause = 0 if address.synchronous else longest if address.pause is None else address.pause
        values = {"skip": EPOCH, "system": system, "timeline": timeline, "pause": pause}
        ask(connection, queries["new_epoch"], values)

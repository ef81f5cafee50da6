"""Read the facts about a database for `leasehold doctor`. It waits for no turn, writes nothing and judges nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import psycopg

from leasehold.domain.nouns import Noun
from leasehold.stores.postgres.connections import ask, connect
from leasehold.stores.postgres.failures import explained
from leasehold.stores.postgres.opening import layout_of
from leasehold.stores.postgres.queries import SCHEMA_VERSION, SQL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasehold.stores.postgres import PostgresStore
    from leasehold.stores.postgres.connections import Connection

_GRANT = re.compile(r"GRANT (.+) ON (?:(SCHEMA|SEQUENCE|ALL FUNCTIONS IN SCHEMA) )?(.+) TO \{role\};")
_COLUMN = re.compile(r"(\w+) \((\w+)\)")
_FUNCTIONS = "ALL FUNCTIONS IN SCHEMA"
_EXECUTES = """
SELECT bool_and(has_function_privilege(pg_proc.oid, 'EXECUTE'))
FROM pg_catalog.pg_proc JOIN pg_catalog.pg_namespace ON pg_namespace.oid = pronamespace WHERE nspname = '{schema}'
"""


class PostgresFacts(Noun):
    """Facts about a database, and about the role that connects to it."""

    schema: int
    """The version of the tables; 0 if there are none yet."""
    may_create: bool
    """True if this role may create the tables."""
    lacking: tuple[str, ...] = ()
    """Rights that a server needs and this role lacks, as GRANT spells them."""
    is_read_only: bool = False
    """True for a standby."""
    is_synchronous: bool = True
    """False if the URL asks for synchronous replication and the database has none."""
    pause: int = 0
    """Microseconds for which nothing new is granted."""
    deaf: str = ""
    """Why the separate connection for notifications cannot be opened; empty if it can, or if there is none."""


def look(store: PostgresStore) -> PostgresFacts:
    """Return the facts. Raises `StoreError` if they cannot be read."""
    connections = store.connections
    try:
        with connections.looking() as connection:
            has_tables = layout_of(connections.address, connections.queries, connection) is not None
            version = SCHEMA_VERSION if has_tables else 0
            may_create = bool(ask(connection, connections.queries["may_create"])[-1][0][0])
            if not version:
                return PostgresFacts(version, may_create)
            read_only, synchronous, pause = ask(connection, connections.queries["condition"])[-1][0]
            return PostgresFacts(
                version,
                may_create,
                _lacking(store, connection),
                read_only,
                synchronous or not store.address.synchronous,
                pause,
                _deafness(store),
            )
    except psycopg.Error as error:
        raise connections.explain(error) from error


def _lacking(store: PostgresStore, connection: Connection) -> tuple[str, ...]:
    """Return the documented rights that this role lacks, one text for each table, sequence or schema."""
    needed = list(_needed((SQL / "role.sql").read_text(encoding="utf-8")))
    asked = ", ".join(store.connections.queries.in_schema(_question(*each)) for each in needed)
    lacking: dict[str, list[str]] = {}
    for (right, kind, thing), has in zip(needed, ask(connection, f"SELECT {asked}")[-1][0], strict=True):
        if not has:
            named = f"{kind.lower()} {thing}" if kind == _FUNCTIONS else thing
            lacking.setdefault(named.replace("{schema}", store.address.schema), []).append(right)
    return tuple(f"{', '.join(rights)} on {thing}" for thing, rights in lacking.items())


def _needed(grants: str) -> Iterator[tuple[str, str, str]]:
    """Return each right with its object: `INSERT`, `TABLE`, `{schema}.history`."""
    for rights, kind, things in _GRANT.findall(grants):
        for thing in things.split(", "):
            for right in rights.split(", "):
                yield right, kind or "TABLE", thing


def _question(right: str, kind: str, thing: str) -> str:
    """Return the SQL that asks if this role has the right."""
    if kind == _FUNCTIONS:
        return f"({_EXECUTES})"
    column = _COLUMN.fullmatch(right)
    if column is not None:
        return f"has_column_privilege('{thing}', '{column[2]}', '{column[1]}')"
    return f"has_{kind.lower()}_privilege('{thing}', '{right}')"


def _deafness(store: PostgresStore) -> str:
    """Return why the separate connection that listens cannot be opened; empty if it can."""
    address = store.address
    if address.listen == address.conninfo:
        return ""
    try:
        connection = connect(address.listen)
        try:
            ask(connection, f"LISTEN {address.channel}")
        finally:
            connection.close()
    except psycopg.Error as error:
        return str(explained("listen=", error))
    return ""

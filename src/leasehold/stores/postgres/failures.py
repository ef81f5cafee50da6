"""Meanings of PostgreSQL's failures, and what to do about them. No message contains a password."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import errors as pg

from leasehold.errors import Conflict, StoreError, StoreUnsuitable, Unreachable

if TYPE_CHECKING:
    from leasehold.stores.postgres.address import PostgresAddress

LONGEST = 400
_NO_ROOM = ("could not extend file", "could not write to file")
_RECOVERING = "recovery is in progress"
LOST = (psycopg.OperationalError, psycopg.InterfaceError)


class Untrusted(psycopg.OperationalError):
    """One side does not accept the certificate of the other."""


class NotUnderstood(psycopg.OperationalError):
    """Libpq does not understand its parameters: no server was contacted."""


class NotAccepting(psycopg.OperationalError):
    """The database exists, and is set to accept no connections."""


_MEANINGS: tuple[tuple[type[psycopg.Error], type[StoreError], str], ...] = (
    (pg.DeadlockDetected, Conflict, "two transactions waited for each other; nothing was changed"),
    (pg.SerializationFailure, Conflict, "another transaction was quicker; nothing was changed"),
    (pg.LockNotAvailable, StoreError, "another server has had its turn for too long; try again"),
    (pg.DiskFull, StoreError, "the database's disk is full; nothing was changed. Free some space and try again"),
    (pg.OutOfMemory, StoreError, "the database has no room left for locks or memory; nothing was changed. Try again"),
    (pg.TooManyConnections, Unreachable, "too many connections; raise max_connections, or use a pooler"),
    (pg.CannotConnectNow, Unreachable, "it is starting or stopping; try again"),
    (pg.InvalidPassword, Unreachable, "the password is wrong, or there is none; see the user and password in the URL"),
    (pg.InvalidAuthorizationSpecification, Unreachable, "this user is not accepted; see pg_hba.conf"),
    (pg.InvalidCatalogName, Unreachable, "there is no such database; create it first: createdb NAME"),
    (
        pg.InsufficientPrivilege,
        StoreUnsuitable,
        "this role may not do that; docs/how-to/postgresql.md has what it needs",
    ),
    (
        pg.ReadOnlySqlTransaction,
        Unreachable,
        "this is a standby, or default_transaction_read_only is set for this role; name the primary, or all hosts",
    ),
    (
        pg.QueryCanceled,
        StoreError,
        "it was cancelled, or statement_timeout is too short; nothing was changed. Give this role a longer one",
    ),
    (Untrusted, Unreachable, "no TLS that both sides trust; see sslmode, sslrootcert, sslcert and sslkey in the URL"),
    (NotUnderstood, Unreachable, "the URL, or a variable such as PGSERVICE, says something that libpq cannot use"),
    (NotAccepting, Unreachable, "this database is set to accept no connections"),
    (pg.UndefinedTable, StoreUnsuitable, "the tables are gone; connect again"),
    (pg.InvalidSchemaName, StoreUnsuitable, "the tables are gone; connect again"),
    (pg.UndefinedFunction, StoreUnsuitable, "its functions are gone, or are others than they were; connect again"),
)
_WHILE_CONNECTING: tuple[tuple[str, type[psycopg.Error]], ...] = (
    ("password authentication failed", pg.InvalidPassword),
    ("no password supplied", pg.InvalidPassword),
    ("no pg_hba.conf entry", pg.InvalidAuthorizationSpecification),
    ("permission denied for database", pg.InsufficientPrivilege),
    ("is not currently accepting connections", NotAccepting),
    ("role ", pg.InvalidAuthorizationSpecification),
    ("database ", pg.InvalidCatalogName),
    ("the database system is", pg.CannotConnectNow),
    ("too many", pg.TooManyConnections),
    ("remaining connection slots", pg.TooManyConnections),
    ("session is read-only", pg.ReadOnlySqlTransaction),
    ("server is in hot standby mode", pg.ReadOnlySqlTransaction),
    ("definition of service", NotUnderstood),
    ("service file", NotUnderstood),
    ("invalid sslmode value", NotUnderstood),
    ("certificate", Untrusted),
    ("server does not support SSL", Untrusted),
)
"""Kinds of failures to connect, by their text: they come without a code."""


def explained(place: str, error: psycopg.Error) -> StoreError:
    """Return the failure as an error of Leasehold, with PostgreSQL's message in brackets."""
    said, known = _said(error), _kind(error)
    for kind, result, meaning in _MEANINGS:
        if issubclass(known, kind):
            return result(f"{place}: {meaning} ({said})")
    if isinstance(error, LOST):
        return Unreachable(f"{place} does not answer; is it running, and can it be reached from here? ({said})")
    return StoreError(f"{place}: {said}")


def _kind(error: psycopg.Error) -> type[psycopg.Error]:
    if str(error.diag.message_primary).startswith(_NO_ROOM):
        return pg.DiskFull  # a quota or a limit, too
    if error.diag.message_primary == _RECOVERING:
        return pg.ReadOnlySqlTransaction  # although nothing was to be written yet
    if error.sqlstate is None and isinstance(error, psycopg.OperationalError):
        _, fatal, said = str(error).partition("FATAL:")
        said = said.strip() if fatal else str(error)
        for text, kind in _WHILE_CONNECTING:
            if said.startswith(text) or (text[-1] != " " and text in said):
                return kind
    return type(error)


def _said(error: psycopg.Error) -> str:
    """Return the message in short. Libpq names host, port and user in it, never the password."""
    text = error.diag.message_primary or str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = "; ".join(line for line in lines if not line.startswith("Is the server running"))
    return told[:LONGEST] or type(error).__name__


def other_schema(address: PostgresAddress, version: int, ours: int) -> StoreUnsuitable:
    """Return an error for tables that another version of Leasehold created."""
    differs = f"{address.place} has tables of schema {version}, and this Leasehold works with schema {ours} only"
    if version > ours:
        return StoreUnsuitable(f"{differs}: update Leasehold on every server, or give another schema= in the URL")
    return StoreUnsuitable(
        f"{differs}: an older version created them. Nothing was changed. To keep them, give another schema= in the "
        "URL. To start anew, stop every server that uses them, and drop them with all leases and their history:\n"
        f'DROP SCHEMA "{address.schema}" CASCADE'
    )


def not_synchronous(address: PostgresAddress) -> StoreUnsuitable:
    """Return an error for a database without the synchronous replication that the URL demands."""
    return StoreUnsuitable(
        f"{address.place}: the URL says synchronous=yes, but synchronous_standby_names or synchronous_commit there "
        "says otherwise; nothing was changed"
    )

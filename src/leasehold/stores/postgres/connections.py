"""Connections to one database: opened when needed, returned, dropped when broken. They keep no session state."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg import ClientCursor

from leasehold.errors import Closed, StoreError
from leasehold.stores.postgres.failures import explained
from leasehold.stores.postgres.queries import Queries, statement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypeAlias

    from leasehold.stores.postgres.address import PostgresAddress

    Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
    Rows: TypeAlias = list[tuple[Any, ...]]

IDLE_MOST = 4
"""Idle connections that are kept for reading."""


def connect(conninfo: str) -> Connection:
    """Open a connection in autocommit mode that prepares no statement, so that a proxy may pool it."""
    connection = psycopg.connect(conninfo, autocommit=True, prepare_threshold=None, cursor_factory=ClientCursor)
    connection.add_notice_handler(_ignore_notices)
    return connection


def _ignore_notices(_notice: psycopg.errors.Diagnostic) -> None:
    """Drop notices: they also go to PostgreSQL's own log."""


def ask(connection: Connection, text: str, values: dict[str, Any] | None = None) -> list[Rows]:
    """Send these statements together; return the rows of each one that returns rows."""
    cursor = connection.cursor()
    cursor.execute(statement(text), values)
    found = []
    while True:
        if cursor.description is not None:
            found.append(cursor.fetchall())
        if not cursor.nextset():
            return found


class IdleReaders:
    """Idle connections for reading, which all lanes of a store share. The last of them closes the connections."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._users = 0

    def join(self) -> None:
        """Count one more user."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """Count one user less; without any, close the connections."""
        with self._lock:
            self._users -= 1
        if not self._users:
            self.forget()

    def take(self) -> Connection | None:
        """Return an idle connection, or None."""
        with self._lock:
            return self._idle.pop() if self._idle else None

    def put(self, connection: Connection) -> None:
        """Keep a connection that is idle again, or close it if there are enough."""
        with self._lock:
            if len(self._idle) < IDLE_MOST and self._users and not connection.closed:
                self._idle.append(connection)
                return
        connection.close()

    def forget(self) -> None:
        """Close idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class PostgresConnections:
    """One connection that writes, and a few that read."""

    def __init__(
        self, address: PostgresAddress, readers: IdleReaders | None = None, writer: Connection | None = None
    ) -> None:
        self.address = address
        self.queries = Queries(address.schema)
        self.readers = readers or IdleReaders()
        self.readers.join()
        self._pid = os.getpid()
        self.own_writer = writer
        self.closed = False

    def check_usable(self) -> None:
        """Raise if this is closed, or was opened before a fork."""
        if self.closed:
            raise Closed(f"{self.address.place}: this store is closed; connect again")
        if self.is_inherited():
            raise StoreError(f"{self.address.place} was opened before a fork: connect again in the child")

    def is_inherited(self) -> bool:
        """Return True in a forked child: the connections are its parent's."""
        return os.getpid() != self._pid

    def open(self) -> Connection:
        """Open a new connection."""
        self.check_usable()
        try:
            return connect(self.address.conninfo)
        except psycopg.Error as error:
            raise self.explain(error) from None

    def writer(self) -> Connection:
        """Return the connection that writes; open a new one if it broke."""
        self.check_usable()
        if self.own_writer is None or self.own_writer.closed:
            self.own_writer = self.open()
        return self.own_writer

    def drop_writer(self) -> None:
        """Close the connection that writes: it broke, or its state is unknown."""
        if self.own_writer is not None:
            self.own_writer.close()
            self.own_writer = None

    @contextmanager
    def looking(self) -> Iterator[Connection]:
        """Lend a connection for reading. It is closed after a failure."""
        self.check_usable()
        idle = self.readers.take()
        connection = self.open() if idle is None else idle
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self.readers.put(connection)

    def look(self, name: str, values: dict[str, Any]) -> Rows:
        """Run a query outside of a turn; retry once if the connection was cut while it was idle."""
        text = self.queries[name]
        try:
            with self.looking() as connection:
                return ask(connection, text, values)[-1]
        except psycopg.OperationalError:
            pass  # PostgreSQL was restarted, for example: all idle connections are gone
        except psycopg.Error as error:
            raise self.explain(error) from error
        self.readers.forget()
        try:
            with self.looking() as connection:
                return ask(connection, text, values)[-1]
        except psycopg.Error as error:
            raise self.explain(error) from error

    def explain(self, error: psycopg.Error) -> StoreError:
        """Return the failure as an error that says what to do next."""
        return explained(self.address.place, error)

    def close(self) -> None:
        """Close all connections. Idempotent."""
        if self.closed:
            return
        self.closed = True
        if not self.is_inherited():
            self.readers.leave()
            self.drop_writer()

"""One round trip: send several statements together, with their values, and read all answers. It knows no statement.

Psycopg's cursors take several times as long, twice in every batch. Nothing is prepared, so that a proxy may pool
transactions.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus

if TYPE_CHECKING:
    from typing import TypeAlias

    from psycopg.pq.abc import PGconn, PGresult

    from leasehold.stores.postgres.connections import Connection

    Values: TypeAlias = list[bytes | None]
    Call: TypeAlias = tuple[bytes, Values]


def is_quiet(connection: Connection) -> bool:
    """Return True if PostgreSQL has sent nothing since its last answer, such as that it is shutting down."""
    readable = select.poll()
    readable.register(connection.pgconn.socket, select.POLLIN)
    return not readable.poll(0)


def is_midway(connection: Connection) -> bool:
    """Return True if a transaction is open, by PostgreSQL's last answer."""
    return not connection.closed and connection.pgconn.transaction_status != TransactionStatus.IDLE


class RoundTrip:
    """Statements that were sent together, and their answers so far. An `Answering`."""

    __slots__ = ("_connection", "_count", "_failed", "_is_answered", "_results")

    def __init__(self, connection: Connection, *calls: Call) -> None:
        """Send the statements. This waits for room in the socket's buffers, but not for an answer."""
        self._connection = connection
        self._count = len(calls)
        self._results: list[PGresult] = []
        self._is_answered = False
        self._failed: psycopg.Error | None = None
        pgconn = connection.pgconn
        try:
            pgconn.enter_pipeline_mode()
            for text, values in calls:
                pgconn.send_query_params(text, values)
            pgconn.pipeline_sync()
            _send(pgconn)
        except BaseException:  # also an interrupt: the state of the connection is unknown
            connection.close()
            raise

    def fileno(self) -> int:
        """Return the socket that becomes readable when more of the answer arrives."""
        return self._connection.pgconn.socket

    def is_answered(self) -> bool:
        """Read what has arrived, without waiting. Return True if the answer is complete or will never come."""
        if self._is_answered or self._failed is not None:
            return True
        try:
            self._connection.pgconn.consume_input()
            return self._take()
        except psycopg.Error as error:
            self._failed = error
            return True

    def answers(self) -> list[Values]:
        """Return the first row of each statement, as text; wait for what has not arrived.

        Raise the failure of a statement: PostgreSQL skips those after it.
        """
        pgconn = self._connection.pgconn
        try:
            if not self._is_answered:
                self._wait()
            pgconn.exit_pipeline_mode()
        except BaseException:  # as above
            self._connection.close()
            raise
        for result in self._results:
            if result.status == ExecStatus.FATAL_ERROR:
                raise error_from_result(result)
        return [
            [result.get_value(0, column) for column in range(result.nfields)] if result.ntuples else []
            for result in self._results[-self._count :]
        ]

    def _wait(self) -> None:
        if self._failed is not None:
            raise self._failed
        pgconn = self._connection.pgconn
        readable = select.poll()
        readable.register(pgconn.socket, select.POLLIN)
        while not self._take():
            readable.poll()
            pgconn.consume_input()

    def _take(self) -> bool:
        """Keep the results that have arrived; return True if the last one is among them."""
        pgconn = self._connection.pgconn
        while not pgconn.is_busy():
            result = pgconn.get_result()
            if result is not None:
                if result.status == ExecStatus.PIPELINE_SYNC:
                    self._is_answered = True
                    return True
                self._results.append(result)
            elif pgconn.status == ConnStatus.BAD:
                raise psycopg.OperationalError("the connection was lost")
        return False


def round_trip(connection: Connection, *calls: Call) -> list[Values]:
    """Send these statements, and return their answers."""
    return RoundTrip(connection, *calls).answers()


def _send(pgconn: PGconn) -> None:
    if pgconn.flush():
        both = select.poll()
        both.register(pgconn.socket, select.POLLIN | select.POLLOUT)
        while pgconn.flush():
            for _, what in both.poll():
                if what & ~select.POLLOUT:
                    pgconn.consume_input()

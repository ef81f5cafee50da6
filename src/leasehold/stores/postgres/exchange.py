"""One round trip: several statements sent together, with their values apart from the text. It knows none of them.

Psycopg's cursors do the same in several times the time, which every batch would pay twice. Nothing is prepared, so a
proxy that pools transactions may stand in between.
"""

from __future__ import annotations

import select

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from psycopg.pq.abc import PGconn, PGresult

    from leasehold.stores.postgres.connections import Connection

    Values: TypeAlias = list[bytes | None]
    Call: TypeAlias = tuple[bytes, Values]


def is_quiet(connection: Connection) -> bool:
    """Whether the server has said nothing since the last answer: not even that it is going away."""
    readable = select.poll()
    readable.register(connection.pgconn.socket, select.POLLIN)
    return not readable.poll(0)


def send(connection: Connection, *calls: Call) -> None:
    """Have these statements carried out; the next `exchange` hears what became of it, and nobody waits for it here."""
    pgconn = connection.pgconn
    try:
        pgconn.enter_pipeline_mode()
        for text, values in calls:
            pgconn.send_query_params(text, values)
        pgconn.flush()  # as much as the socket takes
    except BaseException:  # see below
        connection.close()
        raise


def exchange(connection: Connection, *calls: Call) -> list[Values]:
    """The first row that each of these statements answered, as text; after one that failed, none is carried out.

    One that failed may also have been sent before.
    """
    pgconn = connection.pgconn
    try:
        pgconn.enter_pipeline_mode()
        for text, values in calls:
            pgconn.send_query_params(text, values)
        pgconn.pipeline_sync()
        _send(pgconn)
        results = _receive(pgconn)
        pgconn.exit_pipeline_mode()
    except BaseException:  # also an interrupt: nobody knows where it stands
        connection.close()
        raise
    for result in results:
        if result.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(result)
    return [_first_row(result) for result in results[-len(calls) :]]


def _send(pgconn: PGconn) -> None:
    if pgconn.flush():
        both = select.poll()
        both.register(pgconn.socket, select.POLLIN | select.POLLOUT)
        while pgconn.flush():
            for _, what in both.poll():
                if what & ~select.POLLOUT:
                    pgconn.consume_input()


def _receive(pgconn: PGconn) -> list[PGresult]:
    """All results up to the end of what was sent together."""
    results: list[PGresult] = []
    readable = select.poll()
    readable.register(pgconn.socket, select.POLLIN)
    while True:
        while pgconn.is_busy():
            readable.poll()
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is not None:
            if result.status == ExecStatus.PIPELINE_SYNC:
                return results
            results.append(result)
        elif pgconn.status == ConnStatus.BAD:
            raise psycopg.OperationalError("the connection was lost")


def _first_row(result: PGresult) -> Values:
    return [result.get_value(0, column) for column in range(result.nfields)] if result.ntuples else []

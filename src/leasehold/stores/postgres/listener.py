"""A thread with a connection that listens, and turns notifications into hints. It reads no records.

It reconnects by itself. Each new connection counts as a hint, because notifications may have been missed.
"""

from __future__ import annotations

import select
import socket
import threading
from typing import TYPE_CHECKING

import psycopg

from leasehold.stores.postgres.connections import ask, connect
from leasehold.stores.postgres.rows import LOSS

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.stores.postgres.address import PostgresAddress
    from leasehold.stores.postgres.connections import Connection

PATIENCE = 10.0
"""Seconds to wait for the thread to end: while it connects, it cannot be woken."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


class NotificationListener:
    """Listens until it is closed."""

    def __init__(self, address: PostgresAddress, engines: set[str], told: Callable[[], None]) -> None:
        self._address = address
        self._engines = engines
        """Engines of this store: notifications for them are hints."""
        self._told = told
        """Called when there is a hint."""
        self._hinted = False
        self._losses = 0
        """Number of notifications that a lease may be lost."""
        self._closing = threading.Event()
        self._bell, self._ear = socket.socketpair()
        """A socket pair to wake the thread by."""
        self.listening = threading.Event()
        """Set while it is subscribed."""
        self._thread = threading.Thread(target=self._run, name="leasehold-listen", daemon=True)
        self._thread.start()

    def take(self) -> bool:
        """Return True if there was a hint since the last call."""
        hinted, self._hinted = self._hinted, False
        return hinted

    @property
    def losses(self) -> int:
        """Return a number that changes once a lease may be lost; while it cannot listen, with each call."""
        if not self.listening.is_set():
            self._losses += 1
        return self._losses

    def close(self) -> None:
        """Stop listening, and wait until it has stopped. Idempotent."""
        if not self._closing.is_set():
            self._closing.set()
            self._bell.send(b"x")
            self._thread.join(PATIENCE)
            self._bell.close()
            self._ear.close()

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._closing.is_set():
            connection = None
            try:
                connection = connect(self._address.listen)
                pause = FIRST_PAUSE
                self._listen(connection)
            except psycopg.Error:  # waiters are served by polling meanwhile; the next commit reports the failure
                self._closing.wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            finally:
                self.listening.clear()
                if connection is not None:
                    connection.close()

    def _listen(self, connection: Connection) -> None:
        """Listen for notifications, and pass on those that concern this process, until it is closed."""
        ask(connection, f"LISTEN {self._address.channel}")
        self._losses += 1
        self.listening.set()
        self._hint()  # for notifications before it listened
        either = select.poll()
        either.register(connection.fileno(), select.POLLIN)
        either.register(self._ear.fileno(), select.POLLIN)
        while not self._closing.is_set():
            either.poll()
            connection.pgconn.consume_input()
            while (told := connection.pgconn.notifies()) is not None:
                extra = told.extra.decode()
                if extra == LOSS:
                    self._losses += 1
                elif not self._engines.isdisjoint(extra.split(",")):
                    self._hint()

    def _hint(self) -> None:
        self._hinted = True
        self._told()

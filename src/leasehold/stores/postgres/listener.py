"""The one connection that listens: a thread that turns notifications into hints. It reads nothing and decides nothing.

When it is cut it comes back by itself; what it may have missed meanwhile counts as a hint.
"""

from __future__ import annotations

import select
import socket
import threading

import psycopg

from leasehold.stores.postgres.connections import ask, connect
from leasehold.stores.postgres.text_lists import LOSS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.stores.postgres.address import PostgresAddress
    from leasehold.stores.postgres.connections import Connection

PATIENCE = 10.0
"""So long may it take to end, at most: while it connects, it does not hear the bell."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


class NotificationListener:
    """Listens until it is closed."""

    def __init__(self, address: PostgresAddress, engines: set[str], told: Callable[[], None]) -> None:
        self._address = address
        self._engines = engines
        """Whose notifications are ours."""
        self._told = told
        """Called when there is a hint."""
        self._hinted = False
        self._losses = 0
        """How often a lease may have been lost."""
        self._closing = threading.Event()
        self._bell, self._ear = socket.socketpair()
        """Rung to wake it from its sleep."""
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
        """Another number once a lease may have been lost; also at each call while nobody would tell us."""
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
            except psycopg.Error:  # the fallback poll serves waiters meanwhile; the next commit reports the failure
                self._closing.wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            finally:
                self.listening.clear()
                if connection is not None:
                    connection.close()

    def _listen(self, connection: Connection) -> None:
        ask(connection, f"LISTEN {self._address.channel}")
        self._losses += 1
        self.listening.set()
        self._hint()  # whatever was told before we listened
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

"""A thread that watches for other servers' commits. They are hints: without a watch, everything counts as changed."""

from __future__ import annotations

import http.client
import threading
import time
from base64 import b64decode
from typing import TYPE_CHECKING

from leasehold.errors import LeaseholdError
from leasehold.stores.etcd.gateway import shut_down

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.stores.etcd.gateway import Gateway

PAUSE = 0.2
PATIENCE = 5.0
STEP = 0.05


class Watcher:
    """A watch on one key."""

    def __init__(self, gateway: Gateway, key: str, own: str, tell: Callable[[], None]) -> None:
        self._gateway = gateway
        self._key = key
        self._own = f'"by":"{own}"'.encode()
        """Contained in values that this store wrote itself; those are no news."""
        self._tell = tell
        self._has_news = True
        self._heard = 0
        """Number of changes by others that were noticed."""
        self._is_cut_off = True
        self._is_closed = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._thread = threading.Thread(target=self._listen, name="etcd watch", daemon=True)
        self._thread.start()

    def take(self) -> bool:
        """Return True if another store may have changed something since the last call of `take`."""
        if not self._has_news:
            return self._is_cut_off
        self._has_news = False  # before the caller reads: a change from here on is news again
        return True

    @property
    def news(self) -> int:
        """A number that differs once another store may have changed something; reading it does not affect `take`."""
        if self._is_cut_off:
            self._heard += 1
        return self._heard

    def _listen(self) -> None:
        while not self._is_closed.is_set():
            try:
                self._hear()
            except (OSError, http.client.HTTPException, ValueError, LeaseholdError):
                self._is_cut_off = True  # `take` reports it; the loop tries again
            self._is_closed.wait(PAUSE)

    def _hear(self) -> None:
        turn = self._gateway.turn
        self._connection = self._gateway.connect()
        try:
            asked = {"create_request": {"key": self._key, "progress_notify": True}}
            for told in self._gateway.stream("/v3/watch", asked, self._connection, turn):
                result = told.get("result", {})
                is_cut_off = "error" in told or bool(result.get("canceled"))
                if self._is_cut_off and not is_cut_off:
                    self._has_news = True  # changes from before the watch began are not reported
                    self._heard += 1
                self._is_cut_off = is_cut_off
                if any(self._own not in b64decode(event["kv"].get("value", "")) for event in result.get("events", ())):
                    self._has_news = True
                    self._heard += 1
                    self._tell()
        finally:
            self._is_cut_off = True
            self._gateway.drop(self._connection)

    def move(self) -> None:
        """End the watch; the thread opens another one at the current member."""
        connection = self._connection
        if connection is not None:
            shut_down(connection)

    def close(self) -> None:
        """Stop the thread. A thread that is still opening its connection is stopped once the connection is open."""
        self._is_closed.set()
        end = time.monotonic() + PATIENCE
        while self._thread.is_alive() and time.monotonic() < end:
            self.move()
            self._thread.join(STEP)

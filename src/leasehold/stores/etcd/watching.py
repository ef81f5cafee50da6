"""A thread that watches for other servers' commits. They are hints: without a watch, everything counts as changed."""

from __future__ import annotations

import http.client
import threading
import time
from base64 import b64decode
from contextlib import suppress
from typing import TYPE_CHECKING

from leasehold.errors import LeaseholdError
from leasehold.stores.etcd.gateway import shut_down, text64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from leasehold.stores.etcd.gateway import Gateway

PAUSE = 0.2
PATIENCE = 5.0
STEP = 0.05


class KeyNews:
    """News of one key."""

    def __init__(self) -> None:
        self.tell: Callable[[], None] | None = None
        """Called by the watching thread at each change by another store."""
        self._has_news = True
        self._heard = 0
        """Number of changes by others that were noticed."""
        self.is_cut_off = True

    def take(self) -> bool:
        """Return True if another store may have changed something since the last call of `take`."""
        if not self._has_news:
            return self.is_cut_off
        self._has_news = False  # before the caller reads: a change from here on is news again
        return True

    @property
    def number(self) -> int:
        """A number that differs once another store may have changed something; reading it does not affect `take`."""
        if self.is_cut_off:
            self._heard += 1
        return self._heard

    def note(self) -> None:
        """Note that another store may have changed something."""
        self._has_news = True
        self._heard += 1

    def connect(self) -> None:
        """Note that the key is watched: changes from before are not reported."""
        if self.is_cut_off:
            self.note()
        self.is_cut_off = False


class Watcher:
    """A watch on some keys, over one connection."""

    def __init__(self, gateway: Gateway, keys: Sequence[str], own: str) -> None:
        self._gateway = gateway
        self._own = f'"by":"{own}"'.encode()
        """Contained in values that this process wrote itself; those are no news."""
        self.news = {key: KeyNews() for key in keys}
        self._by_text = {text64(key): news for key, news in self.news.items()}
        self._is_closed = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._thread = threading.Thread(target=self._listen, name="etcd watch", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while not self._is_closed.is_set():
            # After a failure `take` reports that we are cut off, and the loop tries again.
            with suppress(OSError, http.client.HTTPException, ValueError, LeaseholdError):
                self._hear()
            self._is_closed.wait(PAUSE)

    def _hear(self) -> None:
        turn = self._gateway.turn
        self._connection = self._gateway.connect()
        try:
            asked = [{"create_request": {"key": key, "progress_notify": True}} for key in self._by_text]
            for told in self._gateway.stream("/v3/watch", asked, self._connection, turn):
                self._process(told)
        finally:
            for news in self.news.values():
                news.is_cut_off = True
            self._gateway.drop(self._connection)

    def _process(self, told: dict[str, Any]) -> None:
        result = told.get("result", {})
        if "error" in told or result.get("canceled"):
            raise ValueError(f"etcd ended the watch: {told}")
        if result.get("created"):  # etcd numbers the watches from 0, in the order in which they were asked for
            [*self._by_text.values()][int(result.get("watch_id", 0))].connect()
        for event in result.get("events", ()):
            if self._own not in b64decode(event["kv"].get("value", "")):
                news = self._by_text[event["kv"]["key"]]
                news.note()
                if news.tell is not None:
                    news.tell()

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

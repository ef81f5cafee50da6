"""A thread that hears of changes: only ever a hint. While it does not hear, everything counts as changed."""

from __future__ import annotations

import http.client
import threading
from base64 import b64decode

from leasehold.errors import LeaseholdError
from leasehold.stores.etcd.gateway import hang_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.stores.etcd.gateway import Gateway

PAUSE = 0.2
PATIENCE = 5.0


class Watcher:
    """Listens to one key."""

    def __init__(self, gateway: Gateway, key: str, own: str, tell: Callable[[], None]) -> None:
        self._gateway = gateway
        self._key = key
        self._own = f'"by":"{own}"'.encode()
        """In what we wrote ourselves, which is no news."""
        self._tell = tell
        self._has_news = True
        self._heard = 0
        """How often there were news."""
        self._is_deaf = True
        self._is_closed = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._thread = threading.Thread(target=self._listen, name="etcd watch", daemon=True)
        self._thread.start()

    def take(self) -> bool:
        """Whether somebody else may have changed something since the last call."""
        if not self._has_news:
            return self._is_deaf
        self._has_news = False  # before anybody looks: what comes from here on is news again
        return True

    @property
    def news(self) -> int:
        """Another number once somebody else may have changed something; it takes nothing away from `take`."""
        if self._is_deaf:
            self._heard += 1
        return self._heard

    def _listen(self) -> None:
        while not self._is_closed.is_set():
            try:
                self._hear()
            except (OSError, http.client.HTTPException, ValueError, LeaseholdError):
                self._is_deaf = True  # whoever asks is told so by `take`; it is tried again below
            self._is_closed.wait(PAUSE)

    def _hear(self) -> None:
        turn = self._gateway.turn
        self._connection = self._gateway.connect()
        try:
            asked = {"create_request": {"key": self._key, "progress_notify": True}}
            for told in self._gateway.stream("/v3/watch", asked, self._connection, turn):
                result = told.get("result", {})
                is_deaf = "error" in told or bool(result.get("canceled"))
                if self._is_deaf and not is_deaf:
                    self._has_news = True  # nobody tells us what came before this
                    self._heard += 1
                self._is_deaf = is_deaf
                if any(self._own not in b64decode(event["kv"].get("value", "")) for event in result.get("events", ())):
                    self._has_news = True
                    self._heard += 1
                    self._tell()
        finally:
            self._is_deaf = True
            self._gateway.drop(self._connection)

    def move(self) -> None:
        """The member that we listen to does not answer any more: listen to another one."""
        connection = self._connection
        if connection is not None:
            hang_up(connection)

    def close(self) -> None:
        """Stop listening."""
        self._is_closed.set()
        self.move()
        self._thread.join(PATIENCE)

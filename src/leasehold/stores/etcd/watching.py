"""A thread that hears of changes: only ever a hint. While it does not hear, everything counts as changed."""

from __future__ import annotations

import http.client
import threading
from collections import deque

from leasehold.errors import LeaseholdError
from leasehold.stores.etcd.gateway import hang_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.stores.etcd.gateway import Gateway

MOST = 10_000
PAUSE = 0.2
PATIENCE = 5.0


class Watcher:
    """Listens to one key."""

    def __init__(self, gateway: Gateway, key: str) -> None:
        self._gateway = gateway
        self._key = key
        self._own: set[int] = set()
        """Revisions of our own commits, which are no news."""
        self._heard: deque[int] = deque([0], maxlen=MOST)
        self._is_deaf = True
        self._is_closed = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._thread = threading.Thread(target=self._listen, name="etcd watch", daemon=True)
        self._thread.start()

    def ours(self, revision: int) -> None:
        """This was our own doing."""
        self._own.add(revision)

    def take(self) -> bool:
        """Whether somebody else may have changed something since the last call."""
        news = self._is_deaf
        while self._heard:
            revision = self._heard.popleft()
            news = news or revision not in self._own
            self._own.discard(revision)
        if len(self._own) > MOST:
            self._own.clear()  # what was never heard of: at worst, one is looked at for nothing
        return news

    def _listen(self) -> None:
        while not self._is_closed.is_set():
            try:
                self._hear()
            except (OSError, http.client.HTTPException, ValueError, LeaseholdError):
                self._is_deaf = True  # whoever asks is told so by `take`; it is tried again below
            self._is_closed.wait(PAUSE)

    def _hear(self) -> None:
        self._connection = self._gateway.connect(timeout=None)
        try:
            asked = {"create_request": {"key": self._key, "progress_notify": True}}
            for told in self._gateway.stream("/v3/watch", asked, self._connection):
                result = told.get("result", {})
                self._is_deaf = "error" in told or bool(result.get("canceled"))
                self._heard.extend(int(event["kv"]["mod_revision"]) for event in result.get("events", []))
        finally:
            self._is_deaf = True
            self._gateway.drop(self._connection)

    def close(self) -> None:
        """Stop listening."""
        self._is_closed.set()
        connection = self._connection
        if connection is not None:
            hang_up(connection)
        self._thread.join(PATIENCE)

"""Losses that a server reports: one stream of events for all leases of a client, from any server that answers."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from leasehold.client import forking
from leasehold.client.deciding import NoAnswer, NotSent, told
from leasehold.client.encoding import HttpRequest
from leasehold.client.framing import Reader
from leasehold.client.messages import render
from leasehold.client.sync import SyncConnection
from leasehold.client.unexpected import NoServer, explained
from leasehold.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from leasehold.client.messages import ServerAddress
    from leasehold.domain.leases import Lease

HOLDERS_MOST = 64
"""Most holders to name; with more, the stream covers the whole space."""
CHECKED_MOST = 1_000
"""Most leases for the server to check when a stream opens; the others are renewed."""
ANSWER_WITHIN = 10.0
SILENT_MOST = 40.0
"""Seconds of silence after which the connection counts as dead: the server sends something every 15 s."""


class StreamLosses:
    """One stream, opened again whenever it ends or does not cover all holders."""

    def __init__(self, bases: tuple[ServerAddress, ...]) -> None:
        self._bases = bases
        self._server = 0
        self._stream: LossFeed | None = None
        self._spaces: set[str] = set()
        self._holders: set[str] = set()
        """The holders of all leases ever held here: a stream that covers too many is cheaper than another one."""
        self._leases: Mapping[str, Lease] | None = None
        forking.note(self)

    def forget_connections(self) -> None:
        """Close the parent's stream in this forked child."""
        self.close()

    def look(self, leases: Mapping[str, Lease], seconds: float) -> Collection[str]:
        """Return the ids that the server reports within so many seconds."""
        is_covered = leases is self._leases or self._covers(leases)
        self._leases = leases
        if self._stream is None or not is_covered:
            return self._open(leases)
        try:
            lost = self._stream.receive(seconds)
        except OSError:
            self._server += 1
            self.close()
            raise
        return [str(each.get("lease") or each.get("session")) for each in lost]

    def close(self) -> None:
        """Close the connection."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _covers(self, leases: Mapping[str, Lease]) -> bool:
        """Return True if the stream covers all of these; add them to what the next one covers."""
        before = self._asked_for()
        self._spaces.update(lease.space for lease in leases.values())
        self._holders.update(lease.holder for lease in leases.values())
        return self._asked_for() == before

    def _asked_for(self) -> dict[str, Any]:
        """Return the space and the holders that the stream covers."""
        asked: dict[str, Any] = {}
        if len(self._spaces) == 1:
            asked["space"] = next(iter(self._spaces))  # several are asked for by an admin, who sees all of them
        if len(self._holders) <= HOLDERS_MOST:
            asked["holders"] = sorted(self._holders)
        return asked

    def _open(self, leases: Mapping[str, Lease]) -> Collection[str]:
        """Open a stream, which first reports what is lost already; return the leases beyond its limit."""
        self.close()
        held = list(leases)
        asked = {**self._asked_for(), "leases": held[:CHECKED_MOST]}
        base = self._bases[self._server % len(self._bases)]
        try:
            self._stream = LossFeed(base, HttpRequest("POST", "/v1/losses", asked))
        except (OSError, Unreachable):
            self._server += 1
            raise
        return held[CHECKED_MOST:]


class LossFeed:
    """One endless answer."""

    def __init__(self, base: ServerAddress, request: HttpRequest) -> None:
        try:
            self._connection = SyncConnection(base)
        except OSError as error:
            raise NotSent(told(base.first, error)) from error
        self._reader = Reader()
        self._has_ended = False
        self._text = b""
        self._heard_at = time.monotonic()
        try:
            self._begin(base, request)
        except BaseException as error:
            self._connection.disconnect()
            if isinstance(error, OSError):
                raise NoAnswer(told(base.first, error)) from error
            raise

    def _begin(self, base: ServerAddress, request: HttpRequest) -> None:
        self._connection.send(render(request, base), ANSWER_WITHIN)
        while (head := self._reader.head) is None:
            data = self._connection.receive(ANSWER_WITHIN)
            if data is None:
                raise TimeoutError("the server did not answer in time")
            self._take(data)
        if head.status != 200 or head.kind != "text/event-stream" or head.coding:
            raise explained(NoServer(head.status, "its answer is not a stream of events"), base)

    def _take(self, data: bytes) -> None:
        self._has_ended = self._reader.feed(data) is not None
        self._text += self._reader.drain()

    def receive(self, seconds: float) -> list[dict[str, Any]]:
        """Return the events that arrive within so many seconds. Raises `OSError` once the stream has ended."""
        if b"\n\n" not in self._text:
            if self._has_ended:
                raise ConnectionResetError("the server has ended the stream")
            data = self._connection.receive(seconds)
            now = time.monotonic()
            if data is None:
                if now - self._heard_at > SILENT_MOST:
                    raise TimeoutError("the server has not said anything for too long")
                return []
            self._heard_at = now
            self._take(data)
        *whole, self._text = self._text.split(b"\n\n")
        lines = [line for event in whole for line in event.split(b"\n")]
        try:
            found = [json.loads(line.removeprefix(b"data:")) for line in lines if line.startswith(b"data:")]
        except ValueError:
            raise OSError("what the server streams is not JSON") from None
        return [each for each in found if isinstance(each, dict)]

    def close(self) -> None:
        """Close the connection."""
        self._connection.disconnect()

"""Limit the open connections of a server, so that the process never runs out of files. It asks nobody who is who.

Without a free file a process can neither open its store nor accept a connection. Idle connections are closed for new
ones: those first on which no request has arrived. A client that lost an idle connection connects again.
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from leasehold.server.http.protocol import Protocol

RESERVED = 256
"""Files that are left for the store, logs, webhooks, and connections that are accepted before others are closed."""
FEWEST = 64
SHARE = 32
"""One in so many connections is closed at once: a flood must not have all of them looked at for each newcomer."""


class ConnectionLimit:
    """At most so many connections at the same time."""

    def __init__(self, most: int | None = None) -> None:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = max(FEWEST, files - RESERVED) if most is None else most
        self._closing: set[Protocol] = set()
        """Connections that were closed for others, and still count among those that are open."""

    def admit(self, newcomer: Protocol, connections: Collection[Protocol]) -> bool:
        """Close idle connections if there are too many; False if a request is under way on each of them."""
        excess = len(connections) - len(self._closing) - self._most
        if excess <= 0:
            return True
        idle = [each for each in connections if each is not newcomer and each.is_idle]
        idle.sort(key=lambda each: each.last_used)
        for each in idle[: excess + self._most // SHARE]:
            self._closing.add(each)
            each.transport.close()
        return len(idle) >= excess

    def forget(self, connection: Protocol) -> None:
        """Stop counting a connection that has ended."""
        self._closing.discard(connection)

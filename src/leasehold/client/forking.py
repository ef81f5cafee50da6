"""Keep a forked child off its parent's connections, where each would receive the other's answers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from typing import Protocol

    class Connected(Protocol):
        """A client that keeps connections."""

        def forget_connections(self) -> None:
            """Forget the parent's connections without closing them for the parent."""


_clients: WeakSet[Connected] = WeakSet()


def note(client: Connected) -> None:
    """Call this client in each forked child, before anything else happens there."""
    _clients.add(client)


def _forked() -> None:
    for client in tuple(_clients):
        client.forget_connections()


os.register_at_fork(after_in_child=_forked)

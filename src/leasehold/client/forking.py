"""What a forked child must not share with its parent: connections, on which each would be told the other's answers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from typing import Protocol

    class Connected(Protocol):
        """Whoever keeps connections."""

        def forget_connections(self) -> None:
            """They are the parent's: leave them as they are."""


_clients: WeakSet[Connected] = WeakSet()


def note(client: Connected) -> None:
    """It is told after a fork, in the child, before anything else happens there."""
    _clients.add(client)


def _forked() -> None:
    for client in tuple(_clients):
        client.forget_connections()


os.register_at_fork(after_in_child=_forked)

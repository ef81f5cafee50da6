"""Follow the owner of a lane, which an answer names, among the servers that the client was configured with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from leasehold.client.messages import address_of
from leasehold.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.client.messages import ServerAddress

FOLLOW_EVERY = 5.0
"""Seconds between two switches: a client of several spaces, with several owners, does not reconnect each time."""


class Owners:
    """The servers of a client, by their addresses."""

    def __init__(self, bases: Sequence[ServerAddress]) -> None:
        self._places = {_place(base): number for number, base in enumerate(bases)} if len(bases) > 1 else {}
        self._next_at = -math.inf

    def place(self, owner: str, now: float) -> int | None:
        """Return the index of the server to ask from now on; None to stay, as for a server that is not configured."""
        if now < self._next_at or not self._places:
            return None
        try:
            found = self._places.get(_place(address_of(owner)))
        except InvalidInput:
            return None
        if found is not None:
            self._next_at = now + FOLLOW_EVERY
        return found


def _place(base: ServerAddress) -> tuple[bool, str, int]:
    return base.tls, base.host.lower(), base.port

"""A wait is a question that goes on: whether whoever asks may still ask is looked at every second (docs/adr/0038)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from leasehold.errors import LeaseholdError
from leasehold.server.access.keys import FRESH
from leasehold.server.access.principals import OPEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.server.access.keys import Door

log = logging.getLogger("leasehold.server")


class RevocationWatch:
    """Has those looked at who wait, each time that the keys were, for as long as there are any."""

    def __init__(self, door: Door, is_waited: Callable[[], object], look: Callable[[], None]) -> None:
        self._door = door
        self._is_waited = is_waited
        self._look = look
        self._watching: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Somebody waits."""
        if self._watching is None or self._watching.done():
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while self._is_waited():
            await asyncio.sleep(FRESH)
            try:
                await self._door.refresh()
            except LeaseholdError as error:
                log.warning("nobody could tell whose keys were revoked: %s", error)
                continue
            self._look()

    def close(self) -> None:
        """The server goes away."""
        if self._watching is not None:
            self._watching.cancel()


def why_not(who: str) -> str:
    """Why whoever was let in under this id (`Principal.id`) no longer is."""
    return "this server asks for a key now" if who == OPEN.id else "the key that this was asked with was revoked"

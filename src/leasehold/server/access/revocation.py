"""Ends waits of callers whose key was revoked: a wait may outlive the check of the key (docs/adr/0038)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from leasehold.errors import LeaseholdError
from leasehold.server.access.authentication import FRESH
from leasehold.server.access.principals import OPEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.server.access.authentication import Authenticator

log = logging.getLogger("leasehold.server")


class RevocationWatch:
    """Reads the keys every second while callers wait, and has the waits checked after each read."""

    def __init__(self, authenticator: Authenticator, waits: Callable[[], object], check: Callable[[], None]) -> None:
        self._authenticator = authenticator
        self._waits = waits
        self._check = check
        self._watching: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Watch until nothing waits any more."""
        if self._watching is None or self._watching.done():
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while self._waits():
            await asyncio.sleep(FRESH)
            try:
                await self._authenticator.refresh()
            except LeaseholdError as error:
                log.warning("the keys cannot be read, so waits go on whose key may be revoked: %s", error)
                continue
            self._check()

    def close(self) -> None:
        """Stop watching, because the server stops."""
        if self._watching is not None:
            self._watching.cancel()


def why_not(who: str) -> str:
    """Return why the caller with this id (`Principal.id`) is not admitted any more."""
    return "this server needs a key now" if who == OPEN.id else "the key of this request was revoked"

"""Leases that an agent lost: noticed within a second, and reported with its next answer."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from leasehold.domain.outcomes import Lost
from leasehold.errors import LeaseholdError
from leasehold.locks.holding.losses import watch_of
from leasehold.wire.sentences import told_lost

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.domain.outcomes import Granted
    from leasehold.locks.aio import AsyncLocks

log = logging.getLogger("leasehold.mcp")


class LostLeases:
    """Watches the leases of all agents of one process over one stream."""

    def __init__(self, locks: AsyncLocks) -> None:
        self._locks = locks
        self._loop = asyncio.get_running_loop()
        self._held: dict[str, tuple[Granted, Callable[[], None]]] = {}
        self._checks: set[asyncio.Task[None]] = set()
        self._news: dict[str, dict[str, str]] = {}
        """The losses to report, by the name of the agent and the id of the lease."""

    def follow(self, granted: Granted) -> None:
        """Watch a lease: a hint of its loss has it checked. One that was extended keeps its place in the stream."""
        lease = granted.lease
        if lease.id in self._held:
            self._held[lease.id] = (granted, self._held[lease.id][1])
            return
        hint = partial(self._hint, lease.id)
        self._held[lease.id] = (granted, hint)
        watch_of(self._locks).add(lease, hint)

    def forget(self, lease: str) -> None:
        """Stop watching a lease that its agent released or knows to be lost."""
        for told in self._news.values():
            told.pop(lease, None)
        known = self._held.pop(lease, None)
        if known is not None:
            watch_of(self._locks).remove(lease, known[1])

    def news(self, agent: str) -> list[str]:
        """Return what this agent has lost since its last answer; each loss once."""
        return list(self._news.pop(agent, {}).values())

    def _hint(self, lease: str) -> None:
        """Check a lease soon. Called by the watching thread."""
        self._loop.call_soon_threadsafe(self._doubt, lease)

    def _doubt(self, lease: str) -> None:
        if lease in self._held:
            task = self._loop.create_task(self._check(lease))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)

    async def _check(self, lease: str) -> None:
        """Ask the store whether the lease is lost, as a hint may be wrong."""
        granted, _ = self._held[lease]
        try:
            outcome = await self._locks.renew(lease, granted.token)
        except LeaseholdError as error:
            log.warning("cannot tell whether a lease is lost: %s", error)  # the next heartbeat finds out
            return
        if isinstance(outcome, Lost) and lease in self._held:
            self.forget(lease)
            name = " + ".join(granted.lease.resources)
            self._news.setdefault(granted.lease.holder, {})[lease] = told_lost(name, outcome.reason)

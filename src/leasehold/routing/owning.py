"""Which server owns each lane of a store. That is a hint, which makes a lane fast: the store's compare makes it right.

Each server has a session in the control lane, a shared lease on `servers`, and a lease `lane:N` for each lane that it
owns, whose context says how to reach it. One heartbeat renews all of them (docs/adr/0047).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from typing import TYPE_CHECKING, Any

from leasehold.domain.nouns import Noun
from leasehold.errors import LeaseholdError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from leasehold.domain.leases import Inspection, Lease
    from leasehold.locks.aio import AsyncLocks

log = logging.getLogger("leasehold.server")
EVERYBODY = "servers"
"""Each server has a shared lease on this."""
PROTOCOL = 1
"""The version of what servers send to each other: a request is handed on only to a server of the same version."""
HEARTBEAT = 0.4
"""Seconds between two heartbeats of a server. Each writes to the control lane once, and reads it."""
LIFE = 1.2
"""Seconds after which the leases of a silent server end: before the presence of its waiters, which may then move."""
MOVES_WITHIN = 5.0
"""Seconds that a server waits in the queue for a lane."""
FAR_APART = 2
"""A lane moves to a server if its owner has so many more: then neither has more than the other, or just one."""


class Peer(Noun):
    """Another server of the same store."""

    address: str
    engine: str
    """Drawn when the server starts: after a restart, a server counts as another one."""
    protocol: int
    """The version of what it sends to other servers."""


class Ownership:
    """The lanes of this server and of its peers, as of the last heartbeat."""

    def __init__(
        self,
        locks: AsyncLocks,
        renew: Callable[[str], Awaitable[object]],
        look: Callable[[Sequence[str]], Awaitable[Sequence[Inspection]]],
        lanes: Sequence[int],
        address: str,
    ) -> None:
        self._locks = locks
        """The locks of the control lane, in the space of the servers."""
        self._renew = renew
        """Renews a session without an event in the history; the answer is true if it lives."""
        self._look = look
        self._lanes = {name_of(lane): lane for lane in lanes}
        self.me = Peer(address, os.urandom(8).hex(), PROTOCOL)
        self.owners: dict[int, Peer] = {}
        """The owner of each lane that has one."""
        self._leases: dict[int, str] = {}
        """The lease of each lane that is ours."""
        self.count = 0
        """The number of live servers."""
        self._secret: str | None = None
        self._wanted: list[int] = []
        """A lane of ours that another server waits for."""
        self._moving: asyncio.Task[object] | None = None
        self.changed: Callable[[], None] = lambda: None
        """Called after each heartbeat."""

    def is_owner(self, lane: int) -> bool:
        """True if this server owns the lane."""
        return self.owners.get(lane) == self.me

    async def run(self) -> None:
        """Send heartbeats, learn the owners, and spread the lanes over the servers, until this task is cancelled."""
        while True:
            try:
                await self.beat()
            except LeaseholdError as error:
                self.owners, self._leases = {}, {}
                log.warning("the owners of lanes are not known: each server decides itself", extra={"why": str(error)})
            self.changed()
            await asyncio.sleep(HEARTBEAT)

    async def beat(self) -> None:
        """Renew everything in one write, then learn who owns what, and take a lane if that is our turn."""
        if self._secret is None or not await self._renew(self._secret):
            await self._start()
        self._learn(await self._look([EVERYBODY, *self._lanes]))
        await self._take_free()
        self._begin_move()

    async def _start(self) -> None:
        self._leases = {}
        started: Any = await self._locks.start_session(ttl=LIFE, name="a server")
        if not started:
            raise LeaseholdError(f"no session for this server: {started}")
        self._secret = started.secret
        await self._acquire(EVERYBODY, mode="shared")

    async def _acquire(self, name: str, **terms: Any) -> Any:  # noqa: ANN401 (see `AsyncLocks.acquire`)
        return await self._locks.acquire(name, ttl=LIFE, session=self._secret, context={**self.me._asdict()}, **terms)

    def _learn(self, seen: Sequence[Inspection]) -> None:
        servers, *lanes = seen
        self.count = len({peer for lease in servers.leases if (peer := peer_in(lease)) is not None})
        owners: dict[int, Peer] = {}
        self._leases = {}
        wanted = []
        for each in lanes:
            for lease in each.leases:
                lane, peer = self._lanes[each.resource], peer_in(lease)
                if peer is not None:
                    owners[lane] = peer
                if peer == self.me:
                    self._leases[lane] = lease.id
                    wanted += [lane] * bool(each.waiting)
        self._log_changes(owners)
        self.owners = owners
        self._wanted = wanted[:1]

    def _log_changes(self, owners: dict[int, Peer]) -> None:
        for lane in sorted({*owners, *self.owners}):
            before, after = self.owners.get(lane), owners.get(lane)
            if before != after:
                told = {"owner": after and after.address, "before": before and before.address}
                log.info("the owner of a lane has changed", extra={"lane": lane, **told})

    # ------------------------------------------------------------------------------ spreading the lanes

    def _share(self) -> int:
        """Return how many lanes a server has at most, if they are spread evenly."""
        return -(-len(self._lanes) // max(1, self.count))

    async def _take_free(self) -> None:
        """Take free lanes up to our share, and give up one that another server waits for."""
        for lane in self._wanted:
            await self._locks.release(self._leases.pop(lane), session=self._secret)
            del self.owners[lane]
        for name, lane in self._lanes.items():
            if lane not in self.owners and len(self._leases) < self._share() and lane not in self._wanted:
                self._note(lane, await self._acquire(name))

    def _note(self, lane: int, outcome: Any) -> None:  # noqa: ANN401 (see `AsyncLocks.acquire`)
        if outcome:
            self._leases[lane] = outcome.lease.id
            self.owners[lane] = self.me

    def _begin_move(self) -> None:
        """Queue for a lane of a server that has more, one at a time; leave the queue once none has."""
        lane = self._to_move()
        if self._moving is not None and not self._moving.done():
            if lane is None:
                self._moving.cancel()
        elif lane is not None:
            self._moving = asyncio.get_running_loop().create_task(self._move(lane))

    def _to_move(self) -> int | None:
        owned: dict[Peer, list[int]] = {}
        for lane, peer in self.owners.items():
            if peer != self.me:
                owned.setdefault(peer, []).append(lane)
        most = max(owned.values(), key=len, default=[])
        return most[-1] if len(most) - len(self._leases) >= FAR_APART else None

    async def _move(self, lane: int) -> None:
        try:
            self._note(lane, await self._acquire(name_of(lane), wait=MOVES_WITHIN))
        except LeaseholdError as error:
            log.info("a lane did not move", extra={"lane": lane, "why": str(error)})

    async def close(self) -> None:
        """End our session: other servers take our lanes."""
        if self._moving is not None:
            self._moving.cancel()
        secret, self._secret = self._secret, None
        self.owners = {}
        if secret is None:
            return
        try:
            await self._locks.end_session(secret)
        except LeaseholdError as error:
            log.info("the session of this server ends by itself", extra={"why": str(error)})


def name_of(lane: int) -> str:
    """Return the name of the lease on a lane."""
    return f"lane:{lane}"


def peer_in(lease: Lease) -> Peer | None:
    """Return the server that has this lease; None if its context is not one of a server."""
    try:
        told = json.loads(lease.context or "")
        address, engine, protocol = told["address"], told["engine"], told["protocol"]
    except (ValueError, TypeError, KeyError):
        return None
    if not (isinstance(address, str) and isinstance(engine, str) and isinstance(protocol, int)):
        return None
    return Peer(address, engine, protocol)

"""Waits that take several calls: a wait outlives the call that began it, until its agent has been away too long.

One call waits for less than a minute, since clients time out after that. The ticket in its answer is the `request_id`
of the acquire, so that a call to another server finds the same place in the queue.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from leasehold.domain.outcomes import Granted
from leasehold.mcp.callers import ask

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasehold.mcp.callers import Party

    Report = Callable[[float], Awaitable[None]]
    Key = tuple[str, str, str]

KEEP = 60.0
"""Seconds for which a place in the queue is kept between two calls."""
REPORT_EVERY = 1.0
WHOLE = 24 * 3600
"""A wait is bounded by its calls, not by its deadline."""


class Claims:
    """The calls that may still receive one grant: once all have disconnected and none received it, it is released."""

    def __init__(self, count: int = 0) -> None:
        self.count = count
        self.is_heard = False

    def leave(self) -> bool:
        """Note that a call disconnected before it received the grant. Return True if no call will receive it."""
        self.count -= 1
        return self.count == 0 and not self.is_heard


class TicketedWait:
    """One waiting acquire, and the calls with its ticket that await it."""

    def __init__(self, party: Party, asked: dict[str, Any]) -> None:
        self.claims = Claims()
        self._party = party
        self.task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(ask(party, "acquire", asked))
        self.keeping: asyncio.TimerHandle | None = None
        self.is_stopped = False
        """True if it ends with the last call that awaits it."""

    async def attend(self, party: Party, seconds: float, report: Report) -> bool:
        """Return True if the acquire is answered within this time, and this caller is still connected.

        The call that began the wait may be over by now: over HTTP, each request is a party of its own.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        gone = loop.create_task(party.gone.wait())
        try:
            while (left := begun + seconds - loop.time()) > 0:
                some = min(left, REPORT_EVERY)
                await asyncio.wait((self.task, gone), timeout=some, return_when=asyncio.FIRST_COMPLETED)
                if self.task.done() or gone.done():
                    break
                await report(loop.time() - begun)
        finally:
            gone.cancel()
        return self.task.done() and not party.gone.is_set()

    async def give_up(self) -> None:
        """Leave the queue, and release what was granted meanwhile."""
        self.task.cancel()
        try:
            outcome = await self.task
        except (asyncio.CancelledError, Exception):  # noqa: BLE001 (no call awaits it any more)
            return
        if isinstance(outcome, Granted):
            await ask(self._party, "release", unused(outcome.lease.id, outcome.token))


def unused(lease: str, token: str) -> dict[str, Any]:
    """Return the arguments that release a lease which no client received."""
    return {"lease": lease, "token": token, "status": "cancelled", "error": "its client went away", "session": None}


class TicketedWaits:
    """All waits of one process."""

    def __init__(self, keep: float = KEEP) -> None:
        self._keep = keep
        self._open: dict[Key, TicketedWait] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def wait(
        self, party: Party, asked: dict[str, Any], ticket: str | None, seconds: float, report: Report
    ) -> tuple[str, Any, Claims]:
        """Wait for an acquire for some seconds: begin it, or go on with the one of this caller's `ticket`.

        Return the ticket, the answer, and the claims of all calls on a grant. Without an answer in time (None), the
        acquire keeps its place in the queue for a while, for the next call with the ticket.
        """
        ticket = ticket or f"t{os.urandom(16).hex()}"
        key = (party.id, asked["holder"], ticket)
        wait = self._open.get(key)
        if wait is None:
            wait = self._open[key] = TicketedWait(party, {**asked, "wait": WHOLE, "request_id": ticket})
        if wait.keeping is not None:
            wait.keeping.cancel()
        wait.claims.count += 1
        try:
            is_answered = await wait.attend(party, seconds, report)
        except BaseException:
            if wait.claims.leave():
                await asyncio.shield(self._end(key, wait))
            raise
        if is_answered:
            self._forget(key, wait)
            return ticket, wait.task.result(), wait.claims
        if wait.claims.leave():
            if party.gone.is_set() or wait.is_stopped:
                await self._end(key, wait)
            else:
                loop = asyncio.get_running_loop()
                wait.keeping = loop.call_later(self._keep, self._give_up, key, wait)
        return ticket, None, wait.claims

    def _forget(self, key: Key, wait: TicketedWait) -> None:
        """Forget a wait, unless its ticket is in use for another one by now."""
        if self._open.get(key) is wait:
            del self._open[key]

    def _end(self, key: Key, wait: TicketedWait) -> asyncio.Task[None]:
        """Give up a wait in a task of its own, so that the cancellation of its caller does not stop it."""
        self._forget(key, wait)
        task = asyncio.get_running_loop().create_task(wait.give_up())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    def _give_up(self, key: Key, wait: TicketedWait) -> None:
        if self._open.get(key) is wait:
            _ = self._end(key, wait)

    async def stop(self, party: Party, holder: str, ticket: str) -> None:
        """Give up a wait, once no call awaits it any more."""
        key = (party.id, holder, ticket)
        wait = self._open.get(key)
        if wait is not None:
            wait.is_stopped = True
            if wait.claims.count == 0:
                await self._end(key, wait)

    async def close(self) -> None:
        """Give up every wait that no call awaits; the others end with their calls."""
        for key, wait in tuple(self._open.items()):
            if wait.claims.count == 0:
                self._give_up(key, wait)
        while self._ending:
            await asyncio.wait(tuple(self._ending))

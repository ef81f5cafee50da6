"""Waiting in pieces: a wait outlives the call that began it for as long as its agent may be expected back.

One call waits for less than a minute, since clients give up on longer ones. The ticket that it answers with is the
`request_id` of the acquire, so that a call at another server finds the same place in the queue.
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
"""How long a place is kept for an agent between two calls, in seconds."""
REPORT_EVERY = 1.0
WHOLE = 24 * 3600
"""A wait is bounded by its calls, not by its deadline."""


class Claims:
    """Those who may still hear of one grant: it is given back once all of them are gone and nobody has heard it."""

    def __init__(self, count: int = 0) -> None:
        self.count = count
        self.is_heard = False

    def leave(self) -> bool:
        """One is gone who has not heard it. Whether nobody will."""
        self.count -= 1
        return self.count == 0 and not self.is_heard


class Pursuit:
    """One acquire that waits, and whoever attends to it: several, if their calls have the same ticket."""

    def __init__(self, party: Party, asked: dict[str, Any]) -> None:
        self.claims = Claims()
        self._party = party
        self.task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(ask(party, "acquire", asked))
        self.keeping: asyncio.TimerHandle | None = None

    async def attend(self, party: Party, seconds: float, report: Report) -> bool:
        """Whether there is an answer within this time; False as well if this caller is not there to hear it.

        Whoever began the wait may be gone by now: over HTTP, each request is a party of its own.
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
        """Out of the queue; what was granted meanwhile is given back."""
        self.task.cancel()
        try:
            outcome = await self.task
        except (asyncio.CancelledError, Exception):  # noqa: BLE001 (nobody wants to know any more)
            return
        if isinstance(outcome, Granted):
            await ask(self._party, "release", given_back(outcome.lease.id, outcome.token))


def given_back(lease: str, token: str) -> dict[str, Any]:
    """The release of a lease that nobody will ever use."""
    return {
        "lease": lease,
        "token": token,
        "status": "cancelled",
        "error": "its client went away",
        "session": None,
    }


class Pursuits:
    """Every wait of one process."""

    def __init__(self, keep: float = KEEP) -> None:
        self._keep = keep
        self._open: dict[Key, Pursuit] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def wait(
        self, party: Party, asked: dict[str, Any], ticket: str | None, seconds: float, report: Report
    ) -> tuple[str, Any, Claims]:
        """The ticket, and the answer if there is one by then, with those who may hear of it."""
        ticket = ticket or f"t{os.urandom(16).hex()}"
        key = (party.id, asked["holder"], ticket)
        pursuit = self._open.get(key)
        if pursuit is None:
            pursuit = self._open[key] = Pursuit(party, {**asked, "wait": WHOLE, "request_id": ticket})
        if pursuit.keeping is not None:
            pursuit.keeping.cancel()
        pursuit.claims.count += 1
        try:
            is_answered = await pursuit.attend(party, seconds, report)
        except BaseException:
            if pursuit.claims.leave():
                await asyncio.shield(self._end(key, pursuit))
            raise
        if is_answered:
            self._forget(key, pursuit)
            return ticket, pursuit.task.result(), pursuit.claims
        if pursuit.claims.leave():
            if party.gone.is_set():
                await self._end(key, pursuit)
            else:
                loop = asyncio.get_running_loop()
                pursuit.keeping = loop.call_later(self._keep, self._give_up, key, pursuit)
        return ticket, None, pursuit.claims

    def _forget(self, key: Key, pursuit: Pursuit) -> None:
        """The ticket may have been used again meanwhile, for another."""
        if self._open.get(key) is pursuit:
            del self._open[key]

    def _end(self, key: Key, pursuit: Pursuit) -> asyncio.Task[None]:
        """Give it up in a task of its own, which goes on although whoever asked for it is cancelled."""
        self._forget(key, pursuit)
        task = asyncio.get_running_loop().create_task(pursuit.give_up())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    def _give_up(self, key: Key, pursuit: Pursuit) -> None:
        if self._open.get(key) is pursuit:
            _ = self._end(key, pursuit)

    async def close(self) -> None:
        """Give up every wait that is left; whoever is still attending to one ends it by going."""
        for key, pursuit in tuple(self._open.items()):
            if pursuit.claims.count == 0:
                self._give_up(key, pursuit)
        while self._ending:
            await asyncio.wait(tuple(self._ending))

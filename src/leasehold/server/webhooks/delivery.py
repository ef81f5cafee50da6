"""Delivery: through the history, one event after the other, for each hook by itself; again until it is taken.

The queue is the history: nothing is kept in memory but a page of it, and a restart goes on where the last one was. So
an event is told at least once, in order, as long as the history has it; a hook that is more than `BACKLOG` events
behind loses the oldest, and that is logged and counted.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from leasehold.errors import LeaseholdError
from leasehold.server.webhooks.addresses import Forbidden
from leasehold.server.webhooks.posting import post

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.domain.events import Event
    from leasehold.locks.hosted import Served
    from leasehold.server.webhooks.positions import Places
    from leasehold.server.webhooks.settings import Hook

    Count = Callable[[str, str], None]

log = logging.getLogger("leasehold.webhooks")
BACKLOG = 10_000
LOOK_EVERY = 1.0
"""Other processes on the same store do not tell us what they do: look this often, in seconds."""
REMEMBER_EVERY = 100
"""After so many events in a row the place is written down; it always is when there is nothing more to send."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 300.0
REFUSALS_MOST = 5
"""A receiver that answers, but never with a yes, is asked so often; then the event is given up."""
_COME_BACK = (408, 425, 429)


class Delivery:
    """One hook, on its way through the history."""

    def __init__(self, hook: Hook, served: Served, places: Places, count: Count) -> None:
        self._hook = hook
        self._served = served
        self._places = places
        self._count = count
        self._query = served.watched(hook.space, None, None, hook.kinds)
        self._news = asyncio.Event()
        self._at = 0
        self._written = -1
        self._is_held_up = False

    def observe(self, events: Sequence[Event]) -> None:
        """Something was committed in this process."""
        if any(event.kind in self._hook.kinds for event in events):
            self._news.set()

    async def begin(self) -> None:
        """Find out where to go on; from here on nothing is missed."""
        loop = asyncio.get_running_loop()
        newest = await loop.run_in_executor(None, self._served.newest)
        known = self._places.get(self._hook.id)
        if known is not None and known > newest:
            log.warning("the history is older than what was sent: going on with what happens next", extra=self._told())
        self._at = newest if known is None else min(known, newest)
        await self._remember()

    async def run(self) -> None:
        """Tell what happens, until this task is cancelled."""
        while True:
            self._news.clear()
            try:
                await self._catch_up()
            except LeaseholdError as error:
                self._hold_up(error)
            else:
                self._go_on()
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await self._news.wait()
            except TimeoutError:
                continue

    def _hold_up(self, error: LeaseholdError) -> None:
        """The store is away: to say so once is enough, however often it is looked for."""
        if not self._is_held_up:
            log.warning("webhooks wait: %s", error, extra=self._told())
        self._is_held_up = True

    def _go_on(self) -> None:
        if self._is_held_up:
            log.info("webhooks go on", extra=self._told())
        self._is_held_up = False

    async def _catch_up(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            found, has_gap = await loop.run_in_executor(None, self._served.after, self._at, self._query, BACKLOG)
            if has_gap:
                log.error("webhooks are too far behind: older events are not sent", extra=self._told())
                self._count(self._hook.shown, "skipped")
            if not found:
                return
            for number, event in enumerate(found, 1):
                await self._deliver(event)
                self._at = event.seq
                if number % REMEMBER_EVERY == 0:
                    await self._remember()
            await self._remember()

    async def _deliver(self, event: Event) -> None:
        """Until it is taken, or given up because the receiver keeps saying no."""
        pause, refusals = FIRST_PAUSE, 0
        while True:
            asked_for: float | None = None
            try:
                reply = await post(self._hook, event)
            except (OSError, TimeoutError, Forbidden) as error:
                what = str(error) or type(error).__name__
            else:
                if 200 <= reply.status < 300:
                    self._count(self._hook.shown, "delivered")
                    return
                what, asked_for = f"it answered {reply.status}", reply.retry_after
                refusals += 0 if reply.status >= 500 or reply.status in _COME_BACK else 1
            if refusals >= REFUSALS_MOST:
                log.error("a webhook was given up: %s", what, extra=self._told())
                self._count(self._hook.shown, "given_up")
                return
            log.warning("a webhook will be sent again: %s", what, extra=self._told())
            self._count(self._hook.shown, "retried")
            await asyncio.sleep(self._wait(pause, asked_for))
            pause = min(LONGEST_PAUSE, 2 * pause)

    @staticmethod
    def _wait(pause: float, asked_for: float | None) -> float:
        jittered = random.uniform(pause / 2, pause)  # noqa: S311 (only to spread the load)
        return jittered if asked_for is None else min(LONGEST_PAUSE, max(jittered, asked_for))

    async def _remember(self) -> None:
        if self._at != self._written:
            await asyncio.get_running_loop().run_in_executor(None, self._places.set, self._hook.id, self._at)
            self._written = self._at

    async def close(self) -> None:
        """Remember where it got. What was being sent is sent again by the next."""
        await self._remember()

    def _told(self) -> dict[str, str]:
        return {"url": self._hook.shown}


class Webhooks:
    """All hooks of one server."""

    def __init__(self, served: Served, hooks: Sequence[Hook], places: Places, count: Count) -> None:
        if hooks and not served.has_history:
            raise LeaseholdError("webhooks are told from the history, and this store keeps none")
        self._deliveries = [Delivery(hook, served, places, count) for hook in hooks]
        self._tasks: list[asyncio.Task[None]] = []
        served.watchers += [delivery.observe for delivery in self._deliveries]

    async def begin(self) -> None:
        """From now on, everybody is told."""
        for delivery in self._deliveries:
            await delivery.begin()
            task = asyncio.create_task(delivery.run())
            task.add_done_callback(_ended)
            self._tasks.append(task)

    async def close(self) -> None:
        """Stop, and remember how far each got."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for delivery in self._deliveries if self._tasks else ():
            await delivery.close()


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        log.error("webhooks have broken, and stay so until a restart", exc_info=task.exception())

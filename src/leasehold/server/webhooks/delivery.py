"""Delivery of webhooks: each hook goes through the history, and sends each event until the receiver accepts it.

The queue is the history: only a page of it is kept in memory, and a restart resumes where the last process stopped. So
an event is delivered at least once, in order, while the history has it. A hook that is more than `BACKLOG` events
behind skips the oldest, which is logged and counted.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import random
import ssl
import time
from functools import cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from leasehold.errors import LeaseholdError
from leasehold.routing.cursors import moved
from leasehold.server.api import problems
from leasehold.server.webhooks.addresses import Forbidden, resolve
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.domain.events import Event
    from leasehold.locks.hosted import Served
    from leasehold.routing.cursors import Cursor
    from leasehold.server.webhooks.positions import Positions
    from leasehold.server.webhooks.settings import Hook

    Count = Callable[[str, str], None]
    Backlog = Callable[[str, int], None]


log = logging.getLogger("leasehold.webhooks")
BACKLOG = 10_000
POLL_EVERY = 1.0
"""How often to read what other processes on the same store did, of which this one is not notified, in seconds."""
SAVE_EVERY = 100
"""The position is saved after so many events in a row, and whenever there is nothing more to send."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 300.0
REFUSALS_MOST = 5
"""An event that the receiver refuses so often is dropped."""
_TEMPORARY = (408, 425, 429)
"""Statuses below 500 that are no refusal."""


class Delivery:
    """One hook and its position in the history."""

    def __init__(self, hook: Hook, served: Served, positions: Positions, count: Count, backlog: Backlog) -> None:
        self._hook = hook
        self._served = served
        self._positions = positions
        self._count = count
        self._backlog = backlog
        self._query = served.watched(hook.space, None, None, hook.kinds)
        self._news = asyncio.Event()
        self._at: Cursor = ()
        self._written: Cursor = ()
        self._is_paused = False

    def observe(self, _events: Sequence[Event]) -> None:
        """Wake up for events of the hook's kinds that were committed in this process."""
        self._news.set()

    async def begin(self) -> None:
        """Find the position to resume from: no event after it is missed."""
        loop = asyncio.get_running_loop()
        newest = await loop.run_in_executor(None, self._served.history.end)
        known = self._positions.get(self._hook.id)
        if known is not None and len(known) != len(newest):
            log.warning("the number of lanes has changed: resuming with the next event", extra=self._shown())
            known = None
        places = [*zip(known or newest, newest, strict=True)]
        if any(sent > last for sent, last in places):
            log.warning(
                "the history is older than what was sent: resuming with the next event",
                extra=self._shown(),
            )
        self._at = tuple(map(min, places))
        await self._save()

    async def run(self) -> None:
        """Deliver events until this task is cancelled."""
        while True:
            self._news.clear()
            try:
                await self._catch_up()
            except LeaseholdError as error:
                if not self._is_paused:  # log it once, however often it is tried
                    log.warning("webhooks are paused, the store cannot be read: %s", error, extra=self._shown())
                self._is_paused = True
            else:
                if self._is_paused:
                    log.info("webhooks are resumed", extra=self._shown())
                self._is_paused = False
            try:
                async with asyncio.timeout(POLL_EVERY):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _catch_up(self) -> None:
        """Deliver every event since the saved position, and save the position along the way."""
        loop = asyncio.get_running_loop()
        while True:
            found, has_gap = await loop.run_in_executor(
                None, self._served.history.after, self._at, self._query, BACKLOG
            )
            if has_gap:
                log.error("webhooks are too far behind: older events are skipped", extra=self._shown())
                self._count(self._hook.shown, "skipped")
            if not found:
                self._backlog(self._hook.shown, 0)
                return
            for number, event in enumerate(found, 1):
                self._backlog(self._hook.shown, len(found) - number + 1)
                await self._deliver(event)
                self._at = moved(self._at, event.seq)
                if number % SAVE_EVERY == 0:
                    await self._save()
            await self._save()

    async def _deliver(self, event: Event) -> None:
        """Send an event until the receiver accepts it or has refused it too often."""
        pause, refusals = FIRST_PAUSE, 0
        while True:
            asked_for: float | None = None
            try:
                reply = await post(self._hook, event)
            except (OSError, TimeoutError, Forbidden) as error:
                why = str(error) or type(error).__name__
            else:
                if 200 <= reply.status < 300:
                    self._count(self._hook.shown, "delivered")
                    return
                why, asked_for = f"it answered {reply.status}", reply.retry_after
                refusals += 0 if reply.status >= 500 or reply.status in _TEMPORARY else 1
            if refusals >= REFUSALS_MOST:
                log.error("an event was dropped: %s", why, extra=self._shown())
                self._count(self._hook.shown, "given_up")
                return
            log.warning("an event will be sent again: %s", why, extra=self._shown())
            self._count(self._hook.shown, "retried")
            await asyncio.sleep(self._wait(pause, asked_for))
            pause = min(LONGEST_PAUSE, 2 * pause)

    @staticmethod
    def _wait(pause: float, asked_for: float | None) -> float:
        jittered = random.uniform(pause / 2, pause)  # noqa: S311 (only to spread the load)
        return jittered if asked_for is None else min(LONGEST_PAUSE, max(jittered, asked_for))

    async def _save(self) -> None:
        if self._at != self._written:
            await asyncio.get_running_loop().run_in_executor(None, self._positions.set, self._hook.id, self._at)
            self._written = self._at

    async def close(self) -> None:
        """Save the position. The next process sends again what was being sent."""
        await self._save()

    def _shown(self) -> dict[str, str]:
        return {"url": self._hook.shown}


class Webhooks:
    """All hooks of one server."""

    def __init__(
        self,
        served: Served,
        hooks: Sequence[Hook],
        positions: Positions,
        count: Count,
        backlog: Backlog = lambda _hook, _length: None,
    ) -> None:
        if hooks and not served.has_history:
            raise LeaseholdError("webhooks are sent from the history, and this store keeps none")
        self._deliveries = [Delivery(hook, served, positions, count, backlog) for hook in hooks]
        self._tasks: list[asyncio.Task[None]] = []
        for hook, delivery in zip(hooks, self._deliveries, strict=True):
            served.watch(delivery.observe, frozenset(hook.kinds))

    async def begin(self) -> None:
        """Deliver from now on."""
        for delivery in self._deliveries:
            await delivery.begin()
            task = asyncio.create_task(delivery.run())
            task.add_done_callback(_ended)
            self._tasks.append(task)

    async def close(self) -> None:
        """Stop, and save the position of each hook."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for delivery in self._deliveries if self._tasks else ():
            await delivery.close()


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        log.error("webhooks have failed, and are not sent until a restart", exc_info=task.exception())


SECONDS = 10.0
"""How long a receiver may take to answer. It should accept the event first and process it later."""
HEAD_MOST = 16 * 1024


class HookReply(NamedTuple):
    """The answer of a receiver."""

    status: int
    retry_after: float | None


def body_of(event: Event) -> bytes:
    """Return the body: the event as the history has it."""
    told = wire.event(event)
    return problems.encode({"type": event.kind, "timestamp": told["at"], "data": told})


def signature(secret: bytes, id_: str, timestamp: int, body: bytes) -> str:
    """Return the signature of the id, the time and the body, so that none of them can be replaced."""
    signed = b"%b.%d.%b" % (id_.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()


async def post(hook: Hook, event: Event) -> HookReply:
    """Send a signed event to a checked address. Raises `OSError` or `TimeoutError` if it does not answer.

    Redirects are not followed; only the status is read.
    """
    async with asyncio.timeout(SECONDS):
        reader, writer = await _connect(hook)
        try:
            writer.write(_request(hook, event))
            return _understood(await reader.readuntil(b"\r\n\r\n"))
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            raise ConnectionError("the receiver does not speak HTTP") from error
        finally:
            writer.transport.abort()


async def _connect(hook: Hook) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first of the checked addresses that accepts a connection."""
    parts = urlsplit(hook.url)
    host, is_tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    failure: OSError = ConnectionError(f"{host} has no address")
    for address in await resolve(host, port, allow_private=hook.allow_private):
        try:
            if is_tls:
                return await asyncio.open_connection(address, port, limit=HEAD_MOST, ssl=_trust(), server_hostname=host)
            return await asyncio.open_connection(address, port, limit=HEAD_MOST)
        except OSError as error:
            failure = error
    raise failure


@cache
def _trust() -> ssl.SSLContext:
    return ssl.create_default_context()


def _request(hook: Hook, event: Event) -> bytes:
    parts = urlsplit(hook.url)
    body, now, id_ = body_of(event), int(time.time()), id_of(event)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = (
        f"POST {target} HTTP/1.1",
        f"Host: {parts.netloc}",
        "User-Agent: leasehold",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"Webhook-Id: {id_}",
        f"Webhook-Timestamp: {now}",
        f"Webhook-Signature: {signature(hook.secret, id_, now, body)}",
        "Connection: close",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def id_of(event: Event) -> str:
    """Return the id of a delivery, the same each time that this event is sent, so that receivers can drop repeats."""
    return f"event-{event.seq}"


def _understood(head: bytes) -> HookReply:
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if not words[0].startswith("HTTP/1.") or len(words) < 2 or not words[1].isdigit():
        raise ValueError("no status")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    after = fields.get("retry-after", "")
    return HookReply(int(words[1]), float(after) if after.isascii() and after.isdigit() and len(after) < 9 else None)

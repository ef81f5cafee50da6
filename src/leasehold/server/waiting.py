"""Acquire over HTTP: a request waits in one piece, or in several with a ticket that keeps its place.

Whoever disconnects leaves the queue at once, and a grant that cannot be delivered is given back. When a server
keeps a request no longer, the place in the queue lives on for a while, for the same request_id to come back to.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from leasehold import wire
from leasehold.model import Blocker, Granted, Queue, Refused
from leasehold.server import problems
from leasehold.server.problems import Problem, ok

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from starlette.responses import Response

    from leasehold.model import Inspection, Outcome
    from leasehold.served import Asking, Served

    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

SLICE = 50.0
"""How long one request is kept open, in seconds."""
GRACE = 10.0
"""How long a place in the queue is kept for a client between two requests, in seconds."""
HOLDERS_TOLD = 8


class Waits:
    """The acquires of one server."""

    def __init__(self, served: Served, *, at_most: float = SLICE, grace: float = GRACE) -> None:
        self._served = served
        self._slice = at_most
        self._grace = grace
        self._parked: dict[tuple[str, ...], tuple[Asking, asyncio.TimerHandle]] = {}
        """Requests whose client has been sent away with a ticket and is expected back."""
        self._open: set[asyncio.Future[None]] = set()
        self._is_closing = False

    def close(self) -> None:
        """The server goes away: everybody who waits is told so, now."""
        self._is_closing = True
        for over in self._open:
            _finish(over)
        for asking, timer in self._parked.values():
            timer.cancel()
            asking.abandon()
        self._parked.clear()

    async def acquire(self, asked: dict[str, Any], receive: Receive) -> Response | None:
        """The answer; None if nobody is there any more to hear it."""
        is_long = self._slice < asked["wait"] <= 24 * 3600
        if is_long:
            asked = {**asked, "request_id": asked["request_id"] or f"t{os.urandom(16).hex()}"}
        wait = self._slice + 2 * self._grace if is_long else asked["wait"]
        asking = self._served.begin("acquire", {**asked, "wait": wait})
        if isinstance(asking, Refused):
            raise problems.of_refusal(asking)
        self._unpark(asked)
        try:
            is_there = await self._listen(asking, receive, waits=asked["wait"] > 0)
        except BaseException:
            asking.abandon()
            raise
        if not is_there:
            asking.abandon()
            return None
        if asking.answer.done():
            return answered(asking.answer.result())
        if self._is_closing:
            asking.abandon()
            raise Problem("closed", "the server is going away; ask again, with the same request_id if you gave one")
        return await self._send_away(asked, asking)

    async def _listen(self, asking: Asking, receive: Receive, *, waits: bool) -> bool:
        """Until there is an answer, the time is up or the server closes; False if the client is gone."""
        if not waits:
            await asyncio.wait((asking.answer,))
            return not await _is_gone(receive)
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        gone = loop.create_task(_gone(receive))
        timer = loop.call_later(self._slice, _finish, over)
        for each in (asking.answer, gone):
            each.add_done_callback(lambda _: _finish(over))
        self._open.add(over)
        if self._is_closing:
            _finish(over)
        try:
            await over
            return not gone.done()
        finally:
            timer.cancel()
            gone.cancel()
            self._open.discard(over)

    def _unpark(self, asked: dict[str, Any]) -> None:
        """The client is back: the new request has joined the old one's place, which nobody has to keep any more."""
        parked = self._parked.pop(_name(asked), None) if asked["request_id"] else None
        if parked is not None:
            parked[1].cancel()
            parked[0].abandon()

    async def _send_away(self, asked: dict[str, Any], asking: Asking) -> Response:
        """Not yet: the place is kept for a while."""
        name = _name(asked)
        timer = asyncio.get_running_loop().call_later(self._grace, self._give_up, name, asking)
        self._parked[name] = (asking, timer)
        queue, holders = await self._place(asked, asking.waiter)
        ticket = {
            "ticket": asked["request_id"],
            "queue": {"length": queue.length, "position": queue.position},
            "holders": [wire.blocker(each) for each in holders],
            "retry_after_seconds": 0,
        }
        return ok(ticket, 202)

    def _give_up(self, name: tuple[str, ...], asking: Asking) -> None:
        known = self._parked.get(name)
        if known is not None and known[0] is asking:
            del self._parked[name]
        asking.abandon()

    async def _place(self, asked: dict[str, Any], waiter: str | None) -> tuple[Queue, list[Blocker]]:
        """Where a waiter stands, and who is before it: in the worst of its queues."""
        names = asked["resources"] if isinstance(asked["resources"], list) else [asked["resources"]]
        queue, holders = Queue(0, 0), list[Blocker]()
        for name in names[:HOLDERS_TOLD]:
            seen = await self._served.locks.inspect(name, space=asked["space"])
            if isinstance(seen, Refused):
                continue
            place = next((each.position for each in seen.waiting if each.id == waiter), 0)
            queue = max(queue, Queue(len(seen.waiting), place), key=lambda each: each.position)
            holders += _holders(seen)
        return queue, holders[:HOLDERS_TOLD]


def answered(outcome: Outcome) -> Response:
    """A grant, or the problem that tells why not."""
    if isinstance(outcome, Granted):
        return ok(wire.answer(outcome))
    raise problems.of_refusal(outcome)


def _holders(seen: Inspection) -> list[Blocker]:
    return [
        Blocker(
            lease.resources[0],
            lease.holder,
            "held",
            lease.mode,
            lease.name,
            lease.reason,
            lease.acquired_at,
            lease.expires_at,
            lease.fence,
            lease.id,
            seen.now,
        )
        for lease in seen.leases
    ] + list(seen.closed)


def _name(asked: dict[str, Any]) -> tuple[str, ...]:
    return asked["space"], asked["session"] or "", asked["holder"], asked["request_id"]


def _finish(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


async def _gone(receive: Receive) -> None:
    """Returns when the client is gone; its body has been read before."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _is_gone(receive: Receive) -> bool:
    """Whether the client is gone by now."""
    looking = asyncio.ensure_future(_gone(receive))
    await asyncio.sleep(0)
    if looking.done():
        return True
    looking.cancel()
    return False

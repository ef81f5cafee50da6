"""Acquire over HTTP: a request waits in one piece, or in several with a ticket that keeps its place.

Whoever disconnects leaves the queue at once, and a grant that cannot be delivered is given back. When a server
keeps a request no longer, the place in the queue lives on for a while, for the same request_id to come back to.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any

from leasehold import wire
from leasehold.errors import LeaseholdError
from leasehold.model import Blocker, Granted, Queue, Refused
from leasehold.pending import Pending
from leasehold.server import problems
from leasehold.server.problems import Problem, ok

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from starlette.responses import Response

    from leasehold.model import Inspection, Outcome
    from leasehold.served import Asking, Served

    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Answer = Pending | Response | BaseException
    """What came of it, when that was asked; or what a server says to those whom it lets wait no longer."""
    Tell = Callable[[Answer], None]

log = logging.getLogger("leasehold.server")
SLICE = 50.0
"""How long one request is kept open, in seconds."""
GRACE = 10.0
"""How long a place in the queue is kept for a client between two requests, in seconds."""
LONGEST = 24 * 3600
"""Longer waits are refused by the checks that every surface has."""
HOLDERS_TOLD = 8
GIVEN = "leasehold.given"
"""What a connection lets its requests do: say that a grant is about to be told, in case that it is not heard."""


class Wait:
    """One acquire that waits. It has no task of its own, as there may be ten thousand of them."""

    __slots__ = ("_asked", "_asking", "_tell", "_timer", "_waits")

    def __init__(self, waits: Waits, asked: dict[str, Any], asking: Asking, tell: Tell) -> None:
        self._waits = waits
        self._asked = asked
        self._asking = asking
        self._tell = tell
        """Called once, with the answer; not if its client leaves before."""
        self._timer = asyncio.get_running_loop().call_later(waits.at_most, self._time_up)
        waits.open.add(self)
        asking.hear(self._answered)

    def _end(self) -> bool:
        """Whether it was still open: only whoever ends it answers."""
        was_open = self in self._waits.open
        self._waits.open.discard(self)
        self._timer.cancel()
        return was_open

    def leave(self) -> None:
        """The client is gone: out of the queue, and what it was given is given back."""
        self._end()
        self._asking.abandon()

    def take_back(self) -> None:
        """The answer was not heard, as far as anybody can tell: what it was given is given back."""
        self.leave()

    def close(self) -> None:
        """The server goes away."""
        if self._end():
            self._asking.abandon()
            self._tell(closed())

    def _answered(self, pending: Pending) -> None:
        """Called by the engine, which nothing that happens here may break."""
        try:
            if self._end():
                self._tell(pending)
        except Exception:
            log.exception("an answer could not be given")

    def _time_up(self) -> None:
        if self._end():
            self._waits.send_away(self._asked, self._asking, self._tell)


class Waits:
    """The acquires of one server."""

    def __init__(self, served: Served, *, at_most: float = SLICE, grace: float = GRACE) -> None:
        self._served = served
        self.at_most = at_most
        self._grace = grace
        self._parked: dict[tuple[str, ...], tuple[Asking, asyncio.TimerHandle]] = {}
        """Requests whose client has been sent away with a ticket and is expected back."""
        self.open: set[Wait] = set()
        self._sending: set[asyncio.Task[None]] = set()
        self._is_closing = False

    def close(self) -> None:
        """The server goes away: everybody who waits is told so, now."""
        self._is_closing = True
        for wait in tuple(self.open):
            wait.close()
        for asking, timer in self._parked.values():
            timer.cancel()
            asking.abandon()
        self._parked.clear()

    def begin(self, asked: dict[str, Any], tell: Tell) -> Wait | Problem:
        """Ask, and have the answer told; a request that waits too long for one connection gets a ticket."""
        if self._is_closing:
            return closed()
        is_long = self.at_most < asked["wait"] <= LONGEST
        if is_long:
            asked = {**asked, "request_id": asked["request_id"] or f"t{os.urandom(16).hex()}"}
        wait = self.at_most + 2 * self._grace if is_long else asked["wait"]
        asking = self._served.begin("acquire", {**asked, "wait": wait})
        if isinstance(asking, Refused):
            return problems.of_refusal(asking)
        self._unpark(asked)
        return Wait(self, asked, asking, tell)

    async def acquire(
        self, asked: dict[str, Any], receive: Receive, given: Callable[[Wait], None] | None = None
    ) -> Response | None:
        """The answer; None if nobody is there any more to hear it. `given` is told before a grant is handed over."""
        loop = asyncio.get_running_loop()
        told: asyncio.Future[Answer] = loop.create_future()
        wait = self.begin(asked, lambda answer: _hand_over(told, answer))
        if isinstance(wait, Problem):
            raise wait
        left = loop.create_task(gone(receive))
        try:
            await asyncio.wait((told, left), return_when=asyncio.FIRST_COMPLETED)
            if left.done():
                wait.leave()
                return None
        except BaseException:
            wait.leave()
            raise
        finally:
            left.cancel()
        answer = told.result()
        if isinstance(answer, Pending):
            answer = answer.error or answered(answer.result())
        if isinstance(answer, BaseException):
            raise answer
        if given is not None:
            given(wait)
        return answer

    def _unpark(self, asked: dict[str, Any]) -> None:
        """The client is back: the new request has joined the old one's place, which nobody has to keep any more."""
        parked = self._parked.pop(_name(asked), None) if asked["request_id"] else None
        if parked is not None:
            parked[1].cancel()
            parked[0].abandon()

    def send_away(self, asked: dict[str, Any], asking: Asking, tell: Tell) -> None:
        """Not yet: the place is kept for a while."""
        name = _name(asked)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._grace, self._give_up, name, asking)
        self._parked[name] = (asking, timer)
        task = loop.create_task(self._tell_ticket(asked, asking, tell))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _tell_ticket(self, asked: dict[str, Any], asking: Asking, tell: Tell) -> None:
        try:
            queue, holders = await self._place(asked, asking.waiter)
        except LeaseholdError as error:
            tell(error)
            return
        ticket = {
            "ticket": asked["request_id"],
            "queue": {"length": queue.length, "position": queue.position},
            "holders": [wire.blocker(each) for each in holders],
            "retry_after_seconds": 0,
        }
        tell(ok(ticket, 202))

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


def answered(outcome: Outcome) -> Response | Problem:
    """A grant, or the problem that tells why not."""
    return ok(wire.answer(outcome)) if isinstance(outcome, Granted) else problems.of_refusal(outcome)


def closed() -> Problem:
    """The server goes away."""
    return Problem("closed", "the server is going away; ask again, with the same request_id if you gave one")


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


def _hand_over(told: asyncio.Future[Answer], answer: Answer) -> None:
    if not told.done():
        told.set_result(answer)


async def gone(receive: Receive) -> None:
    """Returns when the client is gone; its body has been read before."""
    while (await receive())["type"] != "http.disconnect":
        pass

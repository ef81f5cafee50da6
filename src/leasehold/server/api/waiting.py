"""Acquire over HTTP: a request waits in one piece, or in several with a ticket that keeps its place.

Whoever disconnects leaves the queue at once, and a grant that cannot be delivered is given back. When a server
keeps a request no longer, or goes away itself, the place in the queue lives on for a while, for the same request_id to
come back to. Whose key is revoked waits no longer.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any

from leasehold.domain.leases import Blocker, Queue
from leasehold.domain.outcomes import Granted, Refused
from leasehold.engine.pending import Pending
from leasehold.errors import LeaseholdError
from leasehold.server.access.revocation import RevocationWatch, why_not
from leasehold.server.api import problems
from leasehold.server.api.problems import Problem, ok
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from starlette.responses import Response

    from leasehold.domain.leases import Inspection
    from leasehold.domain.outcomes import Outcome
    from leasehold.locks.hosted import Served
    from leasehold.requests.to_command import Order
    from leasehold.server.access.keys import Door
    from leasehold.server.access.principals import Principal

    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Answer = Pending | Response | BaseException
    """What came of it, when that was asked; or what a server says to those whom it lets wait no longer."""

log = logging.getLogger("leasehold.server")
SLICE = 50.0
"""How long one request is kept open, in seconds."""
GRACE = 10.0
"""How long a place in the queue is kept for a client between two requests, in seconds."""
LONGEST = 24 * 3600
"""Longer waits are refused by the checks that every surface has."""
EXACTLY = 0.001
"""A timer may come so much early, in seconds."""
HOLDERS_TOLD = 8
DRAWN = "drawn"
"""With what was asked: whether the request_id is ours, of which its client has not heard yet."""
GIVEN = "leasehold.given"
"""What a connection lets its requests do: say that a grant is about to be told, in case that it is not heard."""


class Wait(Pending):
    """One acquire that waits. It has neither a task nor a timer of its own, as there may be ten thousand of them."""

    __slots__ = ("_waits", "asked", "is_open", "until", "who")

    def __init__(self, waits: Waits, who: Principal, asked: dict[str, Any], order: Order) -> None:
        super().__init__(order.command, order.secret, self._deliver)
        self._waits = waits
        self.who = who
        self.asked = asked
        self.is_open = True
        """Whether nobody has answered it yet, nor left."""
        self.until = 0.0

    def hear(self, answer: Answer) -> None:
        """Called once, with the answer; not if its client leaves before."""
        raise NotImplementedError

    def end(self) -> bool:
        """Whether it was still open: only whoever ends it answers."""
        was_open, self.is_open = self.is_open, False
        if was_open:
            self._waits.open.pop(self, None)
        return was_open

    def leave(self) -> None:
        """The client is gone: out of the queue, and what it was given is given back."""
        self.end()
        if self.waiter is not None:
            self._waits.unpark(self.who, self.asked)
        self.abandon()

    def take_back(self) -> None:
        """The answer was not heard, as far as anybody can tell: what it was given is given back."""
        self.leave()

    def abandon(self) -> None:
        """Out of the queue, and what was granted is given back; unless the same was asked for again meanwhile."""
        if self.error is None and (self.outcome is None or isinstance(self.outcome, Granted)):
            self._waits.served.abandon(self)

    def close(self) -> None:
        """The server goes away; who can come back with the same request_id keeps its place for a while."""
        if self.end():
            if self.asked["request_id"] and not self.asked.get(DRAWN):
                self.stays = True
            else:
                self.abandon()
            self.hear(closed())

    def dismiss(self) -> None:
        """Whoever asks may not ask any more."""
        if self.end():
            self._waits.unpark(self.who, self.asked)
            self.abandon()
            self.hear(Problem("unauthenticated", why_not(self.who.id)))

    def _deliver(self, _pending: Pending) -> None:
        self._waits.served.deliver(self._answered)

    def _answered(self) -> None:
        """The engine has committed. Nothing that happens here may break it."""
        try:
            if self.end():
                if self.error is None and not isinstance(self.outcome, Refused):  # both say nothing of a place it has
                    self._waits.unpark(self.who, self.asked)
                self.hear(self)
            elif self.stays:  # granted after its client was told to come back: others may have it until then
                self.abandon()
        except Exception:
            log.exception("an answer could not be given")


class Awaited(Wait):
    """One whose answer a task waits for."""

    __slots__ = ("_told",)

    def __init__(
        self, waits: Waits, who: Principal, asked: dict[str, Any], order: Order, told: asyncio.Future[Answer]
    ) -> None:
        super().__init__(waits, who, asked, order)
        self._told: asyncio.Future[Answer] | None = told

    def hear(self, answer: Answer) -> None:
        """Hand it over."""
        told, self._told = self._told, None  # which knows us: kept, both would stay until the collector comes by
        if told is not None and not told.done():
            told.set_result(answer)


class Waits:
    """The acquires of one server."""

    def __init__(self, served: Served, *, at_most: float = SLICE, grace: float = GRACE) -> None:
        self.served = served
        self.at_most = at_most
        self._grace = grace
        self._parked: dict[tuple[str, ...], tuple[Wait, asyncio.TimerHandle]] = {}
        """Requests whose client has been sent away with a ticket and is expected back."""
        self.open: dict[Wait, None] = {}
        """In the order in which they came, and in which their time is up."""
        self._timer: asyncio.TimerHandle | None = None
        """When that of the first is up, or of one that came before it."""
        self._sending: set[asyncio.Task[None]] = set()
        self._watch: RevocationWatch | None = None
        """Who asks while somebody waits whether those may still ask."""
        self._is_closing = False

    def close(self) -> None:
        """The server goes away: everybody who waits is told so, now."""
        self._is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self._watch.close()
        for wait in tuple(self.open):
            wait.close()
        for wait, timer in self._parked.values():
            timer.cancel()
            wait.stays = True
        self._parked.clear()

    def watch(self, door: Door) -> None:
        """Send away whose key is revoked, from now on; they are gone through only if the keys were read anew."""
        seen = door.looks

        def look() -> None:
            nonlocal seen
            if door.looks != seen:
                seen = door.looks
                for wait in [wait for wait in self.open if not door.knows(wait.who.id)]:
                    wait.dismiss()
                for wait in [wait for wait, _ in self._parked.values() if not door.knows(wait.who.id)]:
                    self.unpark(wait.who, wait.asked)

        self._watch = RevocationWatch(door, lambda: self.open or self._parked, look)

    def order(self, who: Principal, asked: dict[str, Any]) -> Order | Problem:
        """What such a request comes to; one that waits too long for one connection will get a ticket."""
        if self._is_closing:
            return closed()
        terms = asked
        if self.at_most < asked["wait"] <= LONGEST:
            is_drawn = not asked["request_id"]
            asked["request_id"] = asked["request_id"] or f"t{os.urandom(16).hex()}"
            terms = {**asked, "wait": self.at_most + 2 * self._grace}
            asked[DRAWN] = is_drawn
        order = self.served.order("acquire", terms, who.authority)
        return problems.of_refusal(order) if isinstance(order, Refused) else order

    def begin(self, wait: Wait) -> None:
        """Ask, and have the answer told; perhaps before this returns."""
        loop = asyncio.get_running_loop()
        wait.until = loop.time() + self.at_most
        self.open[wait] = None
        if self._timer is None:
            self._timer = loop.call_at(wait.until, self._time_up)
        if self._watch is not None:
            self._watch.begin()
        self.served.enter(wait)

    def _time_up(self) -> None:
        """Whoever has waited as long as one connection may is sent away."""
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time() + EXACTLY
        over: list[Wait] = []
        for wait in self.open:
            if wait.until > now:
                self._timer = loop.call_at(wait.until, self._time_up)
                break
            over.append(wait)
        for wait in over:
            if wait.asked["wait"] > self.at_most:
                wait.end()
                self._send_away(wait)
            else:  # the engine is about to tell it that its time is up: it has no ticket to come back with
                del self.open[wait]
                wait.until += self.at_most
                self.open[wait] = None

    async def acquire(
        self, who: Principal, asked: dict[str, Any], receive: Receive, given: Callable[[Wait], None] | None = None
    ) -> Response | None:
        """The answer; None if nobody is there any more to hear it. `given` is told before a grant is handed over."""
        loop = asyncio.get_running_loop()
        order = self.order(who, asked)
        if isinstance(order, Problem):
            raise order
        told: asyncio.Future[Answer] = loop.create_future()
        wait = Awaited(self, who, asked, order, told)
        self.begin(wait)
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

    def unpark(self, who: Principal, asked: dict[str, Any]) -> None:
        """The client was back: the new request had joined the old one's place, which nobody has to keep any more."""
        parked = self._parked.pop(_name(who, asked), None) if asked["request_id"] else None
        if parked is not None:
            parked[1].cancel()
            parked[0].abandon()

    def _send_away(self, wait: Wait) -> None:
        """Not yet: the place is kept for a while."""
        name = _name(wait.who, wait.asked)
        self.unpark(wait.who, wait.asked)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._grace, self._give_up, name, wait)
        self._parked[name] = (wait, timer)
        task = loop.create_task(self._tell_ticket(wait))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _tell_ticket(self, wait: Wait) -> None:
        try:
            queue, holders = await self._place(wait.asked, wait.waiter)
        except LeaseholdError as error:
            wait.hear(error)
            return
        ticket = {
            "ticket": wait.asked["request_id"],
            "queue": {"length": queue.length, "position": queue.position},
            "holders": [wire.blocker(each) for each in holders],
            "retry_after_seconds": 0,
        }
        wait.hear(ok(ticket, 202))

    def _give_up(self, name: tuple[str, ...], wait: Wait) -> None:
        known = self._parked.get(name)
        if known is not None and known[0] is wait:
            del self._parked[name]
        wait.abandon()

    async def _place(self, asked: dict[str, Any], waiter: str | None) -> tuple[Queue, list[Blocker]]:
        """Where a waiter stands, and who is before it: in the worst of its queues."""
        names = asked["resources"] if isinstance(asked["resources"], list) else [asked["resources"]]
        queue, holders = Queue(0, 0), list[Blocker]()
        for name in names[:HOLDERS_TOLD]:
            seen = await self.served.locks.inspect(name, space=asked["space"])
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
            lease.acquired_us,
            lease.expires_us,
            lease.fence,
            lease.id,
            seen.now_us,
        )
        for lease in seen.leases
    ] + list(seen.closed)


def _name(who: Principal, asked: dict[str, Any]) -> tuple[str, ...]:
    """What the request_id belongs to: a session, or a holder of a principal."""
    owner = ("session", asked["session"]) if asked["session"] else (who.principal, asked["holder"])
    return asked["space"], *owner, asked["request_id"]


async def gone(receive: Receive) -> None:
    """Returns when the client is gone; its body has been read before."""
    while (await receive())["type"] != "http.disconnect":
        pass

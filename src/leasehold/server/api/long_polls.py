"""Acquires that wait over HTTP: in one request, or in several with a ticket that keeps the place in the queue.

A client that disconnects leaves the queue at once, and a grant that cannot be delivered is released. When a request has
been open for as long as the server keeps one, or the server stops, the place in the queue is kept for a while; the
client returns to it with the same request_id. A client whose key is revoked stops waiting.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any

from leasehold.domain.leases import Blocker, Queue, as_held
from leasehold.domain.outcomes import Refused
from leasehold.errors import LeaseholdError
from leasehold.server.access.revocation import RevocationWatch, why_not
from leasehold.server.api.problems import HttpAnswer, Problem
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from leasehold.locks.hosted import Served
    from leasehold.server.access.authentication import Authenticator
    from leasehold.server.access.principals import Principal
    from leasehold.server.api.dispatch import Operation

KEEP_OPEN = 50.0
"""How long one request is kept open, in seconds."""
KEEP_PLACE = 10.0
"""How long a place in the queue is kept for a client between two requests, in seconds."""
KEEP_HANDED = 5.0
"""How long a place is kept whose request another server handed on and disconnected, in seconds: it may have died."""
LONGEST = 24 * 3600
"""Longer waits are refused by the checks that every surface has."""
TIMER_TOLERANCE = 0.001
"""A timer may fire so much early, in seconds."""
HOLDERS_SHOWN = 8


class LongPoll:
    """How long one operation may wait."""

    __slots__ = ("is_drawn", "polls", "since", "terms", "until")

    def __init__(self, polls: LongPolls, terms: dict[str, Any]) -> None:
        self.polls = polls
        self.terms = terms
        """The arguments for the engine."""
        self.since = time.monotonic()
        """When the request came."""
        self.until = 0.0
        """Until when its connection is kept open, on the loop's clock."""
        self.is_drawn = False
        """True if the server chose its request_id, which the client does not know yet."""


class LongPolls:
    """The waiting acquires of one server. They share one timer and have no tasks: there may be ten thousand of them."""

    def __init__(self, served: Served, *, at_most: float = KEEP_OPEN, grace: float = KEEP_PLACE) -> None:
        self.served = served
        self._at_most = at_most
        self._grace = grace
        self._parked: dict[tuple[str, ...], tuple[Operation, asyncio.TimerHandle]] = {}
        """Operations whose client was sent away with a ticket and is expected back."""
        self.open: dict[Operation, LongPoll] = {}
        """In the order in which they came, and in which their time is up."""
        self._handed_on: dict[tuple[str, ...], Operation] = {}
        """Open ones that another server has handed on."""
        self._timer: asyncio.TimerHandle | None = None
        """Fires when the time of the first is up, or that of one before it."""
        self._ticketing: set[asyncio.Task[None]] = set()
        self._watch: RevocationWatch | None = None
        self._is_closing = False

    def close(self) -> None:
        """Answer every waiting client that the server stops. One with a request_id keeps its place for a while."""
        self._is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self._watch.close()
        for operation, wait in tuple(self.open.items()):
            if operation.arguments["request_id"] and not wait.is_drawn and operation.pending is not None:
                operation.pending.stays = True
            else:
                operation.withdraw()
            operation.fail(closed())
        for operation, timer in self._parked.values():
            timer.cancel()
            if operation.pending is not None:
                operation.pending.stays = True
        self._parked.clear()

    def watch(self, authenticator: Authenticator) -> None:
        """End the waits of clients whose key is revoked, whenever the keys were read again."""
        reads = authenticator.reads

        def dismiss() -> None:
            nonlocal reads
            if authenticator.reads == reads:
                return
            reads = authenticator.reads
            for operation in [each for each in self.open if not authenticator.knows(each.who.id)]:
                self.forget_place(operation)
                operation.withdraw()
                operation.fail(Problem("unauthenticated", why_not(operation.who.id)))
            for operation in [each for each, _ in self._parked.values() if not authenticator.knows(each.who.id)]:
                self.forget_place(operation)

        self._watch = RevocationWatch(authenticator, lambda: self.open or self._parked, dismiss)

    def limit(self, operation: Operation) -> LongPoll:
        """Return how long this operation may wait. If that is too long for one request, it will get a ticket."""
        if self._is_closing:
            raise closed()
        asked = operation.arguments
        wait = LongPoll(self, asked)
        if self._at_most < asked["wait"] <= LONGEST:
            wait.is_drawn = not asked["request_id"]
            asked["request_id"] = asked["request_id"] or f"t{os.urandom(16).hex()}"
            wait.terms = {**asked, "wait": self._at_most + 2 * self._grace}
        return wait

    def begin(self, operation: Operation, wait: LongPoll) -> None:
        """Limit the time of this operation, which is about to be submitted."""
        loop = asyncio.get_running_loop()
        wait.until = loop.time() + self._at_most
        self.open[operation] = wait
        if operation.is_handed_on and operation.arguments["request_id"]:
            self._handed_on[_name(operation)] = operation
        if self._timer is None:
            self._timer = loop.call_at(wait.until, self._time_up)
        if self._watch is not None:
            self._watch.begin()

    def over(self, operation: Operation) -> None:
        """Note that an operation is answered or cancelled."""
        self.open.pop(operation, None)
        if operation.is_handed_on and operation.arguments["request_id"]:
            name = _name(operation)
            if self._handed_on.get(name) is operation:
                del self._handed_on[name]

    def keep_place(self, operation: Operation) -> None:
        """Keep the place of an operation for a while, for its client to come back to by way of another server."""
        if not operation.arguments["request_id"]:
            operation.withdraw()
            return
        self.forget_place(operation)
        name, loop = _name(operation), asyncio.get_running_loop()
        self._parked[name] = (operation, loop.call_later(KEEP_HANDED, self._give_up, name, operation))

    def leave(self, who: Principal, asked: dict[str, Any]) -> bool:
        """Withdraw a request whose client has disconnected from the server that handed it on. True if it was here."""
        name = _named(who, asked)
        operation = self._handed_on.get(name)
        if operation is not None:
            operation.end()
            operation.withdraw()
        parked = self._parked.pop(name, None)
        if parked is not None:
            parked[1].cancel()
            parked[0].withdraw()
        return operation is not None or parked is not None

    def _time_up(self) -> None:
        """Send away every client whose request has been open for as long as one may be."""
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time() + TIMER_TOLERANCE
        over: list[tuple[Operation, LongPoll]] = []
        for operation, wait in self.open.items():
            if wait.until > now:
                self._timer = loop.call_at(wait.until, self._time_up)
                break
            over.append((operation, wait))
        for operation, wait in over:
            if operation.arguments["wait"] > self._at_most:
                operation.end()
                self._send_away(operation)
            else:  # the engine is about to answer that its time is up: it has no ticket to come back with
                del self.open[operation]
                wait.until += self._at_most
                self.open[operation] = wait

    def forget_place(self, operation: Operation) -> None:
        """Stop keeping a place: its client is back, or will not be. A new request has joined it, if there is one."""
        asked = operation.arguments
        parked = self._parked.pop(_name(operation), None) if asked["request_id"] else None
        if parked is not None:
            parked[1].cancel()
            parked[0].withdraw()

    def _send_away(self, operation: Operation) -> None:
        """Answer with a ticket, and keep the place in the queue for a while."""
        self.forget_place(operation)
        name, loop = _name(operation), asyncio.get_running_loop()
        self._parked[name] = (operation, loop.call_later(self._grace, self._give_up, name, operation))
        task = loop.create_task(self._send_ticket(operation))
        self._ticketing.add(task)
        task.add_done_callback(self._ticketing.discard)

    async def _send_ticket(self, operation: Operation) -> None:
        asked, pending = operation.arguments, operation.pending
        try:
            queue, holders = await self._place(asked, pending.waiter if pending is not None else None)
        except LeaseholdError as error:
            operation.answer = error
        else:
            ticket = {
                "ticket": asked["request_id"],
                "queue": {"length": queue.length, "position": queue.position},
                "holders": [wire.blocker(each) for each in holders],
                "retry_after_seconds": 0,
            }
            operation.answer = HttpAnswer(202, ticket)
        operation.tell()

    def _give_up(self, name: tuple[str, ...], operation: Operation) -> None:
        known = self._parked.get(name)
        if known is not None and known[0] is operation:
            del self._parked[name]
        operation.withdraw()

    async def _place(self, asked: dict[str, Any], waiter: str | None) -> tuple[Queue, list[Blocker]]:
        """Return the worst place of a waiter in its queues, and the holders before it."""
        names = asked["resources"] if isinstance(asked["resources"], list) else [asked["resources"]]
        queue, holders = Queue(0, 0), list[Blocker]()
        for name in names[:HOLDERS_SHOWN]:
            seen = await self.served.locks.inspect(name, space=asked["space"])
            if isinstance(seen, Refused):
                continue
            place = next((each.position for each in seen.waiting if each.id == waiter), 0)
            queue = max(queue, Queue(len(seen.waiting), place), key=lambda each: each.position)
            holders += [*map(as_held, seen.leases), *seen.closed]
        return queue, holders[:HOLDERS_SHOWN]


def closed() -> Problem:
    """Return the problem that the server stops."""
    return Problem("closed", "the server is stopping; send the request again, with the same request_id if it had one")


def _name(operation: Operation) -> tuple[str, ...]:
    return _named(operation.who, operation.arguments)


def _named(who: Principal, asked: dict[str, Any]) -> tuple[str, ...]:
    """Return what the request_id belongs to: a session, or a holder of a principal."""
    owner = ("session", asked["session"]) if asked["session"] else (who.principal, asked["holder"])
    return asked["space"], *owner, asked["request_id"]

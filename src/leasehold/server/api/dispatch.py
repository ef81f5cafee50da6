"""The one way to every verb: (principal, verb, arguments) in, (status, body) out.

HTTP's two parsers (`http/quick.py` for plain requests, `app.py` for all others) and batches call `Dispatcher.begin`. It
counts the request against the caller's rate, checks permissions, applies the bounds of the key, makes the command, and
waits, in that order. Conversations of several verbs (the gateway, hooks, MCP) call `Dispatcher.ask`.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.exceptions import HTTPException

from leasehold.compat.steps import aask, verbs_of
from leasehold.domain.outcomes import Granted, Refused, Released
from leasehold.errors import LeaseholdError
from leasehold.server.access import permissions
from leasehold.server.api import problems
from leasehold.server.api.batches import Batch
from leasehold.server.api.handed_calls import HandedAnswers
from leasehold.server.api.problems import HttpAnswer, Problem
from leasehold.server.api.routes import ROUTES
from leasehold.server.api.workflows import shaped
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.engine.pending import Pending
    from leasehold.locks.aio import AsyncLocks
    from leasehold.locks.hosted import Served
    from leasehold.server.access.permissions import Rates
    from leasehold.server.access.principals import Principal
    from leasehold.server.api.handing_on import HandedRequest, HandingOn
    from leasehold.server.api.long_polls import LongPoll, LongPolls
    from leasehold.server.ops.metrics import Metrics
    from leasehold.server.ops.spans import Spans

log = logging.getLogger("leasehold.server")
COMMANDS: Final = frozenset(("acquire", "renew", "release"))
"""Verbs that are submitted to the engine without a task of their own."""
ROUTE_OF: Final = {route.verb: route for route in ROUTES}
PATH_OF: Final = {route.verb: route.path for route in ROUTES}


def _struct(name: str, fields: tuple[str, ...]) -> Any:  # noqa: ANN401 (a type that is made here)
    return msgspec.defstruct(name, [(field, Any) for field in fields], frozen=True, gc=False)


SAMPLED: Final = "01"
"""The flags of a `traceparent` whose caller samples it."""
_LEASE: Final = _struct("Lease", wire.names("Lease"))
_GRANTED: Final = _struct("Granted", wire.names("Granted")[:3])
_RELEASED: Final = _struct("Released", wire.names("Released"))
"""The most frequent answers. A struct is made and encoded in half the time of a dict."""


class Operation:
    """A verb that a principal called, until it is answered or cancelled."""

    __slots__ = (
        "trace",
        *("_done", "answer", "arguments", "batch", "begun", "handed", "is_handed_on", "is_open", "may_wait", "pending"),
        *("served", "verb", "wait", "was_lost", "who"),
    )

    def __init__(
        self, served: Served, who: Principal, verb: str, arguments: dict[str, Any], done: Callable[[Operation], None]
    ) -> None:
        self.served = served
        self.who = who
        self.verb = verb
        self.arguments = arguments
        self._done: Callable[[Operation], None] | None = done
        self.begun = perf_counter()
        self.trace: str | None = None
        """The `traceparent` of the request, besides that of an acquire's arguments."""
        self.is_open = True
        """False once it was answered or cancelled, or its client was sent away with a ticket."""
        self.pending: Pending | None = None
        self.answer: HttpAnswer | Exception | None = None
        """Answered instead of the outcome of `pending`."""
        self.wait: LongPoll | None = None
        """The limits of its time, if it waits."""
        self.batch: Batch | None = None
        """Its calls, if it is a batch."""
        self.may_wait = True
        self.is_handed_on = False
        """True if another server has handed it on to this one: its client is connected there."""
        self.handed: HandedRequest | None = None
        """Its way to the server that is to answer it, while that is another one."""
        self.was_lost = False
        """True if another server may have carried it out before this one did."""

    @property
    def waits(self) -> bool:
        """True if its client is prepared to wait."""
        return self.wait is not None or (self.handed is not None and self.handed.waits)

    def end(self) -> bool:
        """Close it. True if it was open: only the caller that closed it may answer it."""
        was_open, self.is_open = self.is_open, False
        if was_open and self.wait is not None:
            self.wait.polls.over(self)
        return was_open

    def tell(self) -> None:
        """Call `done`, once."""
        done, self._done = self._done, None  # it refers back here: kept, both would stay until the collector comes by
        if done is not None:
            done(self)

    def fail(self, error: Exception) -> None:
        """Answer with this error, if it is still open."""
        if self.end():
            self.answer = error
            self.tell()

    def committed(self, pending: Pending) -> None:
        """Answer with the engine's outcome. Called within a turn of the engine, which no error may break."""
        self.pending = pending
        try:
            if self.wait is None:
                self.is_open = False
                self.tell()
            elif self.end():
                if pending.error is None and not isinstance(pending.outcome, Refused):
                    self.wait.polls.forget_place(self)  # an error or a refusal leaves the place as it was
                self.tell()
            elif pending.stays:
                self.withdraw()  # granted while its client is away: others may have it until the client is back
        except Exception:
            log.exception("an answer could not be sent")

    def cancel(self) -> None:
        """Cancel it: its client disconnected, or did not receive the answer. Nothing stays acquired."""
        was_open = self.end()
        if self.batch is not None:
            self.batch.cancel()
        elif self.handed is not None:
            self.handed.leave()
        elif was_open and self.is_handed_on and self.wait is not None and self.pending is not None:
            self.wait.polls.keep_place(self)  # the server that handed it on may have died, and its client comes back
        elif self.verb == "acquire" and self.pending is not None:
            if self.wait is not None and self.pending.waiter is not None:
                self.wait.polls.forget_place(self)
            self.withdraw()

    def withdraw(self) -> None:
        """Leave the queue and release what was granted, unless a retry with the same request_id has it now."""
        pending = self.pending
        if pending is None or pending.error is not None:
            return
        if pending.outcome is None or isinstance(pending.outcome, Granted):
            self.served.abandon(pending)


class Dispatcher:
    """Takes operations and answers them."""

    def __init__(self, served: Served, rates: Rates, polls: LongPolls, metrics: Metrics) -> None:
        self.served = served
        self._rates = rates
        self._polls = polls
        self._metrics = metrics
        self.spans: Spans | None = None
        """Only if the server traces."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.handing_on: HandingOn | None = None
        """Hands requests on to other servers, if there may be some."""

    def begin(
        self,
        who: Principal,
        verb: str,
        arguments: dict[str, Any],
        done: Callable[[Operation], None],
        may_wait: bool = True,
        handed_on: bool = False,
        trace: str | None = None,
    ) -> Operation:
        """Start an operation. `done` is called with it once it is answered, perhaps before this returns.

        `handed_on`: another server has handed it on, so it is decided here. `trace`: the `traceparent` of its caller.
        """
        operation = Operation(self.served, who, verb, arguments, done)
        operation.may_wait, operation.is_handed_on, operation.trace = may_wait, handed_on, trace
        try:
            if verb == "batch":
                self._begin_batch(operation)
            else:
                handing_on = None if handed_on else self.handing_on
                given = None if handing_on is None else dict(arguments)
                operation.arguments = self.check(who, verb, arguments)
                if handing_on is None or given is None or not handing_on.takes(operation, given):
                    self._decide(operation)
        except Exception as error:  # noqa: BLE001 (answered, and logged if it is unexpected)
            operation.fail(error)
        return operation

    def enough(self) -> None:
        """Begin with the calls of a batch, all of which have been submitted."""
        if self.handing_on is not None:
            self.handing_on.enough()
        self.served.enough()

    def decide_here(self, operation: Operation) -> None:
        """Answer a request that was to be handed on, and could not be."""
        try:
            self._decide(operation)
        except Exception as error:  # noqa: BLE001 (as in `begin`)
            operation.fail(error)

    def _decide(self, operation: Operation) -> None:
        if operation.verb in COMMANDS:
            self._submit(operation, operation.may_wait)
            return
        task = asyncio.get_running_loop().create_task(self._run(operation))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _begin_batch(self, operation: Operation) -> None:
        permissions.allow(operation.who, operation.verb)
        if not operation.arguments["calls"]:
            self._rates.take(operation.who.id)  # otherwise each of its calls counts
        operation.batch = Batch(self, operation)
        operation.batch.begin(operation)

    def _submit(self, operation: Operation, may_wait: bool) -> None:
        """Hand a command to the engine."""
        asked = operation.arguments
        waits = asked.get("wait")
        if waits:
            if not may_wait:
                raise Problem("invalid", "wait_seconds: must be 0 in a batch", field="wait_seconds")
            operation.wait = self._polls.limit(operation)
            asked = operation.wait.terms
        order = self.served.order(operation.verb, asked, operation.who.authority)
        if isinstance(order, Refused):
            raise problems.of_refusal(order)
        if operation.wait is not None:
            self._polls.begin(operation, operation.wait)
        operation.pending = self.served.submit(order, operation.committed)
        operation.pending.was_sent_elsewhere = operation.was_lost

    def check(self, who: Principal, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Count a request, check that its caller may make it, and return its arguments within the caller's bounds."""
        self._rates.take(who.id)
        return permissions.bounded(who, verb, arguments)

    async def _run(self, operation: Operation) -> None:
        """Answer a verb that takes a task: a lookup, a rare command, or a conversation of several verbs."""
        try:
            operation.answer = HttpAnswer(200, await self._content(operation))
        except Exception as error:  # noqa: BLE001 (as in `begin`)
            operation.answer = error
        operation.end()
        operation.tell()

    async def _content(self, operation: Operation) -> object:
        who, route = operation.who, ROUTE_OF[operation.verb]
        if route.steps is not None:
            return shaped(
                await aask(verbs_of(self._locks_for(who)), route.steps(who, operation.arguments)), route.gives
            )
        if route.verb == "whoami":
            return wire.answer(permissions.whoami(who))
        locks = self.served.locks_for(who.authority)
        outcome = await getattr(locks, route.verb)(**operation.arguments)
        if wire.is_refusal(outcome):
            raise problems.of_refusal(outcome)
        return wire.encoded(route.gives, permissions.as_seen_by(who, outcome))

    def answer(self, operation: Operation) -> HttpAnswer:
        """Return the status and body of an operation that is over, and count it."""
        answer = self._answer(operation)
        if operation.may_wait:  # the calls of a batch are no requests of their own
            place = (PATH_OF[operation.verb], str(answer.status))
            seconds = perf_counter() - operation.begun
            self._metrics.requests.add(seconds, place)
            trace = operation.trace or operation.arguments.get("trace")
            if trace is not None:
                self._show(seconds, place, trace)
            if self.spans is not None:
                self.spans.answered(operation, answer)
        return answer

    def _show(self, seconds: float, place: tuple[str, str], trace: str) -> None:
        """Keep a request as an exemplar if its caller samples its trace, so that an admin can look it up."""
        parts = trace.split("-")
        if len(parts) == 4 and len(parts[1]) == 32 and parts[3] == SAMPLED and parts[1].isalnum():
            self._metrics.requests.show(seconds, place, parts[1], time())

    def _answer(self, operation: Operation) -> HttpAnswer:
        pending, answer = operation.pending, operation.answer
        if isinstance(answer, HttpAnswer):
            return answer
        if answer is not None or pending is None:
            return self.refuse(answer or AssertionError(f"{operation.verb} has no answer"))
        if pending.error is not None:
            return self.refuse(pending.error)
        outcome = pending.outcome
        if wire.is_refusal(outcome):
            return self.refuse(problems.of_refusal(outcome))
        if operation.was_lost and isinstance(outcome, Released) and outcome.reason == "released":
            outcome = outcome._replace(released=True, reason="completed")  # by the server that was asked first
        return HttpAnswer(200, _quickly_encoded(outcome))

    def refuse(self, error: BaseException) -> HttpAnswer:
        """Return the answer to a request that failed, and count it."""
        problem = problem_of(error)
        self._metrics.refused(problem.code)
        return problems.answer(problem)

    def _locks_for(self, who: Principal) -> AsyncLocks:
        """Return the verbs as this principal calls them; some of them, the owners of lanes answer."""
        on = self.handing_on
        return self.served.locks_for(who.authority, None if on is None else partial(HandedAnswers, on, who))

    async def ask(self, who: Principal, verb: str, asked: dict[str, Any]) -> Any:  # noqa: ANN401 (each verb knows what it gets)
        """Return the outcome of one verb of a conversation, whose request was counted before. Raises `Problem`."""
        return permissions.as_seen_by(who, await self.ask_fully(who, verb, asked))

    async def ask_fully(self, who: Principal, verb: str, asked: dict[str, Any]) -> Any:  # noqa: ANN401 (see `ask`)
        """As `ask`, with principals and keys, for a conversation that compares them and does not tell them."""
        permissions.allow(who, verb)
        return await getattr(self._locks_for(who), verb)(**permissions.bound(who, verb, dict(asked)))


def _quickly_encoded(outcome: object) -> object:
    """Return what the encoder makes the body of a successful answer from."""
    if isinstance(outcome, Granted) and not outcome.unapplied:
        return _GRANTED(_LEASE(*wire.lease_values(outcome.lease)), outcome.token, outcome.fresh)
    if isinstance(outcome, Released):
        return _RELEASED(outcome.lease, outcome.released, outcome.reason, outcome.resources)
    return wire.answer(outcome)


def problem_of(error: BaseException) -> Problem:
    """Return the problem that an error stands for; an unexpected one is logged."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, LeaseholdError):
        return problems.of_error(error)
    if isinstance(error, HTTPException):
        if error.status_code == 405:
            allowed = error.headers.get("Allow") if error.headers else None
            return Problem("method", "this route has another method", **({"allow": allowed} if allowed else {}))
        return Problem("not_found", "there is no such route; see /openapi.json")
    log.error("unexpected error in a request", exc_info=error)
    return Problem("internal", "unexpected error; the server's log has the details")

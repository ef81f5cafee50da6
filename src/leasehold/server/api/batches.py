"""Several calls in one request: each is judged as if it had come alone, and their answers go out together.

It decides nothing about leases. A call that waits has to come alone, as the others would wait with it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from leasehold.domain.outcomes import Granted, Refused
from leasehold.engine.pending import Pending
from leasehold.errors import InvalidInput
from leasehold.server.access import permissions
from leasehold.server.api import decoding, problems
from leasehold.server.api import encoding as shapes
from leasehold.server.api.problems import Problem
from leasehold.server.api.requests import CALLS
from leasehold.server.api.waiting import gone
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.responses import Response

    from leasehold.requests.to_command import Order
    from leasehold.server.access.principals import Principal
    from leasehold.server.api.app import App
    from leasehold.server.api.requests import Body
    from leasehold.server.api.waiting import Receive

CALLS_MOST = 64


class Part(Pending):
    """One call of several."""

    __slots__ = ("_batch", "_place")

    def __init__(self, batch: Batch, place: int, order: Order) -> None:
        super().__init__(order.command, order.secret, self._deliver)
        self._batch: Batch | None = batch
        self._place = place

    def _deliver(self, _pending: Pending) -> None:
        if self._batch is not None:
            self._batch.served.deliver(self._answered)

    def _answered(self) -> None:
        batch, self._batch = self._batch, None  # which keeps the grants: both would stay until the collector comes by
        if batch is not None:
            batch.answered(self._place, self)


class Batch:
    """The calls of one request, until all of them are answered."""

    __slots__ = ("_answers", "_app", "_calls", "_ended", "_given", "_left", "_who", "served")

    def __init__(self, app: App, who: Principal, calls: Sequence[Body]) -> None:
        if len(calls) > CALLS_MOST:
            raise Problem("invalid", f"calls: at most {CALLS_MOST} in one request, not {len(calls)}", field="calls")
        self._app = app
        self.served = app.served
        self._who = who
        self._calls = calls
        self._left = len(calls)
        self._answers: list[dict[str, Any] | None] = [None] * len(calls)
        self._given: list[Pending] = []
        """The grants among the answers."""
        self._ended: Callable[[], None] | None = None

    def begin(self, ended: Callable[[], None]) -> None:
        """Ask; `ended` is called once everything is answered, and must never raise."""
        self._ended = ended
        for place, call in enumerate(self._calls):
            try:
                order = self.served.order(*self._understood(call), self._who.authority)
                if isinstance(order, Refused):
                    self._refuse(place, problems.of_refusal(order))
                else:
                    self.served.enter(Part(self, place, order))
            except (Problem, InvalidInput) as error:
                self._refuse(place, error)
        self.served.enough()
        if not self._calls:
            ended()

    def _understood(self, call: Body) -> tuple[str, dict[str, Any]]:
        verb = CALLS[type(call)]
        asked = permissions.bounded(self._who, verb, decoding.arguments(call))
        if asked.get("wait"):
            raise Problem(
                "invalid", "wait_seconds: must be 0 among several calls; a wait comes alone", field="wait_seconds"
            )
        self._app.rates.take(self._who.id)
        return verb, asked

    def answered(self, place: int, pending: Pending) -> None:
        """The engine has committed."""
        if pending.error is not None:
            self._refuse(place, pending.error)
            return
        outcome = pending.outcome
        if wire.is_refusal(outcome):
            self._refuse(place, problems.of_refusal(outcome))
            return
        if isinstance(outcome, Granted):
            self._given.append(pending)
        self._tell(place, 200, shapes.answer(outcome))

    def _refuse(self, place: int, error: BaseException) -> None:
        body = problems.body(self._app.noted(error))
        self._tell(place, body["status"], body)

    def _tell(self, place: int, status: int, body: object) -> None:
        self._answers[place] = {"status": status, "body": body}
        self._left -= 1
        if not self._left:
            ended, self._ended = self._ended, None  # which knows us
            if ended is not None:
                ended()

    @property
    def told(self) -> dict[str, Any]:
        """All answers, in the order of the calls."""
        return {"answers": self._answers}

    def take_back(self) -> None:
        """The answers were not heard: what was granted is given back."""
        for pending in self._given:
            self.served.abandon(pending)


async def answer(batch: Batch, receive: Receive, given: Callable[[Batch], None]) -> Response | None:
    """The ordinary way; None if nobody is there any more to hear it. `given` is told before the answers go out."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    left = loop.create_task(gone(receive))
    batch.begin(lambda: over.set_result(None))
    try:
        await asyncio.shield(over)
        has_left = left.done()
    except BaseException:
        over.add_done_callback(lambda _: batch.take_back())
        raise
    finally:
        left.cancel()
    if has_left:
        batch.take_back()
        return None
    given(batch)
    return problems.ok(batch.told)

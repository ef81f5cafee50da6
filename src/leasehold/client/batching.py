"""Calls that several tasks make at the same moment, sent in one request. It retries nothing.

A request of its own costs both sides as much as the call in it (docs/adr/0030). A call that waits in a queue is sent
alone: the others would have to wait with it, and it leaves the queue by disconnecting.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold.client.deciding import SLACK
from leasehold.client.encoding import HttpRequest
from leasehold.client.messages import body_of
from leasehold.client.unexpected import NoServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from leasehold.client.messages import AnswerHead

MOST = 32
"""Most calls in one request: with more, one side would idle while the other works."""
_PATH = "/v1/batch"
_VERBS = {"/v1/acquire": "acquire", "/v1/renew": "renew", "/v1/release": "release"}
_UNKNOWN = (404, 405)


class HttpReply(NamedTuple):
    """The answer to one call."""

    status: int
    body: dict[str, Any]
    retry_after: float | None


class _Call(NamedTuple):
    request: HttpRequest
    reply: asyncio.Future[HttpReply]


class Gathering:
    """Gathers the calls that are made in one turn of the event loop."""

    def __init__(
        self,
        exchange: Callable[[HttpRequest, float], Awaitable[tuple[AnswerHead, bytes]]],
        undo: Callable[[HttpRequest, dict[str, Any]], None],
    ) -> None:
        self._exchange = exchange
        self._undo = undo
        """Called with a grant whose caller was cancelled."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gathered: list[_Call] = []
        self._sending: set[asyncio.Task[None]] = set()
        self._is_understood = True

    def takes(self, request: HttpRequest) -> bool:
        """Return True if this request can be sent with others."""
        return self._is_understood and request.path in _VERBS and not (request.body or {}).get("wait_seconds")

    def ask(self, request: HttpRequest) -> asyncio.Future[HttpReply]:
        """Send a request with the others of this turn; the future gets its answer."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        if not self._gathered:
            self._loop.call_soon(self._send)
        call = _Call(request, self._loop.create_future())
        self._gathered.append(call)
        return call.reply

    def _send(self) -> None:
        gathered, self._gathered = self._gathered, []
        wanted = [call for call in gathered if not call.reply.done()]
        for start in range(0, len(wanted), MOST):
            calls = wanted[start : start + MOST]
            self._start(self._together(calls) if len(calls) > 1 else self._alone(calls[0]))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _together(self, calls: list[_Call]) -> None:
        asked = [{"verb": _VERBS[call.request.path], **(call.request.body or {})} for call in calls]
        with _telling(calls):
            head, data = await self._exchange(HttpRequest("POST", _PATH, {"calls": asked}), SLACK)
            if head.status == 200:
                for call, reply in zip(calls, _replies(head, data, len(calls)), strict=True):
                    self._tell(call, reply)
                return
            self._is_understood = head.status not in _UNKNOWN
            for call in calls:  # so that each call gets the error that is its own
                self._start(self._alone(call))

    async def _alone(self, call: _Call) -> None:
        with _telling([call]):
            head, data = await self._exchange(call.request, SLACK)
            self._tell(call, HttpReply(head.status, body_of(head, data), head.retry_after))

    def _tell(self, call: _Call, reply: HttpReply) -> None:
        if not call.reply.done():
            call.reply.set_result(reply)
        elif reply.status == 200 and call.request.path == "/v1/acquire":
            self._undo(call.request, reply.body)


def _replies(head: AnswerHead, data: bytes, wanted: int) -> list[HttpReply]:
    try:
        answers = body_of(head, data)["answers"]
        replies = [HttpReply(each["status"], each["body"], each["body"].get("retry_after_seconds")) for each in answers]
    except (AttributeError, KeyError, TypeError):
        replies = []
    if len(replies) != wanted:
        raise NoServer(head.status, "its answer to a batch cannot be understood")
    return replies


@contextmanager
def _telling(calls: list[_Call]) -> Iterator[None]:
    """Pass an error in this block on to the callers."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 (see above)
        for call in calls:
            if not call.reply.done():
                call.reply.set_exception(error)
    except BaseException:
        for call in calls:
            call.reply.cancel()
        raise

"""Several calls in one request: each is answered as if it had been sent alone, and the answers go out together.

A call that waits has to be sent alone, or the others would wait with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.server.api import decoding
from leasehold.server.api.problems import HttpAnswer, Problem
from leasehold.server.api.requests import CALLS

if TYPE_CHECKING:
    from leasehold.server.api.dispatch import Dispatcher, Operation

CALLS_MOST = 64


class Batch:
    """The calls of one request, until all of them are answered."""

    __slots__ = ("_dispatcher", "_left", "_parts", "_whole")

    def __init__(self, dispatcher: Dispatcher, whole: Operation) -> None:
        calls = whole.arguments["calls"]
        if len(calls) > CALLS_MOST:
            raise Problem("invalid", f"calls: at most {CALLS_MOST} in one request, not {len(calls)}", field="calls")
        self._dispatcher = dispatcher
        self._whole: Operation | None = whole
        self._parts: list[Operation] = []
        self._left = len(calls) + 1
        """How many calls are not answered yet, and one while they are being submitted."""

    def begin(self, whole: Operation) -> None:
        """Submit every call."""
        for call in whole.arguments["calls"]:
            verb, arguments = CALLS[type(call)], decoding.arguments(call)
            self._parts.append(self._dispatcher.begin(whole.who, verb, arguments, self._count, False))
        self._dispatcher.enough()
        self._count(whole)

    def _count(self, _answered: Operation) -> None:
        """Count an answered call; after the last one, answer the batch."""
        self._left -= 1
        if self._left:
            return
        whole, self._whole = self._whole, None  # it refers to this: kept, both would stay until the collector comes by
        if whole is not None and whole.end():
            answers = [self._dispatcher.answer(part) for part in self._parts]
            whole.answer = HttpAnswer(200, {"answers": [{"status": it.status, "body": it.body} for it in answers]})
            whole.tell()

    def cancel(self) -> None:
        """Cancel every call: nothing that was acquired stays acquired."""
        for part in self._parts:
            part.cancel()

"""One connection's share of the hot path: a head that is known, and the answer. What HTTP is, ``protocol`` knows.

It is apart from the protocol, which inherits from uvicorn's, since a class of its own can be compiled (docs/adr/0035).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

    from leasehold.server.http.protocol import Protocol
    from leasehold.server.http.quick import Head, Hot, WaitingAnswer
    from leasehold.server.http.undelivered import Answered

END: Final = b"\r\n\r\n"


class Line:
    """While a hot request is under way, it stands where uvicorn keeps the request of a connection."""

    __slots__ = (
        "_hot",
        "_latest",
        "_protocol",
        "_write",
        "answered_at",
        "arrived",
        "disconnected",
        "is_between",
        "is_timed",
        "keep_alive",
        "response_complete",
        "transport",
        "unheard",
        "waiting",
        "was_used",
    )

    def __init__(self, hot: Hot, protocol: Protocol) -> None:
        self._hot = hot
        self._protocol = protocol
        self._latest: tuple[Head | None, Head | None] = (None, None)
        """The heads of the last requests: mostly, those of the next."""
        self.is_between = True
        """No part of a request has arrived without the rest of it."""
        self.is_timed = True
        """Whether a request is overdue."""
        self.arrived = b""
        """What is being parsed, if it began between two requests."""
        self.was_used = False
        """Whether anything was asked since the keep-alive timer was set."""
        self.unheard: Answered | None = None
        """The last answer; nobody knows whether it was heard until something else is asked."""
        self.answered_at = 0.0
        self.waiting: WaitingAnswer | None = None
        """The hot request under way, if it is one that waits."""
        self.response_complete = True
        self.disconnected = False
        self.keep_alive = True

    def connect(self, transport: asyncio.Transport) -> None:
        """Somebody is there."""
        self.transport = transport
        self._write = transport.write

    def received(self, data: bytes) -> None:
        """Some bytes: the usual request once more, or some of a head or of a body, which are for the protocol."""
        if self.is_between:
            head = self._known(data)
            if head is not None and self.is_free():
                self.was_used = True
                if self._hot.begin(self, head, data[len(head.start) :]):
                    if self.is_timed:
                        self._protocol.stop_timer()
                    return
            self.arrived = data
        self._protocol.take_in(data)
        self.arrived = b""

    def _known(self, data: bytes) -> Head | None:
        """The head of this request, if it is one that is known and all of its body is here, and nothing else."""
        first, second = self._latest
        if first is not None and first.size == len(data) and data.startswith(first.start):
            return first
        if second is not None and second.size == len(data) and data.startswith(second.start):
            return second
        known = self._hot.heads.get(data.partition(END)[0])
        if known is None or known.size != len(data):
            return None
        self._latest = (known, first)
        return known

    def is_free(self) -> bool:
        """Whether no other request of this connection comes first, and its client reads what it is sent."""
        return not self.is_busy() and not self._protocol.flow.write_paused

    def is_busy(self) -> bool:
        """Whether a request is under way."""
        last: object = self._protocol.cycle
        if last is self:
            return not self.response_complete
        return last is not None and not self._protocol.cycle.response_complete

    # ------------------------------------------------------------------------------------- a hot request

    def begin(self, waiting: WaitingAnswer | None, *, keep_alive: bool) -> None:
        """A hot request is under way: what comes after it on this connection has to wait."""
        self.waiting = waiting
        self.keep_alive = keep_alive
        self.response_complete = False
        last: object = self._protocol.cycle
        if last is not self:
            self._protocol.take_hot(self)

    def has_left(self) -> bool:
        """Whether nobody is there any more to be told."""
        return self.disconnected or self.transport.is_closing()

    def end(self, answer: bytes, answered: Answered) -> None:
        """Its answer."""
        self.response_complete = True
        self.waiting = None
        self.heed(answered)
        self._write(answer)
        if not self.keep_alive:
            self.transport.close()
        if self._protocol.pipeline or self._protocol.timeout_keep_alive_task is None:
            self._protocol.on_response_complete()
        # If not, the timer that runs finds out by itself that the connection was used.

    def heed(self, answered: Answered) -> None:
        """A request is about to be told of its grant."""
        self.unheard = answered
        self.answered_at = time.monotonic()

    # --------------------------------------------------------------------------- what uvicorn wants of one

    @property
    def message_event(self) -> Line:
        """What uvicorn wakes."""
        return self

    def set(self) -> None:
        """Uvicorn wakes the request, for it to see that its client is gone. One that does not wait will see it soon."""
        waiting = self.waiting
        if waiting is not None and self.disconnected:
            self.waiting = None
            waiting.leave()

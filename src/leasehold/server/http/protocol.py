"""Bytes to requests: uvicorn's own protocol, with a way around ASGI for hot requests, and with limits of its own.

A request's head has so long to arrive, and may be so large; and every request of a connection is told when its client
is gone, not only the last one of a pipeline. A head that was understood once is not parsed again: a client that keeps
its connection sends the same one each time, but for its length (docs/adr/0018).
"""

from __future__ import annotations

import time
from socket import SO_LINGER, SOL_SOCKET
from struct import pack
from typing import TYPE_CHECKING, Any, ClassVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from leasehold.errors import LeaseholdError
from leasehold.server.api import problems
from leasehold.server.api.events import HANG_UP
from leasehold.server.api.problems import Problem
from leasehold.server.api.waiting import GIVEN
from leasehold.server.http import bodies
from leasehold.server.http.bodies import BODY_BYTES
from leasehold.server.http.lines import END, Line
from leasehold.server.http.quick import HOT, Hot
from leasehold.server.http.undelivered import PATIENCE, SOON, is_on_its_way

if TYPE_CHECKING:
    import asyncio

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from leasehold.server.api.app import App

HEAD_SECONDS = 20.0
HEAD_BYTES = 64 * 1024
TOO_LARGE = f"the head of a request may have at most {HEAD_BYTES} bytes"
STARTS = "_start_asgi_task"
"""What uvicorn calls with each request, since 0.45. It is not public, and may have another name some day."""


class Protocol(HttpToolsProtocol):
    """One connection."""

    hot: ClassVar[Hot]
    ours: ClassVar[App]
    """What uvicorn calls `app` is made from it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._line = Line(self.hot, self)
        vars(self)["data_received"] = self._line.received  # for whoever reads from the socket: no step more than needed
        self._timer: asyncio.TimerHandle | None = None
        self._piece = 0
        """How much is being parsed."""
        self._begun_in = 0
        """Of what size the piece was in which this request began, somewhere;"""
        self._head_bytes = 0
        """and how much has arrived since, for as long as its head has not ended."""
        self._in_head = False
        self._body: bytearray | None = None
        """Of a request that may be a hot one; None: uvicorn has it."""
        self._body_since = 0.0
        self._active: RequestResponseCycle | Line | None = None

    # ------------------------------------------------------------------------------------ the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Whoever connects has to ask something, soon."""
        super().connection_made(transport)
        self._line.connect(transport)
        self._set_timer()

    def take_in(self, data: bytes) -> None:
        """Some of a head or of a body, or a request that is not known yet."""
        self._piece = len(data)
        if self._in_head:
            self._head_bytes += self._piece
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(TOO_LARGE)

    def send_400_response(self, msg: str) -> None:
        """What cannot be parsed is refused, in the form of every refusal; so is a head that was, and is too large."""
        is_large = msg == TOO_LARGE or self._is_too_large()
        self._refuse(Problem("invalid", TOO_LARGE if is_large else "this cannot be read as HTTP/1.1"))
        self.transport.close()

    def _is_too_large(self) -> bool:
        """Whether the head is, as far as it was parsed. Mostly there is no need to add it up."""
        if self._begun_in + self._head_bytes <= HEAD_BYTES:
            return False
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > HEAD_BYTES

    def eof_received(self) -> None:
        """The other side is done. What it was given and had not got by then, it does not have."""
        if self._line.unheard is not None and is_on_its_way(self.transport):
            self._take_back()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there: every request under way is told."""
        self.stop_timer()
        super().connection_lost(exc)
        if exc is not None and time.monotonic() - self._line.answered_at < SOON:
            self._take_back()
        for cycle in (self._active, *(each for each, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self._line.unheard = None

    def _take_back(self) -> None:
        """The last answer was not heard: if it was a grant, it is given back, unless somebody asks for it again."""
        answer, self._line.unheard = self._line.unheard, None
        if answer is not None and self._line.is_between and not self._line.is_busy():
            self.loop.call_later(PATIENCE, answer.take_back)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # noqa: ANN401 (uvicorn's)
        self._active = cycle
        self._line.unheard = None
        cycle.scope["extensions"] = {HANG_UP: {"now": self._hang_up}, GIVEN: {"tell": self._line.heed}}
        super()._start_asgi_task(cycle, app)

    def _hang_up(self) -> None:
        """At once, with nothing left behind: not even what the other side has not read and may never read."""
        line = self.transport.get_extra_info("socket")
        if line is not None:
            line.setsockopt(SOL_SOCKET, SO_LINGER, pack("ii", 1, 0))
        self.transport.abort()

    def _set_timer(self, seconds: float | None = None) -> None:
        self._timer = self.loop.call_later(HEAD_SECONDS if seconds is None else seconds, self._too_slow)
        self._line.is_timed = True

    def stop_timer(self) -> None:
        """What was due is here."""
        self._line.is_timed = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self.stop_timer()
        if self.transport.is_closing():
            return
        if self._body is not None:
            left = self._body_since + bodies.BODY_SECONDS - self.loop.time()
            if left > 0:
                self._set_timer(left)  # the head took its time: that of the body is not up yet
                return
            # No other request comes first: this one was not kept for a hot one otherwise.
            self._refuse(bodies.slow())
        self.transport.close()

    def _refuse(self, problem: Problem) -> None:
        """As the ordinary way does, which this request will not go."""
        response = self.ours.tell(problem)
        response.headers["connection"] = "close"
        self.transport.write(problems.as_bytes(response))

    # --------------------------------------------------------------------------------------- one request

    def on_message_begin(self) -> None:
        """The head of a request begins."""
        super().on_message_begin()
        self._in_head, self._begun_in, self._head_bytes = True, self._piece, 0
        self._line.is_between = False
        if self._timer is None:
            self._set_timer()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of the head. One behind the body, a trailer, is dropped: it must never pass for one of the head."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is here: of a request that may be a hot one, or of one for uvicorn."""
        if self._is_too_large():
            raise ValueError(TOO_LARGE)  # which ends the parsing, see `send_400_response`
        self._in_head = False
        if self.url in HOT and self._is_plain() and not self._declares_too_much():
            self._body = bytearray()
            self._body_since = self.loop.time()
            return
        self.stop_timer()
        super().on_headers_complete()

    def _is_plain(self) -> bool:
        return (
            self._line.is_free()
            and not self.expect_100_continue
            and self.parser.get_method() == b"POST"
            and self.parser.get_http_version() == "1.1"
            and not self.parser.should_upgrade()
        )

    def _declares_too_much(self) -> bool:
        """Whether its body will be refused, whatever it is: the ordinary way does that before it is here."""
        return any(name == b"content-length" and int(value) > BODY_BYTES for name, value in self.headers)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._body is None:
            super().on_body(body)
            return
        self._body += body
        if len(self._body) > BODY_BYTES:
            self._go_the_ordinary_way()

    def on_message_complete(self) -> None:
        """The whole request is here."""
        self._line.is_between = True
        if self._body is not None:
            self.stop_timer()
            body = bytes(self._body)
            if self.hot.take(self._line, self, body, self._head_of(body)):
                self._body = None
                return
            self._go_the_ordinary_way()
        super().on_message_complete()

    def _head_of(self, body: bytes) -> bytes | None:
        """The head of a request that arrived in one piece, alone, and will be followed by others."""
        arrived = self._line.arrived
        head, _, rest = arrived.partition(END)
        return head if rest == body and arrived and self.parser.should_keep_alive() else None

    def _go_the_ordinary_way(self) -> None:
        body, self._body = self._body, None
        self.stop_timer()
        super().on_headers_complete()
        if body:
            super().on_body(bytes(body))

    # ------------------------------------------------------------------------------------- hot requests

    def take_hot(self, line: Line) -> None:
        """Hot requests are under way from now on: they have all that uvicorn asks of one."""
        self.cycle = self._active = line  # type: ignore[assignment]

    def timeout_keep_alive_handler(self) -> None:
        """Nothing but hot requests came for a while, if anything at all: only who was silent is hung up on."""
        self.timeout_keep_alive_task = None
        if self._line.was_used or self._line.is_busy():
            self._line.was_used = False
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        else:
            super().timeout_keep_alive_handler()


def protocol_for(app: App) -> type[Protocol]:
    """The connections of this application."""
    if not hasattr(HttpToolsProtocol, STARTS):  # nobody would call ours, and every request but the hot ones would break
        raise LeaseholdError(
            f"uvicorn {uvicorn.__version__} is not one that this Leasehold knows how to serve with: it takes 0.45 or "
            "later; if this one is later, update Leasehold, or install an earlier uvicorn"
        )
    return type("BoundProtocol", (Protocol,), {"hot": Hot(app), "ours": app})

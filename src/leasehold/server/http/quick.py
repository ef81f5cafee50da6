"""The quick parser: acquire, renew, release and batch, read from raw bytes without building an ASGI request.

It takes only what it understands at once: plain requests with a JSON body, of callers that a cached key identifies.
Every other request, also one that it cannot parse, is parsed by Starlette in `api/app.py`. Both parsers hand what they
read to `api/dispatch.py`.

A head that was parsed once is not parsed again: a client that keeps its connection sends the same head each time, but
for its length (docs/adr/0041). It is compiled, unlike ``protocol``, which inherits from uvicorn's (docs/adr/0035).
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from leasehold.routing.owning import PROTOCOL
from leasehold.server.access.authentication import check_origin
from leasehold.server.access.principals import OPEN
from leasehold.server.api import decoding, problems
from leasehold.server.api.handing_on import HEADER
from leasehold.server.api.problems import Problem
from leasehold.server.api.routes import ROUTES

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from leasehold.server.access.principals import Principal
    from leasehold.server.api.app import App
    from leasehold.server.api.dispatch import Operation
    from leasehold.server.api.requests import Body
    from leasehold.server.api.routes import Route
    from leasehold.server.http.protocol import Protocol

log = logging.getLogger("leasehold.server")
QUICK = {route.path.encode(): route for route in ROUTES if route.verb in ("acquire", "renew", "release", "batch")}
HEADS = 4_096
"""Heads that are cached: a request with a cached one costs a third less processor time (docs/adr/0041)."""
HEAD_BYTES = 1_024
"""Longer ones are not cached."""
HEAD_END: Final = b"\r\n\r\n"
_KEY = b"Bearer lh_"
HANDED_ON: Final = HEADER.encode()
VERSION: Final = b"%d" % PROTOCOL
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_OKS: Final = tuple(_OK % length for length in range(2_048))
"""By the length of the body."""


class ParsedHead:
    """The content of a request's head, for the next request with the same bytes."""

    __slots__ = ("decode", "handed_on", "size", "start", "token", "verb")

    def __init__(self, verb: str, decode: Callable[[bytes], Body], token: str | None, *, handed_on: bool) -> None:
        self.verb = verb
        self.decode = decode
        self.token = token
        """The key; None: no key, on a server that needs none."""
        self.handed_on = handed_on
        """True if another server hands the request on."""
        self.start = b""
        """The bytes of the head and its end, once it is cached."""
        self.size = 0
        """The length of a whole request with this head."""


class QuickParser:
    """Parses heads for all connections of a server."""

    def __init__(self, app: App) -> None:
        self.app = app
        self._authenticator = app.authenticator
        self.heads: dict[bytes, ParsedHead] = {}
        """Heads of requests that were understood and whose caller was identified."""

    def parse(self, route: Route, headers: Iterable[tuple[bytes, bytes]]) -> ParsedHead | None:
        """Return what a head says, or None if it takes the other parser to tell."""
        given: dict[bytes, bytes] = {}
        for name, value in headers:
            given.setdefault(name, value)
        if b"x-request-id" in given or b"traceparent" in given:
            return None  # the lease keeps them, and the answer repeats the former
        shown = given.get(b"authorization")
        if shown is not None and not shown.startswith(_KEY):
            return None
        try:
            decoding.check_media_type(_text(given.get(b"content-type")))
            if shown is None:
                check_origin(*(_text(given.get(name)) for name in (b"host", b"origin", b"sec-fetch-site")))
        except Problem:
            return None
        token = None if shown is None else shown[7:].decode("latin-1").strip()
        handed_on = given.get(HANDED_ON)
        if handed_on is not None and handed_on != VERSION:
            return None
        return ParsedHead(route.verb, decoding.decoder_of(route.takes), token, handed_on=handed_on is not None)

    def caller(self, head: ParsedHead) -> Principal | None:
        """Return the caller, or None if it takes the other parser to identify it or to refuse it."""
        now = time.monotonic()
        if now >= self._authenticator.settled_until and not self._authenticator.is_fresh(now):
            return None
        if head.token is None:
            return OPEN if self._authenticator.is_open else None
        try:
            return self._authenticator.by_key(head.token)
        except Problem:
            return None

    def keep(self, head: ParsedHead, start: bytes, length: int) -> None:
        """Cache a head."""
        if len(start) > HEAD_BYTES:
            return
        if len(self.heads) >= HEADS:
            self.heads.clear()
        head.start = start + HEAD_END
        head.size = len(head.start) + length
        self.heads[start] = head


class QuickConnection:
    """The quick requests of one connection. While one is under way, it stands in for uvicorn's request."""

    __slots__ = (
        "_dispatcher",
        "_latest",
        "_operation",
        "_parser",
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
        "was_used",
    )

    def __init__(self, parser: QuickParser, protocol: Protocol) -> None:
        self._parser = parser
        self._dispatcher = parser.app.dispatcher
        self._protocol = protocol
        self._latest: tuple[ParsedHead | None, ParsedHead | None] = (None, None)
        """The heads of the last requests, which are likely to be those of the next."""
        self._operation: Operation | None = None
        """The quick request under way."""
        self.is_between = True
        """True unless a part of a request has arrived without the rest of it."""
        self.is_timed = True
        """True while a request is expected before a deadline."""
        self.arrived = b""
        """The bytes being parsed, if they began between two requests."""
        self.was_used = False
        """True if a request came since the keep-alive timer was set."""
        self.unheard: Operation | None = None
        """The operation answered last: the client may not have received it until it sends another request."""
        self.answered_at = 0.0
        self.response_complete = True
        self.disconnected = False
        self.keep_alive = True

    def connect(self, transport: asyncio.Transport) -> None:
        """Take over the transport of a new connection."""
        self.transport = transport
        self._write = transport.write

    def received(self, data: bytes) -> None:
        """Answer a request with a cached head, or pass the bytes to the protocol."""
        if self.is_between:
            head = self._cached(data)
            if head is not None and self.is_free():
                self.was_used = True
                if self.begin(head, data[len(head.start) :], keep_alive=True):
                    if self.is_timed:
                        self._protocol.stop_timer()
                    return
            self.arrived = data
        self._protocol.take_in(data)
        self.arrived = b""

    def _cached(self, data: bytes) -> ParsedHead | None:
        """Return the cached head of these bytes, if they are exactly one request."""
        first, second = self._latest
        if first is not None and first.size == len(data) and data.startswith(first.start):
            return first
        if second is not None and second.size == len(data) and data.startswith(second.start):
            return second
        known = self._parser.heads.get(data.partition(HEAD_END)[0])
        if known is None or known.size != len(data):
            return None
        self._latest = (known, first)
        return known

    def is_free(self) -> bool:
        """True if no other request of this connection comes first, and the client reads what it is sent."""
        return not self.is_busy() and not self._protocol.flow.write_paused

    def is_busy(self) -> bool:
        """True while a request is under way."""
        last: object = self._protocol.cycle
        if last is self:
            return not self.response_complete
        return last is not None and not self._protocol.cycle.response_complete

    # ------------------------------------------------------------------------------------- a request

    def take(self, route: Route, body: bytes, start: bytes | None, *, keep_alive: bool) -> bool:
        """Begin a request whose head is not cached. `start`: the bytes of the head, if it is worth caching."""
        head = self._parser.parse(route, self._protocol.headers)
        if head is None or not self.begin(head, body, keep_alive=keep_alive):
            return False
        if start is not None:
            self._parser.keep(head, start, len(body))
        return True

    def begin(self, head: ParsedHead, body: bytes, *, keep_alive: bool) -> bool:
        """Begin a request; False if the other parser has to take it."""
        who = self._parser.caller(head)
        if who is None:
            return False
        try:
            arguments = decoding.arguments(head.decode(body))
        except decoding.MISSPELLED:
            return False
        self.keep_alive = keep_alive
        self.response_complete = False
        last: object = self._protocol.cycle
        if last is not self:
            self._protocol.take_quick(self)
        operation = self._dispatcher.begin(who, head.verb, arguments, self._answer, True, head.handed_on)
        if not self.response_complete:
            self._operation = operation
        return True

    def _answer(self, operation: Operation) -> None:
        """Send the answer. Called within a turn of the engine, which no error may break."""
        if self.disconnected or self.transport.is_closing():
            operation.cancel()
            return
        try:
            answer = self._dispatcher.answer(operation)
            if answer.status == 200:
                content = problems.encode(answer.body)
                length = len(content)
                head = _OKS[length] if length < len(_OKS) else _OK % length
                data = (head if not answer.headers else _with(answer.headers, head)) + content
            else:
                data = problems.as_bytes(problems.respond(answer))
            self.response_complete = True
            self._operation = None
            self.answered(operation)
            self._write(data)
            if not self.keep_alive:
                self.transport.close()
            if self._protocol.pipeline or self._protocol.timeout_keep_alive_task is None:
                self._protocol.on_response_complete()
            # If not, the timer that runs finds out by itself that the connection was used.
        except Exception:
            log.exception("an answer could not be sent")
            self.transport.close()

    def answered(self, operation: Operation) -> None:
        """Remember what is being answered, in case the client does not receive it."""
        self.unheard = operation
        self.answered_at = time.monotonic()

    # --------------------------------------------------------------------------- what uvicorn expects of a request

    @property
    def message_event(self) -> QuickConnection:
        """The event that uvicorn sets when the client has disconnected."""
        return self

    def set(self) -> None:
        """Cancel a request that waits, if its client has disconnected. Others are over soon."""
        operation = self._operation
        if operation is not None and operation.waits and self.disconnected:
            self._operation = None
            operation.cancel()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def _with(headers: dict[str, str], head: bytes) -> bytes:
    """Return the head of an answer with these headers, too."""
    first, _, rest = head.partition(b"\r\n")
    lines = [f"{name}: {value}\r\n".encode() for name, value in headers.items()]
    return b"%b\r\n%b%b" % (first, b"".join(lines), rest)

"""Connections: uvicorn's own protocol, with the quick parser in front of it and with limits.

The head of a request has to arrive in time and may only be so large, and every request of a connection learns when its
client has disconnected, not only the last one of a pipeline.
"""

from __future__ import annotations

import resource
import time
from socket import SO_LINGER, SOL_SOCKET
from struct import pack
from typing import TYPE_CHECKING, Any, ClassVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from leasehold.errors import LeaseholdError
from leasehold.server.api import problems
from leasehold.server.api.app import ANSWERED
from leasehold.server.api.problems import Problem
from leasehold.server.api.sse import ABORT
from leasehold.server.http import bodies
from leasehold.server.http.bodies import BODY_BYTES
from leasehold.server.http.quick import HEAD_END, QUICK, QuickConnection, QuickParser
from leasehold.server.http.undelivered import PATIENCE, SOON, WAITED, is_on_its_way

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from leasehold.server.api.app import App


HEAD_SECONDS = 20.0
HEAD_BYTES = 64 * 1024
TOO_LARGE = f"the head of a request may have at most {HEAD_BYTES} bytes"
STARTS = "_start_asgi_task"
"""The method that uvicorn calls with each request, since 0.45. It is not public, and may be renamed."""


class Protocol(HttpToolsProtocol):
    """One connection."""

    parser_of_all: ClassVar[QuickParser]
    limit: ClassVar[ConnectionLimit]
    ours: ClassVar[App]
    """The application that the ASGI one, uvicorn's `app`, is made from."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._quick = QuickConnection(self.parser_of_all, self)
        vars(self)["data_received"] = self._quick.received  # uvloop calls it with what it reads: one step fewer
        self._timer: asyncio.TimerHandle | None = None
        self._piece = 0
        """Size of the chunk that is being parsed."""
        self._begun_in = 0
        """Size of the chunk in which the current request head started."""
        self._head_bytes = 0
        """Bytes that arrived after that chunk, while the head has not ended."""
        self._in_head = False
        self._body: bytearray | None = None
        """The body of a request that the quick parser may take; None: uvicorn has the request."""
        self._body_since = 0.0
        self._made_at = time.monotonic()
        self._active: RequestResponseCycle | QuickConnection | None = None

    # ------------------------------------------------------------------------------------ the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Expect the first request in time."""
        super().connection_made(transport)
        self._quick.connect(transport)
        self._set_timer()
        if not self.limit.admit(self, self.connections):  # type: ignore[arg-type] # all are of this class
            self._refuse(Problem("unreachable", "this server has as many connections as it can; try again"))
            self.transport.close()

    @property
    def is_idle(self) -> bool:
        """True if no request is under way; one whose head has not arrived does not count."""
        return not (self._quick.is_busy() or self.pipeline or self._body is not None or self.transport.is_closing())

    @property
    def last_used(self) -> tuple[bool, float]:
        """Return the order in which idle connections are closed: those without a request first."""
        return not self._quick.is_timed, max(self._made_at, self._quick.answered_at)

    def take_in(self, data: bytes) -> None:
        """Parse bytes that are not a request with a cached head."""
        self._piece = len(data)
        if self._in_head:
            self._head_bytes += self._piece
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(TOO_LARGE)

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed, and a head that is too large, with a problem as body."""
        is_large = msg == TOO_LARGE or self._is_too_large()
        self._refuse(Problem("invalid", TOO_LARGE if is_large else "this cannot be read as HTTP/1.1"))
        self.transport.close()

    def _is_too_large(self) -> bool:
        """True if the head is too large, as far as it was parsed. Its parts are added up only if they could be."""
        if self._begun_in + self._head_bytes <= HEAD_BYTES:
            return False
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > HEAD_BYTES

    def eof_received(self) -> None:
        """Release what the client did not receive before it ended the connection."""
        if self._quick.unheard is not None and is_on_its_way(self.transport):
            self._take_back()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify every request under way that the client has disconnected."""
        self.stop_timer()
        self.limit.forget(self)
        super().connection_lost(exc)
        if exc is not None and time.monotonic() - self._quick.answered_at < SOON and self._has_waited():
            self._take_back()
        for cycle in (self._active, *(each for each, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self._quick.unheard = None

    def _has_waited(self) -> bool:
        """Return True if what was answered last had waited: then the client may have died meanwhile."""
        wait = None if self._quick.unheard is None else self._quick.unheard.wait
        return wait is not None and self._quick.answered_at - wait.since > WAITED

    def _take_back(self) -> None:
        """Release what the last answer granted, which was not received, unless a retry asks for it in time."""
        operation, self._quick.unheard = self._quick.unheard, None
        if operation is not None and self._quick.is_between and not self._quick.is_busy():
            self.loop.call_later(PATIENCE, operation.cancel)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # noqa: ANN401 (uvicorn's)
        self._active = cycle
        self._quick.unheard = None
        extensions: dict[str, Any] = {ABORT: self._abort, ANSWERED: self._quick.answered}
        cycle.scope["extensions"] = extensions
        super()._start_asgi_task(cycle, app)

    def _abort(self) -> None:
        """Close the connection at once, and drop what the client has not read and may never read."""
        connected = self.transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(SOL_SOCKET, SO_LINGER, pack("ii", 1, 0))
        self.transport.abort()

    def _set_timer(self, seconds: float | None = None) -> None:
        self._timer = self.loop.call_later(HEAD_SECONDS if seconds is None else seconds, self._too_slow)
        self._quick.is_timed = True

    def stop_timer(self) -> None:
        """Stop the timer: what it waited for has arrived."""
        self._quick.is_timed = False
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
                self._set_timer(left)  # some of the time was the head's: that of the body is not up yet
                return
            # No other request comes first: the quick parser takes only requests of a free connection.
            self._refuse(bodies.slow())
        self.transport.close()

    def _refuse(self, problem: Problem) -> None:
        response = self.ours.refuse(problem)
        response.headers["connection"] = "close"
        self.transport.write(problems.as_bytes(response))

    # --------------------------------------------------------------------------------------- one request

    def on_message_begin(self) -> None:
        """Expect the rest of the head in time."""
        super().on_message_begin()
        self._in_head, self._begun_in, self._head_bytes = True, self._piece, 0
        self._quick.is_between = False
        if self._timer is None:
            self._set_timer()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a line of the head. A trailer, which follows the body, is dropped: it must never pass for a header."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Keep the request for the quick parser, if it may take it, or pass it to uvicorn."""
        if self._is_too_large():
            raise ValueError(TOO_LARGE)  # which ends the parsing, see `send_400_response`
        self._in_head = False
        if self.url in QUICK and self._is_plain():
            self._body = bytearray()
            self._body_since = self.loop.time()
            return
        self.stop_timer()
        super().on_headers_complete()

    def _is_plain(self) -> bool:
        return (
            self._quick.is_free()
            and not self.expect_100_continue
            and self.parser.get_method() == b"POST"
            and self.parser.get_http_version() == "1.1"
            and not self.parser.should_upgrade()
            # The other parser refuses a body that is too large before it has arrived.
            and not any(name == b"content-length" and int(value) > BODY_BYTES for name, value in self.headers)
        )

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body."""
        if self._body is None:
            super().on_body(body)
            return
        self._body += body
        if len(self._body) > BODY_BYTES:
            self._pass_to_uvicorn()

    def on_message_complete(self) -> None:
        """Have the whole request answered."""
        self._quick.is_between = True
        if self._body is not None:
            self.stop_timer()
            body, keep_alive = bytes(self._body), self.parser.should_keep_alive()
            start, _, rest = self._quick.arrived.partition(HEAD_END)
            is_alone = bool(start) and rest == body and keep_alive  # it arrived in one piece, and others will follow
            if self._quick.take(QUICK[self.url], body, start if is_alone else None, keep_alive=keep_alive):
                self._body = None
                return
            self._pass_to_uvicorn()
        super().on_message_complete()

    def _pass_to_uvicorn(self) -> None:
        body, self._body = self._body, None
        self.stop_timer()
        super().on_headers_complete()
        if body:
            super().on_body(bytes(body))

    # ------------------------------------------------------------------------------------- quick requests

    def take_quick(self, quick: QuickConnection) -> None:
        """Put the quick requests where uvicorn keeps its request: they have all that it expects of one."""
        self.cycle = self._active = quick  # type: ignore[assignment]

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, unless quick requests, for which uvicorn sets no timer, came meanwhile."""
        self.timeout_keep_alive_task = None
        if self._quick.was_used or self._quick.is_busy():
            self._quick.was_used = False
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        else:
            super().timeout_keep_alive_handler()


def protocol_for(app: App) -> type[Protocol]:
    """Return the class of this application's connections."""
    if STARTS not in vars(HttpToolsProtocol):  # ours would never be called
        raise LeaseholdError(
            f"uvicorn {uvicorn.__version__} is not one that this Leasehold knows how to serve with: it takes 0.45 or "
            "later; if this one is later, update Leasehold, or install an earlier uvicorn"
        )
    own = {"parser_of_all": QuickParser(app), "limit": ConnectionLimit(), "ours": app}
    return type("BoundProtocol", (Protocol,), own)


RESERVED = 256
"""Files that are left for the store, logs, webhooks, and connections that are accepted before others are closed."""
FEWEST = 64
SHARE = 32
"""One in so many connections is closed at once: a flood must not have all of them looked at for each newcomer."""


class ConnectionLimit:
    """At most so many connections at the same time, so that the process never runs out of files.

    Without a free file a process can neither open its store nor accept a connection. Idle connections are closed for
    new ones: those first on which no request has arrived. A client that lost an idle connection connects again.
    """

    def __init__(self, most: int | None = None) -> None:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = max(FEWEST, files - RESERVED) if most is None else most
        self._closing: set[Protocol] = set()
        """Connections that were closed for others, and still count among those that are open."""

    def admit(self, newcomer: Protocol, connections: Collection[Protocol]) -> bool:
        """Close idle connections if there are too many; False if a request is under way on each of them."""
        excess = len(connections) - len(self._closing) - self._most
        if excess <= 0:
            return True
        idle = [each for each in connections if each is not newcomer and each.is_idle]
        idle.sort(key=lambda each: each.last_used)
        for each in idle[: excess + self._most // SHARE]:
            self._closing.add(each)
            each.transport.close()
        return len(idle) >= excess

    def forget(self, connection: Protocol) -> None:
        """Stop counting a connection that has ended."""
        self._closing.discard(connection)

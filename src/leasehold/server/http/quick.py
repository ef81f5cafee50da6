"""The hot path: acquire, renew and release, answered without building an ASGI request.

It only ever takes what is plain and allowed; whatever is not goes the ordinary way, which says why not. So there is one
place for refusals of callers, and this one only has to be right about a yes.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from leasehold.domain.outcomes import Granted, Refused
from leasehold.engine.pending import Pending
from leasehold.errors import InvalidInput
from leasehold.server.access import permissions
from leasehold.server.access.origin import check_place
from leasehold.server.access.principals import OPEN
from leasehold.server.api import decoding, problems
from leasehold.server.api import encoding as shapes
from leasehold.server.api.batches import Batch
from leasehold.server.api.problems import Problem
from leasehold.server.api.routes import ROUTES
from leasehold.server.api.waiting import Wait
from leasehold.server.http.lines import END
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.responses import Response

    from leasehold.requests.to_command import Order
    from leasehold.server.access.principals import Principal
    from leasehold.server.api.app import App
    from leasehold.server.api.requests import Body
    from leasehold.server.api.routes import Route
    from leasehold.server.api.waiting import Answer
    from leasehold.server.http.lines import Line
    from leasehold.server.http.protocol import Protocol

log = logging.getLogger("leasehold.server")
HOT = {route.path.encode(): route for route in ROUTES if route.verb in ("acquire", "renew", "release", "batch")}
HEADS = 4_096
"""So many heads are cached: a request with a cached one costs a third less processor time (docs/adr/0041)."""
HEAD_BYTES = 1_024
"""Longer ones are not cached."""
_KEY = b"Bearer lh_"
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_OKS: Final = tuple(_OK % length for length in range(2_048))
"""By the length of what follows."""
_UNUSABLE: Final = (Problem, InvalidInput, *decoding.MISSPELLED)
"""Why a request may have to go the ordinary way."""


class Asked(Pending):
    """One call that is answered at once."""

    __slots__ = ("_hot", "_line")

    def __init__(self, hot: Hot, line: Line, order: Order) -> None:
        super().__init__(order.command, order.secret, self._deliver)
        self._hot = hot
        self._line = line

    def _deliver(self, _pending: Pending) -> None:
        self._hot.served.deliver(self._answered)

    def _answered(self) -> None:
        """The engine has committed. Nothing that happens here may break it."""
        line = self._line
        try:
            if line.has_left():
                self.take_back()
            else:
                line.end(self._hot.answer(self), self)
        except Exception:
            log.exception("an answer could not be given")
            line.transport.close()

    def take_back(self) -> None:
        """What it was given was not heard."""
        if isinstance(self.outcome, Granted):
            self._hot.served.abandon(self)


class WaitingAnswer(Wait):
    """An acquire that waits."""

    __slots__ = ("_hot", "_line")

    def __init__(self, hot: Hot, line: Line, who: Principal, asked: dict[str, Any], order: Order) -> None:
        super().__init__(hot.waits, who, asked, order)
        self._hot = hot
        self._line = line

    def hear(self, answer: Answer) -> None:
        """The wait is over."""
        if self._line.has_left():
            self.leave()
            return
        said = self._hot.answer(answer) if isinstance(answer, Pending) else self._hot.written(answer)
        self._line.end(said, self)


class Several:
    """Several calls in one request."""

    __slots__ = ("_batch", "_line")

    def __init__(self, line: Line, batch: Batch) -> None:
        self._line = line
        self._batch = batch

    def ended(self) -> None:
        """The engine has committed. Nothing that happens here may break it."""
        try:
            if self._line.has_left():
                self.take_back()
            else:
                self._line.end(_ok(problems.encode(self._batch.told)), self)
        except Exception:
            log.exception("the answers could not be given")
            self._line.transport.close()

    def take_back(self) -> None:
        """What they were given was not heard."""
        self._batch.take_back()


class Head:
    """What the first lines of a request said, for the next time that they are the same."""

    __slots__ = ("decode", "length", "size", "start", "token", "verb")

    def __init__(self, verb: str, decode: Callable[[bytes], Body], length: int, token: str | None) -> None:
        self.verb = verb
        self.decode = decode
        self.length = length
        self.token = token
        """The key that it shows; None: nothing, on a server that asks for nothing."""
        self.start = b""
        """The head itself, once it is kept in mind, and what ends it;"""
        self.size = 0
        """and how long such a request is."""

    def keep(self, head: bytes) -> None:
        """It is kept in mind."""
        self.start = head + END
        self.size = len(self.start) + self.length


class Hot:
    """Takes what it can."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._door = app.door
        self._rates = app.rates
        self.waits = app.waits
        self.served = app.served
        self.heads: dict[bytes, Head] = {}
        """Of requests that were plain and allowed, bytes and all."""

    def take(self, line: Line, protocol: Protocol, body: bytes, head: bytes | None) -> bool:
        """Whether this request is being answered; if not, nothing has happened. `head`: keep it in mind."""
        route = HOT[protocol.url]
        try:
            known = self._understood(protocol.headers, route, len(body))
        except Problem:
            return False
        if known is None or not self.begin(line, known, body, keep_alive=protocol.parser.should_keep_alive()):
            return False
        if head is not None and len(head) <= HEAD_BYTES:
            if len(self.heads) >= HEADS:
                self.heads.clear()
            known.keep(head)
            self.heads[head] = known
        return True

    def _understood(self, headers: Iterable[tuple[bytes, bytes]], route: Route, length: int) -> Head | None:
        given: dict[bytes, bytes] = {}
        for name, value in headers:
            given.setdefault(name, value)
        decoding.check_media_type(_text(given.get(b"content-type")))
        decoder = decoding.decoder_of(route.takes)
        shown = given.get(b"authorization")
        if shown is not None:
            token = shown[7:].decode("latin-1").strip() if shown.startswith(_KEY) else None
            return None if token is None else Head(route.verb, decoder, length, token)
        check_place(*(_text(given.get(name)) for name in (b"host", b"origin", b"sec-fetch-site")))
        return Head(route.verb, decoder, length, None)

    def begin(self, line: Line, head: Head, body: bytes, *, keep_alive: bool = True) -> bool:
        """A request with a head that is known, likewise."""
        now = time.monotonic()
        if not self._door.is_fresh(now):
            return False
        if head.verb == "batch":
            return self._begin_several(line, head, body, keep_alive=keep_alive)
        try:
            who = self._who(head.token)
            if who is None:
                return False
            asked = permissions.bounded(who, head.verb, decoding.arguments(head.decode(body)))
            self._rates.take(who.id, now)
        except _UNUSABLE:
            return False
        if asked.get("wait"):
            return self._begin_wait(line, who, asked, keep_alive=keep_alive)
        order = self.served.order(head.verb, asked, who.authority)
        if isinstance(order, Refused):
            return False
        line.begin(None, keep_alive=keep_alive)
        self.served.enter(Asked(self, line, order))
        return True

    def _begin_wait(self, line: Line, who: Principal, asked: dict[str, Any], *, keep_alive: bool) -> bool:
        order = self.waits.order(who, asked)
        if isinstance(order, Problem):
            return False
        wait = WaitingAnswer(self, line, who, asked, order)
        line.begin(wait, keep_alive=keep_alive)
        self.waits.begin(wait)
        return True

    def _begin_several(self, line: Line, head: Head, body: bytes, *, keep_alive: bool) -> bool:
        try:
            who = self._who(head.token)
            if who is None:
                return False
            permissions.allow(who, head.verb)
            batch = Batch(self._app, who, decoding.arguments(head.decode(body))["calls"])
        except (Problem, *decoding.MISSPELLED):
            return False
        line.begin(None, keep_alive=keep_alive)
        batch.begin(Several(line, batch).ended)
        return True

    def _who(self, token: str | None) -> Principal | None:
        if token is not None:
            return self._door.by_key(token)
        return OPEN if self._door.is_open else None

    def answer(self, pending: Pending) -> bytes:
        """What goes over the wire."""
        if pending.error is not None:
            return self.written(pending.error)
        outcome = pending.outcome
        if wire.is_refusal(outcome):
            return self.written(problems.of_refusal(outcome))
        return _yes(outcome)

    def written(self, answer: Response | BaseException) -> bytes:
        """An answer of the ordinary way, likewise."""
        return problems.as_bytes(self._app.tell(answer) if isinstance(answer, BaseException) else answer)


def _yes(outcome: object) -> bytes:
    return _ok(problems.encode(shapes.answer(outcome)))


def _ok(content: bytes) -> bytes:
    length = len(content)
    return (_OKS[length] if length < len(_OKS) else _OK % length) + content


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")

"""The hot path: acquire, renew and release, answered without building an ASGI request.

It only ever takes what is plain and allowed; whatever is not goes the ordinary way, which says why not. So there is one
place for refusals of callers, and this one only has to be right about a yes.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from leasehold import wire
from leasehold.errors import InvalidInput
from leasehold.model import Granted, Refused
from leasehold.pending import Pending
from leasehold.server import decoding, permissions, problems
from leasehold.server.auth import OPEN, check_place
from leasehold.server.batches import Batch
from leasehold.server.problems import Problem
from leasehold.server.routes import ROUTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.responses import Response

    from leasehold.orders import Order
    from leasehold.server.app import App
    from leasehold.server.auth import Principal
    from leasehold.server.protocol import Protocol
    from leasehold.server.requests import Body
    from leasehold.server.routes import Route
    from leasehold.server.waiting import Answer, Wait

log = logging.getLogger("leasehold.server")
HOT = {route.path.encode(): route for route in ROUTES if route.verb in ("acquire", "renew", "release", "batch")}
HEADS = 4_096
"""How many heads are kept in mind."""
HEAD_BYTES = 1_024
"""Longer ones are not."""
_KEY = b"Bearer lh_"
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"


class Asked(Pending):
    """One call that is answered at once. It stands where uvicorn keeps the request of a connection."""

    __slots__ = ("_hot", "_line", "disconnected", "keep_alive", "response_complete")

    def __init__(self, hot: Hot, line: Protocol, order: Order, *, keep_alive: bool) -> None:
        super().__init__(order.command, order.secret)
        self._hot = hot
        self._line = line
        self.keep_alive = keep_alive
        self.disconnected = False
        self.response_complete = False

    @property
    def message_event(self) -> Asked:
        """What uvicorn wakes. Not kept in a field: whatever refers to itself stays until the collector comes by."""
        return self

    def set(self) -> None:
        """Uvicorn wakes the request, for it to see that its client is gone: when the answer comes is soon enough."""

    def _tell(self) -> None:
        self._hot.served.deliver(self._answered)

    def _answered(self) -> None:
        """The engine has committed. Nothing that happens here may break it."""
        try:
            if not (self.disconnected or self._line.transport.is_closing()):
                self._line.end_hot(self, self._hot.answer(self))
            else:
                self.take_back()
        except Exception:
            log.exception("an answer could not be given")
            self._line.transport.close()

    def take_back(self) -> None:
        """What it was given was not heard."""
        if isinstance(self.outcome, Granted):
            self._hot.served.abandon(self)


class Relayed:
    """A request whose answer somebody else is told first, and hands on; likewise."""

    __slots__ = ("_hot", "_line", "disconnected", "keep_alive", "response_complete")

    def __init__(self, hot: Hot, line: Protocol, *, keep_alive: bool) -> None:
        self._hot = hot
        self._line = line
        self.keep_alive = keep_alive
        self.disconnected = False
        self.response_complete = False

    @property
    def message_event(self) -> Relayed:
        """What uvicorn wakes."""
        return self

    def set(self) -> None:
        """Uvicorn wakes the request: when the answer comes is soon enough."""

    def take_back(self) -> None:
        """What it was given was not heard."""
        raise NotImplementedError

    def _has_left(self) -> bool:
        return self.disconnected or self._line.transport.is_closing()


class Waiting(Relayed):
    """An acquire that waits."""

    __slots__ = ("wait",)

    def __init__(self, hot: Hot, line: Protocol, *, keep_alive: bool) -> None:
        super().__init__(hot, line, keep_alive=keep_alive)
        self.wait: Wait | None = None

    def set(self) -> None:
        """Uvicorn wakes the request, for it to see that its client is gone."""
        if self.disconnected:
            self.take_back()

    def told(self, answer: Answer) -> None:
        """The wait is over."""
        if self._has_left():
            self.take_back()
            return
        hot = self._hot
        self._line.end_hot(self, hot.answer(answer) if isinstance(answer, Pending) else hot.written(answer))

    def take_back(self) -> None:
        """What it was given was not heard, or nobody waits for it any more."""
        if self.wait is not None:
            self.wait.leave()


class Several(Relayed):
    """Several calls in one request."""

    __slots__ = ("_batch",)

    def __init__(self, hot: Hot, line: Protocol, batch: Batch, *, keep_alive: bool) -> None:
        super().__init__(hot, line, keep_alive=keep_alive)
        self._batch = batch

    def ended(self) -> None:
        """The engine has committed. Nothing that happens here may break it."""
        try:
            if self._has_left():
                self.take_back()
            else:
                content = problems.encode(self._batch.told)
                self._line.end_hot(self, _OK % (len(content), content))
        except Exception:
            log.exception("the answers could not be given")
            self._line.transport.close()

    def take_back(self) -> None:
        """What they were given was not heard."""
        self._batch.take_back()


class Head:
    """What the first lines of a request said, for the next time that they are the same."""

    __slots__ = ("decode", "length", "token", "verb")

    def __init__(self, verb: str, decode: Callable[[bytes], Body], length: int, token: str | None) -> None:
        self.verb = verb
        self.decode = decode
        self.length = length
        self.token = token
        """The key that it shows; None: nothing, on a server that asks for nothing."""


class Hot:
    """Takes what it can."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.served = app.served
        self.heads: dict[bytes, Head] = {}
        """Of requests that were plain and allowed, bytes and all."""

    def take(self, line: Protocol, body: bytes, head: bytes | None) -> bool:
        """Whether this request is being answered; if not, nothing has happened. `head`: keep it in mind."""
        route = HOT[line.url]
        try:
            known = self._understood(line.headers, route, len(body))
        except Problem:
            return False
        if known is None or not self.begin(line, known, body, keep_alive=line.parser.should_keep_alive()):
            return False
        if head is not None and len(head) <= HEAD_BYTES:
            if len(self.heads) >= HEADS:
                self.heads.clear()
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
        check_place(_text(given.get(b"host")), _text(given.get(b"origin")))
        return Head(route.verb, decoder, length, None)

    def begin(self, line: Protocol, head: Head, body: bytes, *, keep_alive: bool = True) -> bool:
        """A request with a head that is known, likewise."""
        if not self._app.door.is_fresh:
            return False
        if head.verb == "batch":
            return self._begin_several(line, head, body, keep_alive=keep_alive)
        try:
            asked = self._asked(head, body)
        except (Problem, InvalidInput, *decoding.MISSPELLED):
            return False
        if asked is None:
            return False
        if asked.get("wait"):
            return self._begin_wait(line, asked, keep_alive=keep_alive)
        order = self.served.order(head.verb, asked)
        if isinstance(order, Refused):
            return False
        cycle = Asked(self, line, order, keep_alive=keep_alive)
        line.begin_hot(cycle)
        self.served.enter(cycle)
        return True

    def _begin_wait(self, line: Protocol, asked: dict[str, Any], *, keep_alive: bool) -> bool:
        cycle = Waiting(self, line, keep_alive=keep_alive)
        wait = self._app.waits.begin(asked, cycle.told)
        if isinstance(wait, Problem):
            return False
        cycle.wait = wait
        line.begin_hot(cycle)
        return True

    def _begin_several(self, line: Protocol, head: Head, body: bytes, *, keep_alive: bool) -> bool:
        try:
            who = self._who(head.token)
            if who is None:
                return False
            permissions.allow(who, head.verb)
            batch = Batch(self._app, who, decoding.arguments(head.decode(body))["calls"])
        except (Problem, *decoding.MISSPELLED):
            return False
        several = Several(self, line, batch, keep_alive=keep_alive)
        line.begin_hot(several)
        batch.begin(several.ended)
        return True

    def _asked(self, head: Head, body: bytes) -> dict[str, Any] | None:
        who = self._who(head.token)
        if who is None:
            return None
        asked = permissions.bounded(who, head.verb, decoding.arguments(head.decode(body)))
        self._app.rates.take(who.id)
        return asked

    def _who(self, token: str | None) -> Principal | None:
        door = self._app.door
        if token is not None:
            return door.by_key(token)
        return OPEN if door.is_open else None

    def answer(self, pending: Pending) -> bytes:
        """What goes over the wire."""
        if pending.error is not None:
            return self.written(pending.error)
        outcome = pending.outcome
        if wire.is_refusal(outcome):
            return self.written(problems.of_refusal(outcome))
        content = problems.encode(wire.answer(outcome))
        return _OK % (len(content), content)

    def written(self, answer: Response | BaseException) -> bytes:
        """An answer of the ordinary way, likewise."""
        return problems.as_bytes(self._app.tell(answer) if isinstance(answer, BaseException) else answer)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")

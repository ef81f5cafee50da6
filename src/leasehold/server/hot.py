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
from leasehold.server import decoding, permissions, problems
from leasehold.server.auth import OPEN, check_place
from leasehold.server.problems import Problem
from leasehold.server.routes import ROUTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.responses import Response

    from leasehold.pending import Pending
    from leasehold.server.app import App
    from leasehold.server.auth import Principal
    from leasehold.server.protocol import Protocol
    from leasehold.server.requests import Body
    from leasehold.server.waiting import Wait

log = logging.getLogger("leasehold.server")
HOT = {route.path.encode(): route for route in ROUTES if route.verb in ("acquire", "renew", "release")}
_KEY = b"Bearer lh_"
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"


class Cycle:
    """Stands where uvicorn keeps the request that is under way on a connection."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "response_complete", "wait")

    def __init__(self, *, keep_alive: bool) -> None:
        self.keep_alive = keep_alive
        self.disconnected = False
        self.response_complete = False
        self.message_event = self
        self.wait: Wait | None = None

    def set(self) -> None:
        """Uvicorn wakes the request, for it to see that its client is gone."""
        if self.disconnected and self.wait is not None:
            self.wait.leave()


class Hot:
    """Takes what it can."""

    def __init__(self, app: App) -> None:
        self._app = app

    def take(self, line: Protocol, body: bytes) -> bool:
        """Whether this request is being answered; if not, nothing has happened."""
        if not self._app.door.is_fresh:
            return False
        route = HOT[line.url]
        try:
            asked = self._understood(line.headers, route.verb, route.takes, body)
        except (Problem, InvalidInput):
            return False
        if asked is None:
            return False
        cycle = Cycle(keep_alive=line.parser.should_keep_alive())
        if asked.get("wait"):
            return self._wait(line, cycle, asked)
        pending = self._app.served.submit(route.verb, asked, lambda done: self._tell(line, cycle, done))
        if isinstance(pending, Refused):
            return False
        line.begin_hot(cycle)
        return True

    def _wait(self, line: Protocol, cycle: Cycle, asked: dict[str, Any]) -> bool:
        def tell(answer: Response | BaseException) -> None:
            if cycle.disconnected or line.transport.is_closing():
                if cycle.wait is not None:
                    cycle.wait.leave()
                return
            response = self._app.tell(answer) if isinstance(answer, BaseException) else answer
            line.end_hot(cycle, problems.as_bytes(response))

        wait = self._app.waits.begin(asked, tell)
        if isinstance(wait, Problem):
            return False
        cycle.wait = wait
        line.begin_hot(cycle)
        return True

    def _understood(
        self, headers: Iterable[tuple[bytes, bytes]], verb: str, kind: type[Any], content: bytes
    ) -> dict[str, Any] | None:
        given: dict[bytes, bytes] = {}
        for name, value in headers:
            given.setdefault(name, value)
        who = self._who(given)
        if who is None:
            return None
        media = given.get(b"content-type")
        body: Body = decoding.decode(kind, content, None if media is None else media.decode("latin-1"))
        asked = decoding.arguments(body)
        permissions.allow(who, verb)
        asked = permissions.bound(who, verb, asked)
        if verb in permissions.PROVEN:
            del asked["space"]
        self._app.rates.take(who.id)
        return asked

    def _who(self, given: dict[bytes, bytes]) -> Principal | None:
        door, shown = self._app.door, given.get(b"authorization")
        if shown is not None:
            return door.by_key(shown[7:].decode("latin-1").strip()) if shown.startswith(_KEY) else None
        if not door.is_open:
            return None
        host, origin = given.get(b"host"), given.get(b"origin")
        check_place(
            None if host is None else host.decode("latin-1"), None if origin is None else origin.decode("latin-1")
        )
        return OPEN

    def _tell(self, line: Protocol, cycle: Cycle, pending: Pending) -> None:
        """Called by the engine, which nothing that happens here may break."""
        try:
            if not (cycle.disconnected or line.transport.is_closing()):
                line.end_hot(cycle, self._answer(pending))
            elif isinstance(pending.outcome, Granted):
                self._app.served.abandon(pending)
        except Exception:
            log.exception("an answer could not be given")
            line.transport.close()

    def _answer(self, pending: Pending) -> bytes:
        if pending.error is None:
            outcome = pending.outcome
            if not wire.is_refusal(outcome):
                content = problems.encode(wire.answer(outcome))
                return _OK % (len(content), content)
            response = self._app.tell(problems.of_refusal(outcome))
        else:
            response = self._app.tell(pending.error)
        return problems.as_bytes(response)

"""The MCP sessions of a server. Until one is used, and again while it is idle, it costs a line in a table.

The SDK keeps tasks and buffers for each session: 55 KB, and 300 KB once a tool was called. So `initialize` is answered
without them, and its body is kept: with it, the SDK's part of a session is made when the session is used, and given up
when it is idle or others need the room. A client does not notice that. A principal has a share of both; one that takes
much loses some before others.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING
from uuid import uuid4

import pydantic_core
from starlette.datastructures import Headers, MutableHeaders

from leasehold.server.access.shares import Shares
from leasehold.server.api.problems import Problem, ok
from leasehold.server.http.bodies import too_large

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from leasehold.mcp.http import Caller, Endpoint

log = logging.getLogger("leasehold.server")
HEADER = "mcp-session-id"
KNOWN_EACH, KNOWN_MOST = 1_000, 10_000
"""Sessions that are remembered."""
LIVE_EACH, LIVE_MOST = 200, 500
"""Sessions that the SDK has a part of."""
OPENING_BYTES = 8 * 1024
"""What a client may say of itself: as much is kept for each session."""
IDLE = 60.0
"""The SDK's part of a session that was not used for so long is given up, in seconds,"""
FORGOTTEN = 8 * 3600.0
"""and the session itself is forgotten."""
TOO_MANY = "you use {} MCP sessions at once already; end some first (DELETE /mcp)"


class McpHttpSession:
    """One session, as its client knows it."""

    def __init__(self, owner: str, opening: bytes) -> None:
        self.id = uuid4().hex
        self.owner = owner
        """Whose share it is taken from; nobody else may use it."""
        self.opening = opening
        """The body that it was opened with."""
        self.live: str | None = None
        """Under which id the SDK knows it, while it does."""
        self.busy = 0
        """How many requests are under way,"""
        self.listening = 0
        """and how many only listen for what a server may say of its own, which this one does not."""
        self.making = asyncio.Lock()
        self.timer: asyncio.TimerHandle | None = None


class McpHttpSessions:
    """Every session of one server, between its clients and the SDK."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._by_id: dict[str, McpHttpSession] = {}
        self._known = Shares[McpHttpSession](KNOWN_EACH, KNOWN_MOST, self._forget, _is_idle)
        self._live = Shares[McpHttpSession](LIVE_EACH, LIVE_MOST, self._rest, _is_idle)
        self._ending: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """The server goes away, and the SDK's parts with it."""
        for session in self._by_id.values():
            if session.timer is not None:
                session.timer.cancel()
        self._by_id.clear()

    async def answer(self, owner: str, caller: Caller, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Answer one request, whose body was read already."""
        given = Headers(scope=scope).get(HEADER)
        session = self._by_id.get(given) if given is not None else None
        if session is not None and session.owner == owner:
            await self._go_on(session, caller, scope, receive, send)
        elif given is None and scope["method"] == "POST" and _is_opening(body):
            await self._open(owner, caller, scope, body, receive, send)
        else:
            await self.endpoint.answer(caller, scope, receive, send)  # it knows no such session, or needs none

    async def _open(self, owner: str, caller: Caller, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        if len(body) > OPENING_BYTES:
            raise too_large(OPENING_BYTES)
        session = McpHttpSession(owner, body)
        if not self._known.take(owner, session):
            raise Problem("too_many", TOO_MANY.format(KNOWN_EACH))
        self._by_id[session.id] = session
        named = _Named(send, session.id)
        session.busy += 1
        try:
            await self.endpoint.answer(caller, scope, receive, named, alone=True)
        finally:
            session.busy -= 1
            self._done(session)
            if named.status != 200:
                self._forget(session)

    async def _go_on(self, session: McpHttpSession, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        self._known.use(session.owner, session)
        self._live.use(session.owner, session)
        if scope["method"] == "DELETE":
            self._forget(session)
            await ok({})(scope, receive, send)
            return
        if session.timer is not None:
            session.timer.cancel()
        is_listening = scope["method"] == "GET"
        session.listening += is_listening
        session.busy += not is_listening
        try:
            live = await self._made(session, caller)
            headers = [(name, value) for name, value in scope["headers"] if name != HEADER.encode()]
            headers.append((HEADER.encode(), live.encode()))
            named = _Named(send, session.id)
            await self.endpoint.answer(caller, {**scope, "headers": headers}, receive, named)
            if named.status == 404:  # the SDK has lost it
                self._rest(session)
        finally:
            session.listening -= is_listening
            session.busy -= not is_listening
            self._done(session)

    async def _made(self, session: McpHttpSession, caller: Caller) -> str:
        """The SDK's id of this session."""
        async with session.making:
            if session.live is None:
                if not self._live.take(session.owner, session):
                    raise Problem("too_many", TOO_MANY.format(LIVE_EACH))
                try:
                    session.live = await self.endpoint.begin(caller, session.opening)
                except BaseException:
                    self._live.leave(session.owner, session)
                    raise
            live = session.live
            if session.id not in self._by_id:  # it was ended meanwhile
                self._rest(session)
            return live

    def _done(self, session: McpHttpSession) -> None:
        if not (session.busy or session.listening) and session.id in self._by_id:
            session.timer = asyncio.get_running_loop().call_later(IDLE, self._idle, session)

    def _idle(self, session: McpHttpSession) -> None:
        self._rest(session)
        session.timer = asyncio.get_running_loop().call_later(FORGOTTEN, self._forget, session)

    def _rest(self, session: McpHttpSession) -> None:
        """Give up the SDK's part; whatever still goes on there ends."""
        self._live.leave(session.owner, session)
        live, session.live = session.live, None
        if live is not None:
            task = asyncio.get_running_loop().create_task(self.endpoint.end(live))
            self._ending.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a session of MCP could not be ended", exc_info=task.exception())

    def _forget(self, session: McpHttpSession) -> None:
        """Its client is told so when it comes back, and opens another."""
        self._known.leave(session.owner, session)
        self._by_id.pop(session.id, None)
        if session.timer is not None:
            session.timer.cancel()
        self._rest(session)


class _Named:
    """The way to the client, which is told the id of its session, and not the SDK's."""

    def __init__(self, send: Send, session: str) -> None:
        self._send = send
        self._session = session
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.status < 400:
                MutableHeaders(scope=message)[HEADER] = self._session
        await self._send(message)


def _is_idle(session: McpHttpSession) -> bool:
    return not session.busy


def _is_opening(body: bytes) -> bool:
    """Whether the SDK would begin a session for it: it reads JSON in the same way."""
    try:
        message = pydantic_core.from_json(body)
    except ValueError:
        return False
    return isinstance(message, dict) and message.get("method") == "initialize"

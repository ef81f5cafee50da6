"""The MCP sessions of a server. A session that is idle, or was not used yet, costs only a row in a table.

The SDK keeps tasks and buffers for each of its sessions: 55 KB, and 300 KB once a tool was called. So `initialize` is
answered without one, and its body is kept. From it the SDK's session is started when the client uses the session, and
ended when the session is idle or others need the room; the client does not notice. A principal has a share of both.
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

    from leasehold.mcp.http import Endpoint, HttpParty

log = logging.getLogger("leasehold.server")
HEADER = "mcp-session-id"
KNOWN_EACH, KNOWN_MOST = 1_000, 10_000
"""Sessions that are known, for one principal and in all."""
LIVE_EACH, LIVE_MOST = 200, 500
"""Sessions that the SDK has started, for one principal and in all."""
OPENING_BYTES = 8 * 1024
"""The largest `initialize`, which is kept for each session."""
IDLE = 60.0
"""The SDK's session is ended after so long without use, in seconds."""
FORGOTTEN = 8 * 3600.0
"""The session itself is dropped after so long without use, in seconds."""
TOO_MANY = "you use {} MCP sessions at once already; end some first (DELETE /mcp)"


class McpHttpSession:
    """One session, as its client knows it."""

    def __init__(self, owner: str, opening: bytes) -> None:
        self.id = uuid4().hex
        self.owner = owner
        """The principal whose share it is taken from; no other may use it."""
        self.opening = opening
        """The body of its `initialize`."""
        self.live: str | None = None
        """The id of the SDK's session, while there is one."""
        self.busy = 0
        """How many requests are under way."""
        self.listening = 0
        """How many requests only listen for messages of the server, which sends none of its own."""
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
        """Drop every session, because the server stops."""
        for session in self._by_id.values():
            if session.timer is not None:
                session.timer.cancel()
        self._by_id.clear()

    async def answer(
        self, owner: str, caller: HttpParty, scope: Scope, body: bytes, receive: Receive, send: Send
    ) -> None:
        """Answer a request whose body was read already."""
        given = Headers(scope=scope).get(HEADER)
        session = self._by_id.get(given) if given is not None else None
        if session is not None and session.owner == owner:
            await self._use(session, caller, scope, receive, send)
        elif given is None and scope["method"] == "POST" and _is_opening(body):
            await self._open(owner, caller, scope, body, receive, send)
        else:
            await self.endpoint.answer(caller, scope, receive, send)  # which refuses an unknown session

    async def _open(
        self, owner: str, caller: HttpParty, scope: Scope, body: bytes, receive: Receive, send: Send
    ) -> None:
        """Begin a session with its first request, unless its owner has too many."""
        if len(body) > OPENING_BYTES:
            raise too_large(OPENING_BYTES)
        session = McpHttpSession(owner, body)
        if not self._known.take(owner, session):
            raise Problem("too_many", TOO_MANY.format(KNOWN_EACH))
        self._by_id[session.id] = session
        named = _Renaming(send, session.id)
        session.busy += 1
        try:
            await self.endpoint.answer(caller, scope, receive, named, alone=True)
        finally:
            session.busy -= 1
            self._done(session)
            if named.status != 200:
                self._forget(session)

    async def _use(
        self, session: McpHttpSession, caller: HttpParty, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request of a known session: end it, or start it again if it rests, and pass the request on."""
        caller.connection = session.id
        self._known.use(session.owner, session)
        self._live.use(session.owner, session)
        if scope["method"] == "DELETE":
            self._forget(session)
            await self.endpoint.leave(caller)
            await ok({})(scope, receive, send)
            return
        if session.timer is not None:
            session.timer.cancel()
        is_listening = scope["method"] == "GET"
        session.listening += is_listening
        session.busy += not is_listening
        try:
            live = await self._started(session, caller)
            headers = [(name, value) for name, value in scope["headers"] if name != HEADER.encode()]
            headers.append((HEADER.encode(), live.encode()))
            named = _Renaming(send, session.id)
            await self.endpoint.answer(caller, {**scope, "headers": headers}, receive, named)
            if named.status == 404:  # the SDK has ended it
                self._rest(session)
        finally:
            session.listening -= is_listening
            session.busy -= not is_listening
            self._done(session)

    async def _started(self, session: McpHttpSession, caller: HttpParty) -> str:
        """Return the id of the SDK's session, which is started if there is none."""
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
        """End the SDK's session, and whatever still runs in it."""
        self._live.leave(session.owner, session)
        live, session.live = session.live, None
        if live is not None:
            task = asyncio.get_running_loop().create_task(self.endpoint.end(live))
            self._ending.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("an MCP session could not be ended", exc_info=task.exception())

    def _forget(self, session: McpHttpSession) -> None:
        """Drop a session. A client that uses it again is refused, and opens another."""
        self._known.leave(session.owner, session)
        self._by_id.pop(session.id, None)
        if session.timer is not None:
            session.timer.cancel()
        self._rest(session)


class _Renaming:
    """A `send` that replaces the id of the SDK's session by that of the client's."""

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
    """True if the SDK would start a session for this body; the JSON is read as the SDK does."""
    try:
        message = pydantic_core.from_json(body)
    except ValueError:
        return False
    return isinstance(message, dict) and message.get("method") == "initialize"

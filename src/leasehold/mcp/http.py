"""The tools over streamable HTTP, as an ASGI application. The server that admits a party decides what it may do.

A client that disconnects leaves the queue at once, in every revision of the protocol, and a grant that could not be
sent is released.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from leasehold.config.identity import clean_part
from leasehold.mcp.handlers import ToolHandlers
from leasehold.mcp.server import build
from leasehold.mcp.tickets import unused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp.server.context import ServerRequestContext
    from starlette.requests import Request
    from starlette.types import Message, Receive, Scope, Send

    from leasehold.mcp.callers import Party
    from leasehold.mcp.tickets import Claims

    Ask = Callable[[str, dict[str, Any]], Any]

_OPENED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
_HEADERS = ((b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream"))
_SESSION = b"mcp-session-id"
_KEY = "leasehold.party"
CLIENT_BYTES, HOLDER_BYTES = 64, 256
"""So much of a client's name goes into the name of a holder, and the longest name of a holder."""


class HttpParty:
    """The sender of one request."""

    def __init__(
        self,
        id_: str,
        name: str,
        session: str | None,
        ask: Ask,
        lost: Callable[[str], list[str]] = lambda _: [],
    ) -> None:
        self.id = id_
        self.connection = ""
        """The id of its MCP session, once it is known to be the caller's own."""
        self.client = ""
        """The name by which the MCP client introduced itself."""
        self._name = name
        self._session = session
        self.ask = ask
        self._lost = lost
        """Returns what the agent of a name has lost since its last answer."""
        self.gone = asyncio.Event()
        self.unsent: list[tuple[str, str, Claims]] = []
        """Leases whose grants are not sent yet, with their tokens and the claims on them."""

    def agent(self, given: str | None) -> str:
        """Return the name of the agent; a Leasehold session acts in its own name only."""
        return self._name if self._session is not None else given or self._introduced()

    def _introduced(self) -> str:
        """Return the names of the key and of the MCP client, with a digest of the MCP session if there is one.

        A digest, as all may read the name of a holder, and the id of the session opens the session.
        """
        client = [clean_part(self.client, "client", CLIENT_BYTES)] if self.client else []
        session = [sha256(self.connection.encode()).hexdigest()[:8]] if self.connection else []
        told = f"/{'-'.join(client + session)}" if client or session else ""
        return self._name.encode()[: HOLDER_BYTES - len(told.encode())].decode(errors="ignore") + told

    def is_one(self, given: str | None) -> bool:
        """Return True if no other agent has this name: several may share a key, but none a session of either kind."""
        return self._session is not None or given is not None or bool(self.connection)

    def is_named(self, given: str | None) -> bool:
        """Return True if the agent chose its name: a session acts in its own, whichever sub-agent uses it."""
        return self._session is None and given is not None

    async def credential(self, agent: str) -> str | None:  # noqa: ARG002 (as `Party` has it)
        """Return the session of the request, if it has one."""
        return self._session

    def news(self, given: str | None) -> list[str]:
        """Return what this agent has lost since its last answer."""
        return self._lost(self.agent(given))

    def granted(self, lease: str, token: str, claims: Claims) -> None:
        """Remember a grant until its answer is sent."""
        self.unsent.append((lease, token, claims))

    def sent(self) -> None:
        """Note that the answer was sent."""
        for *_, claims in self.unsent:
            claims.is_heard = True
        self.unsent.clear()

    async def close(self) -> None:
        """Release what could not be sent, unless another call with the same ticket has received it or may yet."""
        for lease, token, claims in self.unsent:
            if claims.leave():
                await asyncio.shield(self.ask("release", unused(lease, token)))


class Endpoint:
    """One path of a server; `run` it while the server lives. Its caller bounds the number of sessions."""

    def __init__(self) -> None:
        self._handlers = ToolHandlers()
        self._manager = self._managed(stateless=False)
        self._alone = self._managed(stateless=True)

    def _managed(self, *, stateless: bool) -> StreamableHTTPSessionManager:
        return StreamableHTTPSessionManager(
            build(self._handlers, _party_of)._lowlevel_server,  # the SDK's own way builds a whole application
            stateless=stateless,
            session_idle_timeout=None,
            max_sessions=None,
            # Host and Origin are checked where the party is let in, as they are for every other path.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Serve until the end of the block."""
        async with self._manager.run(), self._alone.run():
            try:
                yield
            finally:
                await self._handlers.waits.close()

    async def answer(
        self, caller: HttpParty, scope: Scope, receive: Receive, send: Send, *, alone: bool = False
    ) -> None:
        """Answer one request of this caller; `alone`: without an MCP session, even if the request names one."""
        line = _Exchange(caller, receive, send)
        manager = self._alone if alone else self._manager
        try:
            await manager.handle_request({**scope, _KEY: caller}, line.receive, line.send)
        finally:
            line.close()
            await caller.close()

    async def begin(self, caller: HttpParty, opening: bytes) -> str:
        """Start an MCP session with this `initialize`, which was answered before; return its id."""
        headers = await self._say(caller, "POST", opening)
        session = headers[_SESSION]
        await self._say(caller, "POST", _OPENED, session)
        return session.decode()

    async def leave(self, caller: HttpParty) -> None:
        """Release the leases of an MCP session that its client ends."""
        await self._handlers.leave(caller)

    async def end(self, session: str) -> None:
        """End an MCP session and the requests in it."""
        await self._say(None, "DELETE", b"", session.encode())

    async def _say(
        self, caller: HttpParty | None, method: str, body: bytes, session: bytes | None = None
    ) -> dict[bytes, bytes]:
        """Make one request to the SDK; return the headers of its answer."""
        told: dict[bytes, bytes] = {}
        rest = [body]

        async def receive() -> Message:
            if rest:
                return {"type": "http.request", "body": rest.pop(), "more_body": False}
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return] # never

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                told.update(message["headers"])

        headers = [*_HEADERS, *([(_SESSION, session)] if session is not None else [])]
        scope = {
            "type": "http",
            "method": method,
            "path": "/mcp",
            "query_string": b"",
            "headers": headers,
            _KEY: caller,
        }
        await self._manager.handle_request(scope, receive, send)
        return told


def _party_of(context: ServerRequestContext[Any, Request]) -> Party:
    if context.request is None:
        raise RuntimeError("a message over HTTP came without its request")
    party: HttpParty = context.request.scope[_KEY]
    said = context.session.client_params  # of `initialize`; in the revision without MCP sessions, of this request
    party.client = said.client_info.name if said is not None else ""
    return party


class _Exchange:
    """One exchange with a client: notices when the client disconnects, and what was sent to it before."""

    def __init__(self, caller: HttpParty, receive: Receive, send: Send) -> None:
        self._caller = caller
        self._receive = receive
        self._send = send
        self._watching: asyncio.Task[None] | None = None

    async def receive(self) -> Message:
        """Return the body; after it, wait until the client has disconnected."""
        if self._watching is None:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._caller.gone.set()
            elif not message.get("more_body", False):
                self._watching = asyncio.get_running_loop().create_task(self._watch())
            return message
        await self._caller.gone.wait()
        return {"type": "http.disconnect"}

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._caller.gone.set()

    async def send(self, message: Message) -> None:
        """Send a message; a body that is written while the client is connected counts as sent."""
        if message["type"] == "http.response.body" and message.get("body") and not self._caller.gone.is_set():
            self._caller.sent()
        await self._send(message)

    def close(self) -> None:
        """Stop watching the connection."""
        if self._watching is not None:
            self._watching.cancel()

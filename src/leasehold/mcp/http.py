"""The tools over streamable HTTP: an ASGI application. Who may do what is decided by whoever lets the party in.

A client that goes away leaves the queue at once, in every revision of the protocol, and a grant that could not be
sent any more is given back.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from leasehold.mcp.building import build
from leasehold.mcp.desk import Desk
from leasehold.mcp.pursuits import given_back

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp.server.context import ServerRequestContext
    from starlette.requests import Request
    from starlette.types import Message, Receive, Scope, Send

    from leasehold.mcp.parties import Party
    from leasehold.mcp.pursuits import Claims

    Ask = Callable[[str, dict[str, Any]], Any]

IDLE = 600.0
"""A session of the protocol that nobody uses any more is forgotten after this many seconds; it holds no leases."""
_KEY = "leasehold.party"


class Caller:
    """Whoever sent one request."""

    def __init__(self, id_: str, name: str, session: str | None, ask: Ask) -> None:
        self.id = id_
        self._name = name
        self._session = session
        self.ask = ask
        self.gone = asyncio.Event()
        self.unsent: list[tuple[str, str, Claims]] = []
        """Leases whose grant is not on the wire yet, with their tokens and who else may hear of them."""

    def agent(self, given: str | None) -> str:
        """A session acts in its own name only."""
        return self._name if self._session is not None else given or self._name

    def is_one(self, given: str | None) -> bool:
        """Several agents may share a key; none shares a session."""
        return self._session is not None or given is not None

    async def credential(self, agent: str) -> str | None:  # noqa: ARG002 (as `Party` has it)
        """The session that it showed, if it did."""
        return self._session

    def granted(self, lease: str, token: str, claims: Claims) -> None:
        """Remembered until the answer is sent."""
        self.unsent.append((lease, token, claims))

    def sent(self) -> None:
        """The answer is on the wire."""
        for *_, claims in self.unsent:
            claims.is_heard = True
        self.unsent.clear()

    async def close(self) -> None:
        """Give back what could not be sent, unless somebody else with the same ticket has it or still may."""
        for lease, token, claims in self.unsent:
            if claims.leave():
                await asyncio.shield(self.ask("release", given_back(lease, token)))


class Endpoint:
    """One path of a server. `run` it as long as the server lives."""

    def __init__(self) -> None:
        self._desk = Desk()
        self._manager = StreamableHTTPSessionManager(
            build(self._desk, _party_of)._lowlevel_server,  # the SDK's own way builds a whole application
            session_idle_timeout=IDLE,
            # Host and Origin are checked where the party is let in, as they are for every other path.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Until the end of the block."""
        async with self._manager.run():
            try:
                yield
            finally:
                await self._desk.pursuits.close()

    async def answer(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of this caller."""
        line = _Line(caller, receive, send)
        try:
            await self._manager.handle_request({**scope, _KEY: caller}, line.receive, line.send)
        finally:
            line.close()
            await caller.close()


def _party_of(context: ServerRequestContext[Any, Request]) -> Party:
    if context.request is None:
        raise RuntimeError("a message over HTTP came without its request")
    party: Party = context.request.scope[_KEY]
    return party


class _Line:
    """The way to a client and back: notices when it is gone, whoever listens, and what was still sent before."""

    def __init__(self, caller: Caller, receive: Receive, send: Send) -> None:
        self._caller = caller
        self._receive = receive
        self._send = send
        self._watching: asyncio.Task[None] | None = None

    async def receive(self) -> Message:
        """The body; after it, nothing until the client is gone."""
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
        """What is written while the client is there counts as sent."""
        if message["type"] == "http.response.body" and message.get("body") and not self._caller.gone.is_set():
            self._caller.sent()
        await self._send(message)

    def close(self) -> None:
        """The request is over."""
        if self._watching is not None:
            self._watching.cancel()

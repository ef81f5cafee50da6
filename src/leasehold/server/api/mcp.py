"""/mcp: the tools for agents, behind the same door as every other path.

They are imported with the first request to that path, since that takes a second and many servers never need it.
Whose key is revoked waits no longer, as everywhere on this server (`waiting.Waits`).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request

from leasehold.domain.outcomes import Granted, Refused
from leasehold.server.access import permissions
from leasehold.server.access.revocation import RevocationWatch, why_not
from leasehold.server.access.shares import party_of, payer
from leasehold.server.api import decoding, problems
from leasehold.server.api.mcp_losses import HandedLeases
from leasehold.server.api.problems import Problem
from leasehold.server.http.bodies import read_body

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from leasehold.server.access.principals import Principal
    from leasehold.server.api.app import App
    from leasehold.server.api.mcp_sessions import McpHttpSessions

PATH = "/mcp"
SESSION_HEADER = "mcp-session-id"
BODY_MOST = 256 * 1024
"""A call of a tool is wrapped more than once."""


class Agents:
    """The application behind the path."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._opening: asyncio.Task[McpHttpSessions] | None = None
        self._living: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._waiting: dict[asyncio.Timeout, str] = {}
        """What ends each acquire that waits, and the id of whoever asks (`Principal.id`),"""
        self._watch = RevocationWatch(app.door, lambda: self._waiting, self._dismiss)
        """and who looks after their keys meanwhile."""
        self._handed = HandedLeases(app.losses)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let it in, and answer."""
        request = Request(scope, receive)
        try:
            who = await self._app.admit(request, None)
            body = await read_body(request, BODY_MOST)
            if body:
                decoding.check_media_type(request.headers.get("content-type"))
            sessions = await self._opened()
        except ClientDisconnect:
            return
        except Problem as problem:
            await self._app.tell(problem)(scope, receive, send)
            return
        from leasehold.mcp.http import Caller  # noqa: PLC0415 (see above)

        party = party_of(who)

        async def ask(verb: str, asked: dict[str, Any]) -> Any:  # noqa: ANN401 (see `locks.Locks`)
            outcome = await self._ask(who, verb, asked)
            self._handed.note(party, verb, outcome)
            return outcome

        news = partial(self._handed.news, party)
        caller = Caller(party, who.name, who.session, ask, news, request.headers.get(SESSION_HEADER, ""))
        try:
            await sessions.answer(payer(who), caller, scope, body, _read_already(body, receive), send)
        except Problem as problem:
            await self._app.tell(problem)(scope, receive, send)

    async def _ask(self, who: Principal, verb: str, asked: dict[str, Any]) -> Any:  # noqa: ANN401 (see `locks.Locks`)
        """Ask as this principal may."""
        try:
            permissions.allow(who, verb)
            bound = permissions.bound(who, verb, dict(asked))
        except Problem as problem:
            return problems.as_refusal(problem)
        if verb == "acquire":
            return await self._acquire(who, bound)
        return permissions.as_seen_by(who, await getattr(self._app.served.locks_for(who.authority), verb)(**bound))

    async def _acquire(self, who: Principal, bound: dict[str, Any]) -> Any:  # noqa: ANN401 (see `_ask`)
        """A wait may outlive the request that began it, and the key that this was let in with."""
        locks, ending = self._app.served.locks_for(who.authority), asyncio.timeout(None)
        try:
            async with ending:
                self._waiting[ending] = who.id
                self._watch.begin()
                try:
                    outcome = await locks.acquire(**bound)
                finally:
                    self._waiting.pop(ending, None)
        except TimeoutError:
            if not ending.expired():
                raise
            return _revoked(who)
        if self._app.door.knows(who.id):
            return outcome
        if isinstance(outcome, Granted) and outcome.fresh:  # what it had before is left alone: work may go on under it
            why = "its key was revoked"
            release = locks.release(outcome.lease.id, outcome.token, status="cancelled", error=why)
            await asyncio.shield(release)
        return _revoked(who)

    def _dismiss(self) -> None:
        """Send away whose key is revoked."""
        for ending in [each for each, id_ in self._waiting.items() if not self._app.door.knows(id_)]:
            del self._waiting[ending]
            ending.reschedule(0)

    async def _opened(self) -> McpHttpSessions:
        if self._closing.is_set():
            raise Problem("closed", "the server is going away; connect again")
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        return await asyncio.shield(self._opening)

    async def _open(self) -> McpHttpSessions:
        loop = asyncio.get_running_loop()
        try:
            sessions = await loop.run_in_executor(None, _make)
        except ImportError as error:
            self._opening = None
            missing = f"{error.name} is missing on this server: pip install 'leasehold[mcp]'"
            raise Problem("unsupported", missing) from None
        ready = asyncio.Event()
        self._living = loop.create_task(self._live(sessions, ready))
        await ready.wait()
        return sessions

    async def _live(self, sessions: McpHttpSessions, ready: asyncio.Event) -> None:
        async with sessions.endpoint.run():
            ready.set()
            await self._closing.wait()
            sessions.close()

    def close(self) -> None:
        """The server goes away: whoever waits here leaves the queue."""
        self._closing.set()
        self._watch.close()

    async def ended(self) -> None:
        """Until everybody has left."""
        if self._living is not None:
            await self._living


def _read_already(body: bytes, receive: Receive) -> Receive:
    """The body once more, for who reads it by itself; then whatever comes after it."""
    rest = [body]

    async def again() -> Message:
        return {"type": "http.request", "body": rest.pop(), "more_body": False} if rest else await receive()

    return again


def _revoked(who: Principal) -> Refused:
    return Refused("unauthenticated", "", why_not(who.id))


def _make() -> McpHttpSessions:
    from leasehold.mcp.http import Endpoint  # noqa: PLC0415 (see above)
    from leasehold.server.api.mcp_sessions import McpHttpSessions  # noqa: PLC0415 (see above)

    return McpHttpSessions(Endpoint())

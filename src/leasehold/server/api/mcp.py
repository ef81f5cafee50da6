"""/mcp: the tools for agents, with the same keys and bounds as every other path.

The tools are imported with the first request to this path: that takes a second, and many servers never need them.
A wait may outlive the request that began it, so it ends when its key is revoked, as in `long_polls.LongPolls`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request

from leasehold.domain.outcomes import Granted, Lost, Refused, Released
from leasehold.server.access.principals import OPEN
from leasehold.server.access.revocation import RevocationWatch, why_not
from leasehold.server.access.shares import party_of, payer
from leasehold.server.api import decoding, problems
from leasehold.server.api.problems import Problem
from leasehold.server.http.bodies import read_body
from leasehold.wire import shapes as wire
from leasehold.wire.sentences import FOR_PEOPLE, told_lost

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from leasehold.domain.events import Event
    from leasehold.domain.leases import Lease
    from leasehold.server.access.principals import Principal
    from leasehold.server.api.app import App
    from leasehold.server.api.losses import LossStreams
    from leasehold.server.api.mcp_sessions import McpHttpSessions


PATH = "/mcp"
BODY_MOST = 256 * 1024
"""A call of a tool is wrapped more than once."""


class McpEndpoint:
    """The application behind the path."""

    def __init__(self, app: App, *, may_force: bool) -> None:
        self._app = app
        self._may_force = may_force
        """True if the configuration of the server's user allows force-release to agents that give no key."""
        self._opening: asyncio.Task[McpHttpSessions] | None = None
        self._running: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._waiting: dict[asyncio.Timeout, str] = {}
        """The timeout of each acquire that waits, with the caller's id (`Principal.id`)."""
        self._watch = RevocationWatch(app.authenticator, lambda: self._waiting, self._end_revoked)
        self._handed = HandedLeases(app.losses)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit the caller, and answer."""
        request = Request(scope, receive)
        try:
            who = await self._app.admit(request)
            body = await read_body(request, BODY_MOST)
            if body:
                decoding.check_media_type(request.headers.get("content-type"))
            sessions = await self._opened()
            from leasehold.mcp.http import HttpParty  # noqa: PLC0415 (see above)

            party = party_of(who)
            ask, news = partial(self._ask, who, party), partial(self._handed.news, party)
            caller = HttpParty(party, who.name, who.session, ask, news)
            await sessions.answer(payer(who), caller, scope, body, _again(body, receive), send)
        except ClientDisconnect:
            return
        except Problem as problem:
            await self._app.refuse(problem)(scope, receive, send)

    async def _ask(self, who: Principal, party: str, verb: str, asked: dict[str, Any]) -> Any:  # noqa: ANN401 (see `locks.Locks`)
        """Return the outcome of a verb, within the caller's bounds. Without keys nobody proves to be an admin."""
        if verb == "force_release" and who is OPEN and not self._may_force:
            return Refused("not_allowed", "", FOR_PEOPLE)
        try:
            if verb == "acquire":
                outcome = await self._acquire(who, asked)
            else:
                outcome = await self._app.dispatcher.ask(who, verb, asked)
        except Problem as problem:
            outcome = problems.as_refusal(problem)
        self._handed.note(party, verb, outcome)
        return outcome

    async def _acquire(self, who: Principal, asked: dict[str, Any]) -> Any:  # noqa: ANN401 (see `_ask`)
        revoked = Refused("unauthenticated", "", why_not(who.id))
        ending = asyncio.timeout(None)
        try:
            async with ending:
                self._waiting[ending] = who.id
                self._watch.begin()
                try:
                    outcome = await self._app.dispatcher.ask(who, "acquire", asked)
                finally:
                    self._waiting.pop(ending, None)
        except TimeoutError:
            if not ending.expired():
                raise
            return revoked
        if self._app.authenticator.knows(who.id):
            return outcome
        if isinstance(outcome, Granted) and outcome.fresh:  # one that it had before stays: work may go on under it
            locks, why = self._app.served.locks_for(who.authority), "its key was revoked"
            release = locks.release(outcome.lease.id, outcome.token, status="cancelled", error=why)
            await asyncio.shield(release)
        return revoked

    def _end_revoked(self) -> None:
        for ending in [each for each, id_ in self._waiting.items() if not self._app.authenticator.knows(id_)]:
            del self._waiting[ending]
            ending.reschedule(0)

    async def _opened(self) -> McpHttpSessions:
        if self._closing.is_set():
            raise Problem("closed", "the server is stopping; connect again")
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        return await asyncio.shield(self._opening)

    async def _open(self) -> McpHttpSessions:
        loop = asyncio.get_running_loop()
        try:
            sessions = await loop.run_in_executor(None, _import_sessions)
        except ImportError as error:
            self._opening = None
            missing = f"{error.name} is missing on this server. Install it there:\npip install 'leasehold[mcp]'"
            raise Problem("unsupported", missing) from None
        ready = asyncio.Event()
        self._running = loop.create_task(self._run(sessions, ready))
        await ready.wait()
        return sessions

    async def _run(self, sessions: McpHttpSessions, ready: asyncio.Event) -> None:
        async with sessions.endpoint.run():
            ready.set()
            await self._closing.wait()
            sessions.close()

    def close(self) -> None:
        """End every session, because the server stops: waiting requests leave the queue."""
        self._closing.set()
        self._watch.close()

    async def ended(self) -> None:
        """Return when every session has ended."""
        if self._running is not None:
            await self._running


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body, which was read already, once more, and then what comes after it."""
    rest = [body]

    async def again() -> Message:
        return {"type": "http.request", "body": rest.pop(), "more_body": False} if rest else await receive()

    return again


def _import_sessions() -> McpHttpSessions:
    from leasehold.mcp.http import Endpoint  # noqa: PLC0415 (see above)
    from leasehold.server.api.mcp_sessions import McpHttpSessions  # noqa: PLC0415 (see above)

    return McpHttpSessions(Endpoint())


ENDING = ("release", "renew")
"""Verbs whose answer tells an agent that its own lease is over."""
FOLLOWED_MOST = 10_000
"""Leases that are followed; of more, those that were acquired longest ago are not."""


class HandedLeases:
    """Follows the leases of all agents of this server by the events that end them."""

    def __init__(self, losses: LossStreams) -> None:
        self._losses = losses
        self._held: OrderedDict[str, tuple[str, Lease]] = OrderedDict()
        """The party and the lease, by its id."""
        self._news: dict[tuple[str, str], dict[str, str]] = {}
        """The losses that each agent of a party does not know of yet, by the lease."""

    def note(self, party: str, verb: str, outcome: object) -> None:
        """Follow a lease that is granted, until its agent learns from an outcome that it is over."""
        if isinstance(outcome, Granted):
            if not self._held:
                self._losses.join(self)
            self._held[outcome.lease.id] = (party, outcome.lease)
            if len(self._held) > FOLLOWED_MOST:
                self._forget(next(iter(self._held)))
        elif verb in ENDING and isinstance(outcome, Released | Lost):
            self._forget(outcome.lease)
            for losses in self._news.values():
                losses.pop(outcome.lease, None)

    def _forget(self, lease: str) -> None:
        if self._held.pop(lease, None) is not None and not self._held:
            self._losses.leave(self)

    def news(self, party: str, agent: str) -> list[str]:
        """Return what this agent has lost since its last answer. Each loss is reported once."""
        return list(self._news.pop((party, agent), {}).values())

    def notify(self, event: Event) -> None:
        """Note which leases an event ended."""
        if event.lease is not None:
            gone = [event.lease] if event.lease in self._held else []
        else:
            gone = [id_ for id_, (_, lease) in self._held.items() if lease.session == event.session is not None]
        for id_ in gone:
            party, lease = self._held[id_]
            why = wire.why_forced(event) if event.lease is not None else "its session ended"
            self._news.setdefault((party, lease.holder), {})[id_] = told_lost(" + ".join(lease.resources), str(why))
            if len(self._news) > FOLLOWED_MOST:
                del self._news[next(iter(self._news))]
            self._forget(id_)

"""Hand on the calls of conversations (MCP, hooks, the gateway): as ``handing_on``, with outcomes in place of bodies."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from leasehold.client import decoding
from leasehold.client.deciding import is_once
from leasehold.client.encoding import form_of, request
from leasehold.errors import InvalidInput, OutcomeUnknown
from leasehold.server.api.handing_on import HAS_LEFT
from leasehold.server.api.long_polls import KEEP_OPEN
from leasehold.server.api.problems import TROUBLE

if TYPE_CHECKING:
    from leasehold.client.encoding import HttpRequest
    from leasehold.client.messages import AnswerHead
    from leasehold.locks.aio import AsyncAnswers
    from leasehold.requests.calls import Call, LossSource
    from leasehold.routing.links import Exchange, PeerLink
    from leasehold.server.access.principals import Principal
    from leasehold.server.api.handing_on import HandingOn

VERBS: Final = frozenset(("acquire", "renew", "release", "update", "cancel", "renew_session", "end_session"))
"""Verbs of conversations that go to the owner of their lane."""


ACQUIRE: Final = form_of("acquire").path


class HandedAnswers:
    """Answers to one principal, from the owner of each lane if that is another server."""

    def __init__(self, on: HandingOn, who: Principal, inner: AsyncAnswers) -> None:
        self._on = on
        self._who = who
        self._inner = inner

    async def ask(self, call: Call) -> Any:  # noqa: ANN401 (see `calls.Answers`)
        """Return the answer to this call. A task that is cancelled leaves the queue and holds nothing."""
        link = self._on.link_for(call.verb, call.arguments) if call.verb in VERBS else None
        try:
            asked = request(call) if link is not None else None
        except InvalidInput:  # which the engine says in its own words
            asked = None
        wait = (asked.body or {}).get("wait_seconds", 0) if asked is not None else 0
        if link is None or asked is None or wait >= KEEP_OPEN:
            return await self._inner.ask(call)
        outcome = await self._handed(link, asked, wait)
        if not isinstance(outcome, Exception):
            head, data = outcome
            body = msgspec.json.decode(data)
            return decoding.answer(call.verb, body) if head.status < 400 else decoding.refusal(body)
        if is_once(call.verb, call.arguments):
            raise OutcomeUnknown(f"the answer to {call.verb} was lost: look whether it happened") from outcome
        if call.verb == "acquire" and asked.body is not None:
            call = call._replace(arguments={**call.arguments, "request_id": asked.body["request_id"]})
        return await self._inner.ask(call)

    async def _handed(self, link: PeerLink, asked: HttpRequest, wait: float) -> tuple[AnswerHead, bytes] | Exception:
        over: asyncio.Future[tuple[AnswerHead, bytes] | Exception] = asyncio.get_running_loop().create_future()

        def heard(exchange: Exchange, outcome: tuple[AnswerHead, bytes] | Exception) -> None:
            if not over.done():
                over.set_result(outcome)
            elif not isinstance(outcome, Exception) and outcome[0].status == 200 and asked.path == ACQUIRE:
                granted = msgspec.json.decode(outcome[1])
                self._on.served.release_unread(granted["lease"]["id"], granted["token"])
            elif isinstance(outcome, Exception) and outcome is not HAS_LEFT and exchange.is_sent and asked.secret:
                terms = {name: body.get(name) for name in ("holder", "session", "space")}
                self._on.served.cancel(terms, body["request_id"], asked.secret, self._who.authority)

        body = asked.body or {}
        if self._who.session is not None:
            body = {"space": self._who.space, **body}
        message = self._on.message(link, self._who, asked.path, body)
        sent = link.send(message, heard, waits=wait or None)
        try:
            outcome = await over
        except asyncio.CancelledError:
            if asked.path == ACQUIRE:
                self._on.leave(link, self._who, {"holder": None, "session": None, "space": None, **body}, sent)
            raise
        if not isinstance(outcome, Exception) and outcome[0].status == TROUBLE:
            outcome = ConnectionError("the server stops")
        self._on.metrics.handed("decided_here" if isinstance(outcome, Exception) else "answered")
        return outcome

    def losses(self) -> LossSource:
        """Return the source of hints that a held lease may be lost."""
        return self._inner.losses()

    async def close(self) -> None:
        """Do nothing: the connections serve other principals, too."""

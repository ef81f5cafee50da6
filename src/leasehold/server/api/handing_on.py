"""Hand a request on to the server that owns its lane, with the caller's credential; decide it here if that one is gone.

Nothing is handed on twice, and an acquire always has a request_id on its way: so it may be decided here although the
owner may have decided it, too. The store's compare makes that right (docs/adr/0047).
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from leasehold.client.deciding import is_once
from leasehold.client.encoding import form_of
from leasehold.domain import keys
from leasehold.errors import LeaseholdError
from leasehold.requests.to_command import draw
from leasehold.routing.links import SILENCE, PeerLink
from leasehold.routing.owning import PROTOCOL
from leasehold.server.api import problems
from leasehold.server.api.long_polls import closed
from leasehold.server.api.problems import HttpAnswer, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from leasehold.client.messages import AnswerHead
    from leasehold.locks.hosted import Served
    from leasehold.routing.links import Exchange
    from leasehold.routing.owning import Ownership, Peer
    from leasehold.server.access.principals import Principal
    from leasehold.server.api.dispatch import Operation
    from leasehold.server.ops.metrics import Metrics

    Trust = Callable[[str], bool]

log = logging.getLogger("leasehold.server")
HEADER: Final = "leasehold-handed-on"
"""Says that another server hands a request on, and in which version of what servers send to each other."""
OWNER: Final = "leasehold-owner"
"""Names the server that decided, so that a client may ask it from now on."""
LEAVE: Final = "/v1/handed-on/leave"
BATCH: Final = form_of("batch").path
HANDED_ON: Final = frozenset(
    (
        *("acquire", "renew", "release", "update", "cancel", "start_session", "renew_session", "end_session"),
        *("force_release", "steal", "clear", "report_trespass"),
    )
)
"""Verbs that change one lane."""
HEADS_MOST = 4_096
HAS_LEFT: Final = LeaseholdError("the client has disconnected, and has left the queue")
UNHEARD: Final = LeaseholdError("the client has disconnected, and may be in the queue")
LONGEST_WAIT = 3_600.0
"""Seconds that an owner may take with a request that waits; it answers with a ticket long before."""


class HandedRequest:
    """A request of a client that another server is to answer."""

    __slots__ = ("_given", "_link", "_on", "_secret", "_since", "answer", "exchange", "operation")

    def __init__(self, on: HandingOn, operation: Operation, given: dict[str, Any], link: PeerLink) -> None:
        self._on = on
        self._given = given
        self._link = link
        self._since = time.monotonic()
        self.operation = operation
        self.answer: bytes | None = None
        """The body of the answer, if it is a success."""
        self.exchange: Exchange | None = None
        self._secret: str | None = None
        """From which this server drew the request_id, if the client gave none: then only this server can cancel it."""
        if operation.verb == "acquire" and not given["request_id"]:
            self._secret = draw()
            given["request_id"], given["first"] = keys.secret_hash(self._secret), True

    @property
    def waits(self) -> bool:
        """True if the client is prepared to wait."""
        return self.operation.verb == "acquire" and bool(self._given["wait"])

    @property
    def body(self) -> dict[str, Any]:
        """The body of the request."""
        form = form_of(self.operation.verb)
        defaults, spelled = form.defaults, form.spelled
        return {spelled[key]: value for key, value in self._given.items() if value is not defaults[key]}

    def send(self) -> None:
        """Send it to the owner."""
        operation = self.operation
        path = form_of(operation.verb).path
        data = self._on.message(self._link, operation.who, path, self.body, operation.trace)
        self.exchange = self._link.send(data, self._heard, waits=LONGEST_WAIT if self.waits else None)

    def _heard(self, exchange: Exchange, outcome: tuple[AnswerHead, bytes] | Exception) -> None:
        if isinstance(outcome, Exception):
            self.unanswered(outcome, was_sent=exchange.is_sent)
        else:
            self.answered(outcome[0].status, outcome[1], outcome[0].retry_after)

    def answered(self, status: int, body: bytes | msgspec.Raw, retry_after: float | None) -> None:
        """Pass the answer on, unless that server stops: then decide here."""
        if status == problems.TROUBLE and b'"closed"' in bytes(body):
            self.unanswered(ConnectionError("the server stops"), was_sent=True)
            return
        self._on.under_way.discard(self)
        self._on.metrics.handed("answered")
        if status == 200:
            self.answer = bytes(body)
        operation = self.operation
        if not operation.end():
            self._release_unread()
            return
        headers = {OWNER: self._link.url}
        if retry_after is not None:
            headers["retry-after"] = f"{retry_after:g}"
        if status == 401:
            headers["www-authenticate"] = "Bearer"
        operation.answer = HttpAnswer(status, msgspec.Raw(body), headers)
        operation.tell()

    def unanswered(self, error: Exception, *, was_sent: bool) -> None:
        """Decide here what no answer came to, if that is safe."""
        self._on.under_way.discard(self)
        if error is HAS_LEFT:
            return
        self._on.metrics.handed("decided_here")
        operation, given = self.operation, self._given
        if was_sent and is_once(operation.verb, given):
            why = f"the answer to {operation.verb} was lost ({error}): look whether it happened"
            operation.fail(Problem("outcome_unknown", why))
            return
        if not operation.is_open and operation.verb == "acquire":
            if was_sent and self._secret is not None:  # the owner may have granted it, and no client knows of it
                self._on.served.cancel(operation.arguments, given["request_id"], self._secret, operation.who.authority)
            return
        operation.handed = None
        operation.was_lost = was_sent
        if operation.verb == "acquire":
            operation.arguments["request_id"] = given["request_id"]
            operation.arguments["first"] = given["first"] and not was_sent
            if self.waits:
                with suppress(TypeError):
                    operation.arguments["wait"] = max(0, given["wait"] - (time.monotonic() - self._since))
        self._on.decide_here(operation)

    def leave(self) -> None:
        """Leave the queue, and release what was granted: the client has disconnected."""
        if self.operation.verb != "acquire":
            return
        if self.answer is not None:
            self._release_unread()
        elif self.exchange is not None and self.exchange.is_open:
            self._on.leave(self._link, self.operation.who, self._given, self.exchange)

    def _release_unread(self) -> None:
        """Release a grant that the client did not receive, unless a retry with the same request_id has it."""
        answer, self.answer = self.answer, None
        if answer is not None and self.operation.verb == "acquire":
            granted = msgspec.json.decode(answer)
            if "ticket" not in granted:
                self._on.served.release_unread(granted["lease"]["id"], granted["token"])

    def part(self) -> None:
        """Answer the client that this server stops. It keeps its place at another one if it can name its request."""
        if self._secret is not None:
            self.leave()
        self.operation.fail(closed())


def _distribute(parts: list[HandedRequest], exchange: Exchange, outcome: tuple[AnswerHead, bytes] | Exception) -> None:
    """Give each call of a batch its answer."""
    if not isinstance(outcome, Exception) and outcome[0].status == problems.TROUBLE:
        outcome = ConnectionError("the server stops")
    if isinstance(outcome, Exception):
        for part in parts:
            part.unanswered(outcome, was_sent=exchange.is_sent)
        return
    head, body = outcome
    answers = (
        _ANSWERS.decode(body).answers if head.status == 200 else [Part(head.status, msgspec.Raw(body))] * len(parts)
    )
    for part, answer in zip(parts, answers, strict=True):
        part.answered(answer.status, answer.body, head.retry_after)


class Part(msgspec.Struct):
    """The answer to one call of a batch."""

    status: int
    body: msgspec.Raw


class Parts(msgspec.Struct):
    """The answer to a batch."""

    answers: list[Part]


class Left(msgspec.Struct):
    """The answer to `LEAVE`."""

    left: bool


_LEFT: Final = msgspec.json.Decoder(Left)
_ANSWERS: Final = msgspec.json.Decoder(Parts)


class HandingOn:
    """The requests that this server hands on."""

    def __init__(
        self,
        served: Served,
        ownership: Ownership,
        trusts: Trust,
        decide_here: Callable[[Operation], None],
        metrics: Metrics,
    ) -> None:
        self.served = served
        self.decide_here = decide_here
        self.metrics = metrics
        self.under_way: set[HandedRequest] = set()
        self._ownership = ownership
        self._trusts = trusts
        self._links: dict[Peer, PeerLink] = {}
        self._by_lane: dict[int, PeerLink] = {}
        self._distrusted: set[str] = set()
        self._is_closing = False
        self._gathered: dict[tuple[PeerLink, str], list[HandedRequest]] = {}
        """The calls of a batch that is being submitted, by server and caller."""
        ownership.changed = self._learn

    def _learn(self) -> None:
        """Learn who owns what, after a heartbeat."""
        self._by_lane = {}
        for lane, peer in self._ownership.owners.items():
            if peer != self._ownership.me and peer.protocol == PROTOCOL and self._is_trusted(peer):
                link = self._links.get(peer)
                if link is None:
                    link = self._links[peer] = PeerLink(peer, asyncio.get_running_loop())
                self._by_lane[lane] = link
        owners = set(self._by_lane.values())
        for peer, link in [*self._links.items()]:
            link.probe()
            if link not in owners and not link.is_used:
                link.close()
                del self._links[peer]
        self.served.own(self._ownership.is_owner, self._by_lane)
        self.metrics.lanes = sum(peer == self._ownership.me for peer in self._ownership.owners.values())
        self.metrics.owners = {(str(lane), peer.address): 1 for lane, peer in self._ownership.owners.items()}

    def _is_trusted(self, peer: Peer) -> bool:
        if self._trusts(peer.address):
            return True
        if peer.address not in self._distrusted:
            self._distrusted.add(peer.address)
            log.warning("a server is not trusted with keys: name it with --peer", extra={"server": peer.address})
        return False

    def takes(self, operation: Operation, given: dict[str, Any]) -> bool:
        """Hand a request on, whose arguments are `given`; False if it is to be decided here."""
        if not self._by_lane or self._is_closing or operation.verb not in HANDED_ON:
            return False  # nearly always, at a server that is alone
        link = self.link_for(operation.verb, operation.arguments)
        if link is None or (given.get("wait") and not operation.may_wait):
            return False
        operation.handed = handed = HandedRequest(self, operation, given, link)
        self.under_way.add(handed)
        if operation.may_wait:
            handed.send()
        else:
            self._gathered.setdefault((link, operation.who.id), []).append(handed)
        return True

    def link_for(self, verb: str, arguments: Mapping[str, Any]) -> PeerLink | None:
        """Return the link to the server that owns the lane of a call; None if that is this one, or it is silent."""
        link = self._by_lane.get(self.served.lane_of(verb, arguments))
        return None if link is None or link.is_silent or self._is_closing else link

    def enough(self) -> None:
        """Send the calls of a batch, those for each server together."""
        gathered, self._gathered = self._gathered, {}
        for (link, _), parts in gathered.items():
            if len(parts) == 1:
                parts[0].send()
                continue
            calls = [{"verb": part.operation.verb, **part.body} for part in parts]
            message = self.message(link, parts[0].operation.who, BATCH, {"calls": calls})
            link.send(message, partial(_distribute, parts))

    def message(
        self, link: PeerLink, who: Principal, path: str, body: dict[str, Any], trace: str | None = None
    ) -> bytes:
        """Return the bytes of a request; `trace`: the `traceparent` of the caller."""
        credential = who.session or who.secret
        start = link.heads.get((path, credential))
        if start is None:
            lines = [f"POST {path} HTTP/1.1", f"Host: {link.base.name}", f"{HEADER}: {PROTOCOL}"]
            lines += [f"Authorization: Bearer {credential}"] if credential else []
            start = "\r\n".join([*lines, "Content-Type: application/json", "Content-Length: "]).encode()
            if len(link.heads) >= HEADS_MOST:
                link.heads.clear()
            link.heads[path, credential] = start
        content = problems.encode(body)
        traced = b"" if trace is None else b"\r\ntraceparent: %b" % trace.encode()
        return b"%b%d%b\r\n\r\n%b" % (start, len(content), traced, content)

    def leave(self, link: PeerLink, who: Principal, given: dict[str, Any], exchange: Exchange) -> None:
        """Tell the owner that the client of a waiting request has disconnected, then close its connection.

        If that message overtakes the request, or gets no answer, the owner keeps the place for a while, and no longer.
        """
        if not exchange.is_sent:
            exchange.give_up(HAS_LEFT)
            return
        body = {field: given[field] for field in ("request_id", "holder", "session", "space") if given[field]}

        def heard(_: Exchange, outcome: tuple[AnswerHead, bytes] | Exception) -> None:
            if not isinstance(outcome, Exception) and outcome[0].status == 200 and _LEFT.decode(outcome[1]).left:
                exchange.give_up(HAS_LEFT)
            else:  # perhaps it is being answered
                asyncio.get_running_loop().call_later(SILENCE, exchange.give_up, UNHEARD)

        link.send(self.message(link, who, LEAVE, body), heard)

    def close(self) -> None:
        """Answer every client that waits for another server: this one stops."""
        self._is_closing = True
        for handed in [*self.under_way]:
            if handed.waits:
                handed.part()

    async def end(self) -> None:
        """Close all connections."""
        for link in self._links.values():
            await link.flush()
            link.close()
        self._links.clear()

"""Hand a request on to the server that owns its lane, with the caller's credential; decide it here if that one is gone.

Nothing is handed on twice, and an acquire always has a request_id on its way: so it may be decided here although the
owner may have decided it, too. The store's compare makes that right (docs/adr/0047).
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from leasehold.client.deciding import is_once
from leasehold.client.encoding import form_of
from leasehold.requests.to_command import draw
from leasehold.routing.links import PeerLink
from leasehold.routing.owning import PROTOCOL
from leasehold.server.api import problems
from leasehold.server.api.long_polls import closed
from leasehold.server.api.problems import HttpAnswer, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

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
LEAVE: Final = "/v1/handed-on/leave"
HANDED_ON: Final = frozenset(
    (
        *("acquire", "renew", "release", "update", "cancel", "start_session", "renew_session", "end_session"),
        *("force_release", "steal", "clear", "report_trespass"),
    )
)
"""Verbs that change one lane."""
HEADS_MOST = 4_096
LONGEST_WAIT = 3_600.0
"""Seconds that an owner may take with a request that waits; it answers with a ticket long before."""


class HandedRequest:
    """A request of a client that another server is to answer."""

    __slots__ = ("_given", "_link", "_on", "_since", "answer", "exchange", "is_drawn", "operation")

    def __init__(self, on: HandingOn, operation: Operation, given: dict[str, Any], link: PeerLink) -> None:
        self._on = on
        self._given = given
        self._link = link
        self._since = time.monotonic()
        self.operation = operation
        self.answer: bytes | None = None
        """The body of the answer, if it is a success."""
        self.exchange: Exchange | None = None
        self.is_drawn = False
        """True if this server chose the request_id: the client does not know it."""
        if operation.verb == "acquire" and not given["request_id"]:
            given["request_id"], given["first"] = draw(), True
            self.is_drawn = True

    @property
    def waits(self) -> bool:
        """True if the client is prepared to wait."""
        return self.operation.verb == "acquire" and bool(self._given["wait"])

    def send(self) -> None:
        """Send it to the owner."""
        operation = self.operation
        data = self._on.rendered(self._link, operation.who, operation.verb, self._given)
        self.exchange = self._link.send(data, self._heard, waits=LONGEST_WAIT if self.waits else None)

    def _heard(self, exchange: Exchange, outcome: tuple[AnswerHead, bytes] | Exception) -> None:
        """Pass the answer on. Without one, and from a server that stops, decide here."""
        self._on.under_way.discard(self)
        if isinstance(outcome, Exception):
            self._unanswered(outcome, was_sent=exchange.is_sent)
            return
        head, body = outcome
        if head.status == problems.TROUBLE and b'"closed"' in body:
            self._unanswered(ConnectionError("the server stops"), was_sent=True)
            return
        self._on.metrics.handed("answered")
        if head.status == 200:
            self.answer = body
        operation = self.operation
        if not operation.end():
            self._release_unread()
            return
        headers = {} if head.retry_after is None else {"retry-after": f"{head.retry_after:g}"}
        if head.status == 401:
            headers["www-authenticate"] = "Bearer"
        operation.answer = HttpAnswer(head.status, msgspec.Raw(body), headers or None)
        operation.tell()

    def _unanswered(self, error: Exception, *, was_sent: bool) -> None:
        self._on.metrics.handed("decided_here")
        operation, given = self.operation, self._given
        if was_sent and is_once(operation.verb, given):
            why = f"the answer to {operation.verb} was lost ({error}): look whether it happened"
            operation.fail(Problem("outcome_unknown", why))
            return
        if not operation.is_open:
            if was_sent and operation.verb == "acquire":  # the owner may have granted it
                self._on.served.undo(
                    {**operation.arguments, "request_id": given["request_id"]}, operation.who.authority
                )
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
            self._on.leave(self._link, self.operation.who, self._given)

    def _release_unread(self) -> None:
        """Release a grant that the client did not receive, unless a retry with the same request_id has it."""
        answer, self.answer = self.answer, None
        if answer is not None and self.operation.verb == "acquire":
            granted = msgspec.json.decode(answer)
            if "ticket" not in granted:
                self._on.served.release_unread(granted["lease"]["id"], granted["token"])

    def part(self) -> None:
        """Answer the client that this server stops. It keeps its place at another one if it can name its request."""
        if self.is_drawn:
            self.leave()
        self.operation.fail(closed())


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
        self.metrics.lanes = self._ownership.count_own()

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
            return False
        link = self._by_lane.get(self.served.lane_of(operation.verb, operation.arguments))
        if link is None or link.is_silent:
            return False
        operation.handed = handed = HandedRequest(self, operation, given, link)
        self.under_way.add(handed)
        handed.send()
        return True

    def rendered(self, link: PeerLink, who: Principal, verb: str, given: dict[str, Any]) -> bytes:
        """Return the bytes of a request."""
        form = form_of(verb)
        defaults, spelled = form.defaults, form.spelled
        body = {spelled[key]: value for key, value in given.items() if value is not defaults[key]}
        return self._message(link, who, form.path, body)

    def _message(self, link: PeerLink, who: Principal, path: str, body: dict[str, Any]) -> bytes:
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
        return b"%b%d\r\n\r\n%b" % (start, len(content), content)

    def leave(self, link: PeerLink, who: Principal, given: dict[str, Any]) -> None:
        """Tell the owner that the client of a waiting request has disconnected."""
        body = {field: given[field] for field in ("request_id", "holder", "session", "space") if given[field]}
        link.send(self._message(link, who, LEAVE, body), lambda *_: None)  # lost, the place is kept for a while

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

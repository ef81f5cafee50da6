"""Lines that an operator needs: admin actions, refused credentials, slow commits, expiries with a waiter.

Arguments that are secrets are never logged: each action names the fields that are.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from leasehold.domain.timestamps import SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request

    from leasehold.domain.events import Event
    from leasehold.server.access.principals import Principal
    from leasehold.server.api.problems import Problem

log = logging.getLogger("leasehold.server")
ACTIONS: Final = ("force_release", "steal", "clear", "extend", "create_key", "rotate_key", "revoke_key", "gc")
SHOWN: Final = ("target", "resources", "resource", "lease", "session", "key", "name", "role", "space", "reason", "by")
"""Arguments of admin actions that are no secrets."""
CREDENTIAL: Final = ("unauthenticated", "not_allowed")
LINES_A_MINUTE: Final = 30
"""Refused credentials, at most, and slow commits: a caller that tries every second must not fill the disk."""
REQUEST_ID: Final = "x-request-id"
ID_LONGEST: Final = 128


def request_id(request: Request) -> str | None:
    """Return the id that the client gave its request, if it is short and printable."""
    given = request.headers.get(REQUEST_ID, "")
    return given if 0 < len(given) <= ID_LONGEST and given.isascii() and given.isprintable() else None


class Sparse:
    """Lets through so many lines a minute, and says how many it held back."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._minute = 0.0
        self._count = 0

    def takes(self) -> bool:
        """True if one more line may be written."""
        now = time.monotonic()
        if now - self._minute >= 60:
            if self._count > self._most:
                log.warning("lines were left out", extra={"count": self._count - self._most})
            self._minute, self._count = now, 0
        self._count += 1
        return self._count <= self._most


class OperatorLog:
    """The log of one server. It is given the expiries of this process and the slow commits of its engines."""

    def __init__(self) -> None:
        self._refusals = Sparse(LINES_A_MINUTE)
        self._commits = Sparse(LINES_A_MINUTE)

    def acted(self, who: Principal, verb: str, arguments: Mapping[str, Any], request: Request) -> None:
        """Log what an admin did."""
        if verb not in ACTIONS and not (verb == "end_session" and arguments.get("admin")):
            return
        shown = {name: arguments[name] for name in SHOWN if arguments.get(name)}
        principal, key = (None, None) if who.authority is None else who.authority[:2]
        caller = {"principal": principal or who.name, "by_key": key}
        log.info("admin action", extra={"verb": verb, **caller, "about": shown, "request": request_id(request)})

    def refused(self, problem: Problem, request: Request) -> None:
        """Log the refusal of a credential; other refusals are answers, and only counted."""
        if problem.code not in CREDENTIAL or not self._refusals.takes():
            return
        client = request.client.host if request.client else None
        fields = {"code": problem.code, "why": problem.detail, "path": request.url.path, "client": client}
        log.warning("a credential was refused", extra={**fields, "request": request_id(request)})

    def slow_commit(self, size: int, seconds: float) -> None:
        """Log a transaction that took long."""
        if self._commits.takes():
            log.warning("slow commit", extra={"seconds": round(seconds, 3), "size": size})

    def observe(self, events: Sequence[Event]) -> None:
        """Log leases that expired while a request waited: their holder died, or its TTL is too short."""
        expired = [event for event in events if event.kind == "expired"]
        served = [event for event in events if event.kind == "granted" and event.detail.get("waited")]
        for event in expired:
            for next_ in served:
                if event.space == next_.space and not set(event.resources).isdisjoint(next_.resources):
                    _log_expiry(event, next_)
                    break


def _log_expiry(event: Event, next_: Event) -> None:
    waited = next_.detail.get("waited")
    seconds = round(waited / SECOND, 3) if isinstance(waited, int) else None
    fields = {"space": event.space, "resources": list(event.resources), "holder": event.holder, "lease": event.lease}
    log.warning("a lease expired while a request waited", extra={**fields, "next": next_.holder, "seconds": seconds})

"""Contention and trends: figures that are computed from many events, in a thread, and cached for a while."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from leasehold.domain.timestamps import SECOND
from leasehold.pictures import contention as contending
from leasehold.pictures import trends as trending
from leasehold.server.api import problems
from leasehold.server.api import requests as r
from leasehold.server.api.problems import Problem
from leasehold.server.api.routes import Route
from leasehold.server.dashboard.views import PAGE, checked
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from leasehold.domain.events import Event
    from leasehold.pictures.contention import Figures
    from leasehold.server.api.app import App

EVENTS_MOST = 50_000
"""Figures are computed from at most so many events; the answer says since when."""
CACHED_MOST = 1_000
REST = 20
"""A figure stays valid for this many times as long as it took, so that the page costs the server at most 5 %."""
WINDOWS = {"hour": 3_600, "day": 86_400, "week": 604_800}
LONGEST = 8 * 86_400


class Contended(r.Query):
    """How far back contention is computed."""

    space: str | None = None
    window: str = "hour"


class Trended(r.Query):
    """How far back trends are computed, in seconds."""

    space: str | None = None
    window: int = 3_600


CONTENTION = Route("GET", "/dashboard/contention", "history", Contended, "")
TRENDS = Route("GET", "/dashboard/trends", "history", Trended, "")


class KeptFigures:
    """Keeps each answer for a while after it was computed."""

    def __init__(self) -> None:
        self._known: dict[tuple[str | None, int], tuple[float, dict[str, Any]]] = {}

    def find(self, key: tuple[str | None, int]) -> dict[str, Any] | None:
        """Return an answer that is still valid."""
        known = self._known.get(key)
        return known[1] if known is not None and time.monotonic() < known[0] else None

    def put(self, key: tuple[str | None, int], answer: dict[str, Any], took: float) -> None:
        """Keep an answer, for longer the longer it took."""
        if len(self._known) > CACHED_MOST:
            self._known.clear()
        self._known[key] = (time.monotonic() + max(2.0, took * REST), answer)


class HistoryFigures:
    """Answers the routes whose figures come from the history."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._contention = KeptFigures()
        self._trends = KeptFigures()

    async def contention(self, request: Request) -> Response:
        """Return the most contended resources of a window."""
        _, asked = await self._app.checked(request, CONTENTION)
        window = WINDOWS.get(asked["window"])
        if window is None:
            raise Problem("invalid", f"window: must be one of {', '.join(WINDOWS)}", field="window")
        key = (asked["space"], window)
        answer = self._contention.find(key)
        if answer is None:
            begun = time.monotonic()
            events, since, now, complete = await self._since(*key, contending.KINDS)
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(None, contending.contention, events, since, now)
            resources = [_contended(each) for each in found]
            answer = {"window": asked["window"], **_span(since, now, complete), "resources": resources}
            self._contention.put(key, answer, time.monotonic() - begun)
        return problems.ok(answer)

    async def trends(self, request: Request) -> Response:
        """Return what was held, waited for and granted over a time."""
        _, asked = await self._app.checked(request, TRENDS)
        if not 60 <= asked["window"] <= LONGEST:
            raise Problem("invalid", f"window: must be 60 to {LONGEST} seconds", field="window")
        key = (asked["space"], asked["window"])
        answer = self._trends.find(key)
        if answer is None:
            begun = time.monotonic()
            held = len(checked(await self._app.served.locks.list(space=asked["space"])))
            events, since, now, complete = await self._since(*key, trending.KINDS)
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(None, trending.trends, events, held, since, now)
            points = [{**it._asdict(), "at": wire.rfc3339(it.at), "wait": wire.seconds(it.wait)} for it in found]
            answer = {**_span(since, now, complete), "points": points}
            self._trends.put(key, answer, time.monotonic() - begun)
        return problems.ok(answer)

    async def _since(
        self, space: str | None, seconds: int, kinds: tuple[str, ...]
    ) -> tuple[list[Event], int, int, bool]:
        """Return the events, since when they are all that happened, the time now, and False if there were too many."""
        now = await asyncio.get_running_loop().run_in_executor(None, self._app.served.ping)
        asked = now - seconds * SECOND
        events, complete = await self._events(space, asked, kinds)
        if not events:
            return events, asked, now, complete
        if not complete:
            return events, events[-1].at_us, now, False
        return events, await self._known_since(space, asked, events[-1]), now, True

    async def _known_since(self, space: str | None, asked: int, oldest: Event) -> int:
        """Return the time of the first event of all, if that is later than `asked`: before it nothing is known."""
        locks = self._app.served.locks
        page = checked(await locks.history(space=space, before=oldest.seq, since=asked, limit=PAGE))
        if len(page) == PAGE:
            return asked
        first = page[-1] if page else oldest
        older = checked(await locks.history(space=space, before=first.seq, limit=1))
        return asked if older else first.at_us

    async def _events(self, space: str | None, since: int, kinds: tuple[str, ...]) -> tuple[list[Event], bool]:
        found: list[Event] = []
        before: int | None = None
        while len(found) < EVENTS_MOST:
            ask = self._app.served.locks.history(space=space, kinds=kinds, since=since, before=before, limit=PAGE)
            page = checked(await ask)
            found += page
            if len(page) < PAGE:
                return found, True
            before = page[-1].seq
        return found, False


def _span(since: int, now: int, complete: bool) -> dict[str, Any]:
    return {"since": wire.rfc3339(since), "until": wire.rfc3339(now), "complete": complete}


def _contended(it: Figures) -> dict[str, Any]:
    fields = it._asdict()
    return {
        "median_wait_seconds": wire.seconds(fields.pop("median_wait")),
        "worst_wait_seconds": wire.seconds(fields.pop("worst_wait")),
        **fields,
        "utilisation": round(it.utilisation, 6),
    }

"""Views that only the page needs: the graph and its layout, runs, contention, closed resources.

Each makes one or a few calls of the public verbs, and shapes their outcome for a picture.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

from leasehold.domain.leases import Inspection
from leasehold.domain.outcomes import Refused
from leasehold.domain.timestamps import SECOND
from leasehold.pictures import contention as figures
from leasehold.pictures.contention import contention
from leasehold.pictures.layout import HEIGHT, WIDTH, placed
from leasehold.pictures.runs import KINDS, runs_of
from leasehold.pictures.waits import waits_of
from leasehold.server.api import problems
from leasehold.server.api import requests as r
from leasehold.server.api.problems import Problem
from leasehold.server.api.routes import Route
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from leasehold.domain.events import Event
    from leasehold.domain.graph import Graph
    from leasehold.pictures.contention import Figures
    from leasehold.pictures.runs import LeaseRun
    from leasehold.pictures.waits import WaitSummary
    from leasehold.server.api.app import App

PAGE = 10_000
EVENTS_MOST = 50_000
"""Contention is computed from at most so many events; the answer says since when."""
EDGES_MOST = 10_000
"""Each waiter waits for all who stand before it: of one resource, that is some 140 waiters."""
BEHIND_MOST = 8
"""Of more holders than these, only the number is sent."""
CLOSED_MOST = 200
WINDOWS = {"hour": 3_600, "day": 86_400, "week": 604_800}


class Window(r.Query):
    """How far back contention is computed."""

    space: str | None = None
    window: str = "hour"


class Runs(r.Query):
    """Which runs."""

    space: str | None = None
    resource: str | None = None
    holder: str | None = None
    since: int | None = None
    before: int | None = None
    limit: int = 2_000


GRAPH = Route("GET", "/dashboard/graph", "graph", r.TAKES["sessions"], "")
RUNS = Route("GET", "/dashboard/runs", "history", Runs, "")
CONTENTION = Route("GET", "/dashboard/contention", "history", Window, "")
CLOSED = Route("GET", "/dashboard/closed", "history", r.TAKES["sessions"], "")


def _checked(outcome: Any) -> Any:  # noqa: ANN401 (whatever a verb gives)
    if isinstance(outcome, Refused):
        raise problems.of_refusal(outcome)
    return outcome


async def _apart(shape: Callable[..., dict[str, Any]], *given: object) -> Response:
    """Shape and encode in a thread: the event loop commits for all callers, and must not be blocked."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, lambda: problems.ok(shape(*given)))


async def graph(app: App, request: Request) -> Response:
    """Return the wait-for graph and where to draw it."""
    _, asked = await app.checked(request, GRAPH)
    return await _apart(_graph, _checked(await app.served.locks.graph(**asked, limit=EDGES_MOST)))


def _graph(seen: Graph) -> dict[str, Any]:
    drawing = placed(seen)
    return {
        "at": wire.rfc3339(seen.now_us),
        "waits": [_wait(each) for each in waits_of(seen)],
        "complete": seen.complete,
        "deadlocks": [wire.event(each) for each in seen.deadlocks],
        "drawing": {
            "nodes": [node._asdict() for node in drawing.nodes],
            "joins": [join._asdict() for join in drawing.joins],
            "width": drawing.width,
            "height": drawing.height,
            "node_width": WIDTH,
            "node_height": HEIGHT,
            "complete": drawing.complete,
        },
    }


def _wait(it: WaitSummary) -> dict[str, Any]:
    """Return a wait as JSON values, without all of its edges: a long queue has too many to send every time."""
    return {
        **it._asdict(),
        "since": wire.rfc3339(it.since),
        "until": wire.rfc3339(it.until),
        "behind": [{"holder": holder, "state": state} for holder, state in it.behind[:BEHIND_MOST]],
        "behind_more": max(0, len(it.behind) - BEHIND_MOST),
    }


async def runs(app: App, request: Request) -> Response:
    """Return the runs in a page of events, and where the next page begins."""
    _, asked = await app.checked(request, RUNS)
    events = _checked(await app.served.locks.history(**asked, lease=None, kinds=KINDS))
    return await _apart(_runs, events, asked["limit"])


def _runs(events: Sequence[Event], limit: int) -> dict[str, Any]:
    more = events[-1].seq if len(events) == limit else None
    return {"runs": [_run(each) for each in runs_of(events)], "more_before": more}


def _run(it: LeaseRun) -> dict[str, Any]:
    fields = it._asdict()
    waited = fields.pop("waited")
    return {
        **fields,
        "context": None if it.context is None else json.loads(it.context),
        "began": wire.rfc3339(it.began),
        "ended": None if it.ended is None else wire.rfc3339(it.ended),
        "waited_seconds": wire.seconds(waited),
    }


class ContentionView:
    """The figures of each window, cached for a while, as they are computed from many events."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._known: dict[tuple[str | None, str], tuple[float, dict[str, Any]]] = {}

    async def answer(self, request: Request) -> Response:
        """Return the most contended resources of a window."""
        _, asked = await self._app.checked(request, CONTENTION)
        window = asked["window"]
        if window not in WINDOWS:
            raise Problem("invalid", f"window: must be one of {', '.join(WINDOWS)}", field="window")
        key = (asked["space"], window)
        known = self._known.get(key)
        if known is None or time.monotonic() > known[0]:
            begun = time.monotonic()
            content = await self._compute(*key)
            took = time.monotonic() - begun
            known = (time.monotonic() + max(2.0, took * 20), content)
            if len(self._known) > 1_000:
                self._known.clear()
            self._known[key] = known
        return problems.ok(known[1])

    async def _compute(self, space: str | None, window: str) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        now = await loop.run_in_executor(None, self._app.served.ping)
        asked_since = now - WINDOWS[window] * SECOND
        events, complete = await self._events(space, asked_since)
        since = asked_since if complete or not events else events[-1].at_us
        found = await loop.run_in_executor(None, contention, events, since, now)
        return {
            "window": window,
            "since": wire.rfc3339(since),
            "until": wire.rfc3339(now),
            "complete": complete,
            "resources": [_figures(each) for each in found],
        }

    async def _events(self, space: str | None, since: int) -> tuple[list[Event], bool]:
        found: list[Event] = []
        before: int | None = None
        while len(found) < EVENTS_MOST:
            page = _checked(
                await self._app.served.locks.history(
                    space=space, kinds=figures.KINDS, since=since, before=before, limit=PAGE
                )
            )
            found += page
            if len(page) < PAGE:
                return found, True
            before = page[-1].seq
        return found, False


def _figures(it: Figures) -> dict[str, Any]:
    fields = it._asdict()
    return {
        "median_wait_seconds": wire.seconds(fields.pop("median_wait")),
        "worst_wait_seconds": wire.seconds(fields.pop("worst_wait")),
        **fields,
        "utilisation": round(it.utilisation, 6),
    }


async def closed(app: App, request: Request) -> Response:
    """Return the resources that an unclean end closed and that were not cleared since."""
    _, asked = await app.checked(request, CLOSED)
    locks = app.served.locks
    events = _checked(await locks.history(**asked, kinds=("quarantined", "cleared"), limit=2_000))
    names = dict.fromkeys((event.space, name) for event in events for name in event.resources)
    found: dict[str, dict[str, Any]] = {}
    for space, name in list(names)[:CLOSED_MOST]:
        seen = await locks.inspect(name, space=space)
        for each in seen.closed if isinstance(seen, Inspection) else ():
            if each.state == "quarantined":
                found[f"{each.lease} {each.resource}"] = {"space": space, **wire.blocker(each)}
    return problems.ok({"closed": list(found.values())})

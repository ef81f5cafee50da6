"""Views that only the page needs: the graph, runs, closed resources, declared pools (`figures`: contention, trends).

Each makes one or a few calls of the public verbs, and shapes their outcome for a picture.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from leasehold.domain import pools as naming
from leasehold.domain.leases import Inspection
from leasehold.domain.outcomes import PoolDeclared, Refused
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
    from leasehold.pictures.runs import LeaseRun
    from leasehold.pictures.waits import WaitSummary
    from leasehold.server.api.app import App

PAGE = 10_000
SCANNED_MOST = 50_000
"""Events, at most, that one request for runs looks through for names that begin with a text or contain it."""
EDGES_MOST = 10_000
"""Each waiter waits for all who stand before it: of one resource, that is some 140 waiters."""
BEHIND_MOST = 8
"""Of more holders than these, only the number is sent."""
CLOSED_MOST = 200
POOLS_MOST = 50
"""The declared members of so many pools are looked up at a time."""


class Runs(r.Query):
    """Which runs."""

    space: str | None = None
    resource: str | None = None
    holder: str | None = None
    lease: str | None = None
    match: str = "exact"
    since: int | None = None
    before: int | None = None
    limit: int = 2_000


GRAPH = Route("GET", "/dashboard/graph", "graph", r.TAKES["sessions"], "")
RUNS = Route("GET", "/dashboard/runs", "history", Runs, "")
POOLS = Route("GET", "/dashboard/pools", "list", r.TAKES["sessions"], "")
CLOSED = Route("GET", "/dashboard/closed", "history", r.TAKES["sessions"], "")


def checked(outcome: Any) -> Any:  # noqa: ANN401 (whatever a verb gives)
    """Return the outcome of a verb, or raise the problem that a refusal stands for."""
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
    return await _apart(_graph, checked(await app.served.locks.graph(**asked, limit=EDGES_MOST)))


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
    match = MATCHES.get(asked.pop("match"))
    if match is None:
        raise Problem("invalid", f"match: must be one of {', '.join(MATCHES)}", field="match")
    if match is exactly or not (asked["resource"] or asked["holder"]):
        events = checked(await app.served.locks.history(**asked, kinds=KINDS))
        more = events[-1].seq if len(events) == asked["limit"] else None
    else:
        events, more = await _scanned(app, asked, match)
    return await _apart(_runs, events, more)


def exactly(name: str, wanted: str) -> bool:
    """Return True for the name itself."""
    return name == wanted


MATCHES: dict[str, Callable[[str, str], bool]] = {
    "exact": exactly,
    "prefix": str.startswith,
    "contains": str.__contains__,
}


async def _scanned(
    app: App, asked: dict[str, Any], match: Callable[[str, str], bool]
) -> tuple[list[Event], int | None]:
    """Look through the history for names that match. The second value says where to go on, if there is more."""
    resource, holder, limit, before = asked["resource"], asked["holder"], asked["limit"], asked["before"]
    fixed = {name: asked[name] for name in ("space", "lease", "since")}
    found: list[Event] = []
    for _ in range(SCANNED_MOST // PAGE):
        page = checked(await app.served.locks.history(**fixed, kinds=KINDS, before=before, limit=PAGE))
        found += [
            each
            for each in page
            if (not resource or any(match(name, resource) for name in each.resources))
            and (not holder or match(each.holder, holder))
        ]
        if len(page) < PAGE:
            return found, None
        before = page[-1].seq
        if len(found) >= limit:
            break
    return found, before


def _runs(events: Sequence[Event], more: int | None) -> dict[str, Any]:
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


async def closed(app: App, request: Request) -> Response:
    """Return the resources that an unclean end closed and that were not cleared since."""
    _, asked = await app.checked(request, CLOSED)
    locks = app.served.locks
    events = checked(await locks.history(**asked, kinds=("quarantined", "cleared"), limit=2_000))
    names = dict.fromkeys((event.space, name) for event in events for name in event.resources)
    found: dict[str, dict[str, Any]] = {}
    for space, name in list(names)[:CLOSED_MOST]:
        seen = await locks.inspect(name, space=space)
        for each in seen.closed if isinstance(seen, Inspection) else ():
            if each.state == "quarantined":
                found[f"{each.lease} {each.resource}"] = {"space": space, **wire.blocker(each)}
    return problems.ok({"closed": list(found.values())})


async def pools(app: App, request: Request) -> Response:
    """Return the declared members of each pool of which a member is held, and of those in the configuration."""
    _, asked = await app.checked(request, POOLS)
    locks = app.served.locks
    leases = checked(await locks.list(space=asked["space"]))
    found = {(each.space, naming.whole(name)) for each in leases for name in each.resources if naming.value(name)}
    found |= {(asked["space"] or locks.space, f"{naming.PREFIX}{name}") for name in app.served.pools}
    told = [(space, name, await _declared(app, space, name)) for space, name in sorted(found)[:POOLS_MOST]]
    return problems.ok({"pools": [{"space": space, "pool": name, "members": members} for space, name, members in told]})


async def _declared(app: App, space: str, name: str) -> list[str]:
    """Return the members that the configuration declares, or else the store, without their labels."""
    members = app.served.pools.get(name.removeprefix(naming.PREFIX), ())
    if not members:
        outcome = await app.served.locks.declare_pool(name, None, by="dashboard", space=space)
        members = outcome.members if isinstance(outcome, PoolDeclared) else ()
    return [each.partition(" ")[0] for each in members]

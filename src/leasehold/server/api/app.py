"""The ASGI application: thin. Decode, authorise, call one verb, answer; problems become problem+json in one place."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route as Path

from leasehold.compat.steps import aask, verbs_of
from leasehold.errors import LeaseholdError
from leasehold.requests.verbs import DEFAULT_TTL
from leasehold.server.access import permissions
from leasehold.server.access.keys import Door
from leasehold.server.access.origin import check_place
from leasehold.server.access.rates import Rates
from leasehold.server.api import batches, decoding, events, hooks, losses, openapi, problems
from leasehold.server.api import mcp as agents
from leasehold.server.api.gateway import endpoints as gateway_endpoints
from leasehold.server.api.problems import Problem
from leasehold.server.api.requests import Body, Query
from leasehold.server.api.routes import ROUTES
from leasehold.server.api.waiting import GIVEN
from leasehold.server.api.workflows import shaped
from leasehold.server.dashboard import login as signing
from leasehold.server.dashboard import routes as dashboard
from leasehold.server.http.bodies import read_body
from leasehold.server.ops import health
from leasehold.server.ops.exposition import MEDIA_TYPE, Exposition
from leasehold.server.ops.metrics import Metrics
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from leasehold.locks.hosted import Served
    from leasehold.server.access.principals import Principal
    from leasehold.server.api.routes import Route
    from leasehold.server.api.waiting import Waits

    Endpoint = Callable[[Request], Awaitable[Response]]

log = logging.getLogger("leasehold.server")


class App:
    """What the routes share."""

    def __init__(
        self, served: Served, *, loopback: bool, rate: float, waits: Waits, ttl: float | str = DEFAULT_TTL
    ) -> None:
        self.served = served
        self.ttl = ttl
        """How long a lease lives where nobody said, on the routes that leave it to the configuration."""
        self.door = Door(served, loopback=loopback)
        self.rates = Rates(rate)
        self.waits = waits
        waits.watch(self.door)
        self.metrics = Metrics(served)
        self.exposition = Exposition(self.metrics)
        self.streams = events.Streams(served, self.door)
        self.losses = losses.Losses(served, self.door)
        self.agents = agents.Agents(self)

    def close(self) -> None:
        """Tell everybody who waits or watches that the server goes away."""
        self.waits.close()
        self.streams.close()
        self.losses.close()
        self.agents.close()

    def noted(self, error: BaseException) -> Problem:
        """Whatever ended a call, as a problem; it is counted."""
        problem = problem_of(error)
        self.metrics.refused(problem.code)
        return problem

    def tell(self, error: BaseException) -> Response:
        """Whatever ended a request, as problem+json."""
        return problems.respond(self.noted(error))

    def check_place(self, request: Request) -> None:
        """Refuse what a page of another origin asks of a server without keys."""
        if self.door.is_open:
            told = request.headers
            check_place(told.get("host"), told.get("origin"), told.get("sec-fetch-site"))

    async def admit(self, request: Request, space: str | None) -> Principal:
        """Who asks; counted against its rate."""
        header = request.headers.get("authorization")
        who = await self.door.admit(header, space, lambda: signing.shown(request))
        self.check_place(request)
        self.rates.take(who.id)
        return who

    async def understand(self, request: Request, route: Route) -> tuple[Principal, dict[str, Any]]:
        """Who asks for what, within its bounds."""
        try:
            asked = await _decode(request, route)
        except Problem:
            await self.admit(request, None)  # whoever is not let in is told that, and nothing about the body
            raise
        who = await self.admit(request, getattr(asked, "space", None))
        return who, permissions.bounded(who, route.verb, decoding.arguments(asked))


async def _decode(request: Request, route: Route) -> Body | Query:
    if issubclass(route.takes, Query):
        return decoding.decode_query(route.takes, request.query_params.multi_items())
    return decoding.decode(route.takes, await read_body(request), request.headers.get("content-type"))


def endpoint(app: App, route: Route) -> Endpoint:
    """The handler of one route."""

    async def answer(request: Request) -> Response:
        who, asked = await app.understand(request, route)
        if route.steps is not None:
            told = await aask(verbs_of(app.served.locks_for(who.authority)), route.steps(who, asked))
            return problems.ok(shaped(told, route.gives))
        given = request.scope["extensions"][GIVEN]["tell"]
        if route.verb == "batch":
            batch = batches.Batch(app, who, asked["calls"])
            return await batches.answer(batch, request.receive, given) or Response(status_code=499)
        if route.verb == "acquire":
            return await app.waits.acquire(who, asked, request.receive, given) or Response(status_code=499)
        if route.verb == "whoami":
            return problems.ok(wire.answer(permissions.whoami(who)))
        outcome = await getattr(app.served.locks_for(who.authority), route.verb)(**asked)
        if wire.is_refusal(outcome):
            raise problems.of_refusal(outcome)
        return problems.ok(wire.encoded(route.gives, permissions.as_seen_by(who, outcome)))

    return answer


def _watching(app: App) -> Endpoint:
    async def answer(request: Request) -> Response:
        who, asked = await app.understand(request, events.ROUTE)
        return await app.streams.open(who, asked, request.headers.get("last-event-id"))

    return answer


def _following(app: App) -> Endpoint:
    async def answer(request: Request) -> Response:
        _, asked = await app.understand(request, losses.ROUTE)
        return app.losses.open(asked)

    return answer


def _looking(app: App, look: Callable[[App], Awaitable[Response]]) -> Endpoint:
    """What anybody may see who gets through to this port; a link to it may stand on any page."""

    async def answer(request: Request) -> Response:
        if app.door.is_open:
            check_place(request.headers.get("host"), request.headers.get("origin"))
        return await look(app)

    return answer


async def _metrics(app: App) -> Response:
    return Response(app.exposition.text(), media_type=MEDIA_TYPE)


async def _ready(app: App) -> Response:
    return await health.ready(app.served)


async def _healthy(_app: App) -> Response:
    return problems.ok({"status": "ok"})


async def _described(_app: App) -> Response:
    return problems.ok(openapi.document())


OPEN_LOOKS = {"/healthz": _healthy, "/readyz": _ready, "/metrics": _metrics, "/openapi.json": _described}


def problem_of(error: BaseException) -> Problem:
    """Whatever ended a request, as a problem."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, LeaseholdError):
        return problems.of_error(error)
    if isinstance(error, HTTPException):
        if error.status_code == 405:
            return Problem("method", "this route has another method", **_allow(error))
        return Problem("not_found", "there is no such route; see /openapi.json")
    log.error("a request broke", exc_info=error)
    return Problem("internal", "something broke that never should; the server's log tells what")


def _allow(error: HTTPException) -> dict[str, str]:
    return {"allow": error.headers["Allow"]} if error.headers and "Allow" in error.headers else {}


def _guarded(app: App, answer: Endpoint) -> Endpoint:
    async def guarded(request: Request) -> Response:
        try:
            return await answer(request)
        except ClientDisconnect:
            return Response(status_code=499)  # nobody will read it
        except Exception as error:  # noqa: BLE001 (told, and logged if it is a bug)
            return app.tell(error)

    return guarded


def _paths(app: App) -> list[Path]:
    by_path: dict[str, dict[str, Endpoint]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, {})[route.method] = endpoint(app, route)
    by_path["/v1/events"] = {"GET": _watching(app)}
    by_path[losses.ROUTE.path] = {"POST": _following(app)}
    by_path.update(gateway_endpoints(app))
    by_path.update(hooks.endpoints(app))
    for path, look in OPEN_LOOKS.items():
        by_path[path] = {"GET": _looking(app, look)}
    by_path.update(dashboard.paths(app))
    paths = [Path(path, _by_method(app, handlers), methods=list(handlers)) for path, handlers in by_path.items()]
    return [*paths, *(Path(path, app.agents) for path in (agents.PATH, f"{agents.PATH}/"))]


def _by_method(app: App, handlers: dict[str, Endpoint]) -> Endpoint:
    async def answer(request: Request) -> Response:
        return await handlers["GET" if request.method == "HEAD" else request.method](request)

    return _guarded(app, answer)


def asgi(app: App) -> Starlette:
    """The application."""

    async def told(_request: Request, error: Exception) -> Response:
        return app.tell(error)

    application = Starlette(routes=_paths(app), exception_handlers={HTTPException: told, Exception: told})
    # `/v1/leases/` is no route. Sent elsewhere, a client behind a proxy would be sent from https to http, with its key.
    application.router.redirect_slashes = False
    return application


__all__ = ["App", "asgi"]

"""The application: what its routes share, and the parser of requests that Starlette has read.

``http/quick.py`` parses plain requests without Starlette. Both call the dispatcher.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route as Path

from leasehold.requests.verbs import DEFAULT_TTL
from leasehold.routing.owning import PROTOCOL
from leasehold.server.access.authentication import Authenticator, check_origin
from leasehold.server.access.permissions import Rates
from leasehold.server.api import decoding, events, git_lfs, hooks, losses, openapi, problems, terraform
from leasehold.server.api import mcp as agents
from leasehold.server.api.dispatch import Dispatcher
from leasehold.server.api.gateway import endpoints as gateway_endpoints
from leasehold.server.api.handing_on import HEADER, LEAVE
from leasehold.server.api.problems import Problem
from leasehold.server.api.requests import Body, Query
from leasehold.server.api.routes import ROUTES
from leasehold.server.api.sse import gone
from leasehold.server.dashboard import login
from leasehold.server.dashboard import routes as dashboard
from leasehold.server.http.bodies import read_body
from leasehold.server.ops import health
from leasehold.server.ops.exposition import Exposition
from leasehold.server.ops.health import StoreLook
from leasehold.server.ops.metrics import Metrics
from leasehold.server.ops.operator_log import REQUEST_ID, OperatorLog, request_id
from leasehold.tracing import kept

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from leasehold.locks.hosted import Served
    from leasehold.server.access.principals import Principal
    from leasehold.server.api.dispatch import Operation
    from leasehold.server.api.long_polls import LongPolls
    from leasehold.server.api.routes import Route

    Endpoint = Callable[[Request], Awaitable[Response]]

_CANCEL = next(route for route in ROUTES if route.verb == "cancel")
CANCELLABLE = ("acquire", "batch")
"""Verbs that are cancelled when the client disconnects: others acquire nothing that nobody would release."""
ANSWERED = "leasehold.answered"
"""The extension of ASGI by which a request says what it answers, in case the client does not receive it."""


class App:
    """The parts of a server that its routes share."""

    def __init__(
        self,
        served: Served,
        *,
        loopback: bool,
        rate: float,
        polls: LongPolls,
        ttl: float | str = DEFAULT_TTL,
        agents_may_force: bool = False,
    ) -> None:
        self.served = served
        self.ttl = ttl
        """The TTL on routes whose requests may leave it to the configuration."""
        self.authenticator = Authenticator(served, loopback=loopback)
        self.rates = Rates(rate)
        self.operator_log = OperatorLog()
        served.watch(self.operator_log.observe, frozenset(("expired",)))
        self.metrics = Metrics(served, self.operator_log.slow_commit)
        self.exposition = Exposition(self.metrics)
        self.store_look = StoreLook(served, self.metrics)
        self.polls = polls
        polls.watch(self.authenticator)
        self.dispatcher = Dispatcher(served, self.rates, polls, self.metrics)
        self.streams = events.EventStreams(served, self.authenticator)
        self.losses = losses.LossStreams(served, self.authenticator)
        self.agents = agents.McpEndpoint(self, may_force=agents_may_force)

    def close(self) -> None:
        """Answer every waiting client, and end every stream, because the server stops."""
        self.polls.close()
        if self.dispatcher.handing_on is not None:
            self.dispatcher.handing_on.close()
        self.streams.close()
        self.losses.close()
        self.agents.close()

    def refuse(self, error: BaseException) -> Response:
        """Return the answer to a request that failed."""
        return problems.respond(self.dispatcher.refuse(error))

    def check_origin(self, request: Request) -> None:
        """Refuse requests from pages of other origins to a server without keys."""
        if self.authenticator.is_open:
            given = request.headers
            check_origin(given.get("host"), given.get("origin"), given.get("sec-fetch-site"))

    async def identify(self, request: Request, space: str | None = None) -> Principal:
        """Return the caller."""
        header = request.headers.get("authorization")
        handed_on = is_handed_on(request)
        who = await self.authenticator.identify(header, space, lambda: login.header_of(request), handed_on=handed_on)
        self.check_origin(request)
        return who

    async def admit(self, request: Request, space: str | None = None) -> Principal:
        """Return the caller, and count the request against its rate."""
        who = await self.identify(request, space)
        self.rates.take(who.id)
        return who

    async def parse(self, request: Request, route: Route) -> tuple[Principal, dict[str, Any]]:
        """Return the caller and the arguments of a request."""
        try:
            if issubclass(route.takes, Query):
                decoded: Body | Query = decoding.decode_query(route.takes, request.query_params.multi_items())
            else:
                content = await read_body(request)
                decoded = decoding.decode(route.takes, content, request.headers.get("content-type"))
        except Problem:
            await self.admit(request)  # a caller without a valid key learns that, and nothing about the body
            raise
        given = decoding.arguments(decoded)
        if route.verb == "acquire" and given["trace"] is None:
            given["trace"] = request.headers.get("traceparent") or request_id(request)
        who = await self.identify(request, given.get("space"))
        return who, given

    async def checked(self, request: Request, route: Route) -> tuple[Principal, dict[str, Any]]:
        """Return the caller and the arguments of a request that is answered without the dispatcher, within bounds."""
        who, given = await self.parse(request, route)
        return who, self.dispatcher.check(who, route.verb, given)


async def answer_verb(app: App, route: Route, request: Request) -> Response:
    """Answer a request for a verb."""
    who, given = await app.parse(request, route)
    loop = asyncio.get_running_loop()
    over: asyncio.Future[Operation] = loop.create_future()

    def done(answered: Operation) -> None:
        if not over.done():
            over.set_result(answered)

    trace = kept(request.headers.get("traceparent"))
    operation = app.dispatcher.begin(who, route.verb, given, done, handed_on=is_handed_on(request), trace=trace)
    waited: list[asyncio.Future[Any]] = [over]
    if route.verb in CANCELLABLE:
        waited.append(loop.create_task(gone(request.receive)))
    try:
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if any(each.done() for each in waited[1:]):
            operation.cancel()
            raise ClientDisconnect
    except asyncio.CancelledError:
        operation.cancel()
        raise
    finally:
        for each in waited:
            each.cancel()
    request.scope["extensions"][ANSWERED](operation)
    answered = app.dispatcher.answer(operation)
    if answered.status == 200:
        app.operator_log.acted(who, route.verb, operation.arguments, request)
    elif isinstance(operation.answer, Problem):
        app.operator_log.refused(operation.answer, request)
    return problems.respond(answered)


async def _leave(app: App, request: Request) -> Response:
    """Withdraw a waiting request that another server has handed on: its client has disconnected there."""
    who, given = await app.checked(request, _CANCEL)
    return problems.ok({"left": app.polls.leave(who, given)})


def is_handed_on(request: Request) -> bool:
    """Return True if another server hands this request on; refuse one of another version."""
    told = request.headers.get(HEADER)
    if told is not None and told != str(PROTOCOL):
        message = f"{HEADER}: this server has version {PROTOCOL} of what servers send to each other"
        raise Problem("invalid", message, field=HEADER)
    return told is not None


async def _watch_events(app: App, request: Request) -> Response:
    who, given = await app.checked(request, events.ROUTE)
    return await app.streams.open(who, given, request.headers.get("last-event-id"))


async def _watch_losses(app: App, request: Request) -> Response:
    who, given = await app.checked(request, losses.ROUTE)
    return app.losses.open(who, given)


async def _metrics(app: App, request: Request) -> Response:
    await app.store_look.refresh()
    text, media_type = app.exposition.text(request.headers.get("accept", ""))
    return Response(text, media_type=media_type)


async def _ready(app: App, _request: Request) -> Response:
    return await health.ready(app.served)


async def _healthy(_app: App, _request: Request) -> Response:
    return problems.ok({"status": "ok"})


async def _description(_app: App, _request: Request) -> Response:
    return problems.ok(openapi.document())


WITHOUT_KEY = {"/healthz": _healthy, "/readyz": _ready, "/metrics": _metrics, "/openapi.json": _description}


async def _answer_without_key(
    app: App, answer: Callable[[App, Request], Awaitable[Response]], request: Request
) -> Response:
    """Answer every client that reaches this port; a link may stand on any page."""
    if app.authenticator.is_open:
        check_origin(request.headers.get("host"), request.headers.get("origin"))
    return await answer(app, request)


def _paths(app: App) -> list[Path]:
    by_path: dict[str, dict[str, Endpoint]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, {})[route.method] = partial(answer_verb, app, route)
    by_path[events.ROUTE.path] = {"GET": partial(_watch_events, app)}
    by_path[losses.ROUTE.path] = {"POST": partial(_watch_losses, app)}
    by_path[LEAVE] = {"POST": partial(_leave, app)}
    by_path.update(gateway_endpoints(app))
    by_path.update(terraform.endpoints(app))
    by_path.update(git_lfs.endpoints(app))
    by_path.update(hooks.endpoints(app))
    for path, answer in WITHOUT_KEY.items():
        by_path[path] = {"GET": partial(_answer_without_key, app, answer)}
    by_path.update(dashboard.paths(app))
    paths = [Path(path, _by_method(app, handlers), methods=list(handlers)) for path, handlers in by_path.items()]
    return [*paths, *(Path(path, app.agents) for path in (agents.PATH, f"{agents.PATH}/"))]


def _by_method(app: App, handlers: dict[str, Endpoint]) -> Endpoint:
    async def answer(request: Request) -> Response:
        try:
            answered = await handlers["GET" if request.method == "HEAD" else request.method](request)
        except ClientDisconnect:
            return Response(status_code=499)  # nobody will read it
        except Exception as error:  # noqa: BLE001 (answered, and logged if it is a bug)
            if isinstance(error, Problem):
                app.operator_log.refused(error, request)
            answered = app.refuse(error)
        given = request_id(request)
        if given is not None:
            answered.headers[REQUEST_ID] = given
        return answered

    return answer


def asgi(app: App) -> Starlette:
    """Return the application for ASGI."""

    async def refuse(_request: Request, error: Exception) -> Response:
        return app.refuse(error)

    application = Starlette(routes=_paths(app), exception_handlers={HTTPException: refuse, Exception: refuse})
    # `/v1/leases/` is no route. Sent elsewhere, a client behind a proxy would be sent from https to http, with its key.
    application.router.redirect_slashes = False
    return application

"""Action Llama's gateway routes, `/locks/…`. A run shows its secret; answers and refusals are spelled as there.

``compat.action_llama`` says what the routes mean; this module identifies the caller and reads the body.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from leasehold.compat import action_llama as llama
from leasehold.compat.steps import aask
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.server.access import permissions
from leasehold.server.api import decoding, problems
from leasehold.server.api.problems import Problem
from leasehold.server.http.bodies import read_body

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from leasehold.server.access.principals import Principal
    from leasehold.server.api.app import App
    from leasehold.steps import Steps

    Endpoint = Callable[[Request], Awaitable[Response]]
    Answering = Callable[[App, Request], Awaitable[llama.LlamaReply]]


def endpoints(app: App) -> dict[str, dict[str, Endpoint]]:
    """Return the handlers, by path and method."""

    def of(answer: Answering) -> Endpoint:
        return partial(_answer, app, answer)

    return {
        "/locks/acquire": {"POST": of(partial(_change, _acquire))},
        "/locks/release": {"POST": of(partial(_change, lambda _app, run, key, _body: llama.release(run, key)))},
        "/locks/heartbeat": {
            "POST": of(partial(_change, lambda _app, run, key, body: llama.heartbeat(run, key, body["ttl"])))
        },
        "/locks/list": {"GET": of(_list_own)},
        "/locks/status": {"GET": of(_status)},
    }


async def _answer(
    app: App, answer: Callable[[App, Request], Awaitable[llama.LlamaReply]], request: Request
) -> Response:
    """Answer as the gateway does, also if something fails."""
    try:
        reply = await answer(app, request)
    except InvalidInput as error:
        reply = llama.bad(error.message)
    except Problem as problem:
        app.metrics.refused(problem.code)
        return _of_problem(problem)
    except LeaseholdError as error:
        return _of_problem(problems.of_error(error))
    return problems.respond_json(reply.body, reply.status)


def _of_problem(problem: Problem) -> Response:
    if problem.code == "unauthenticated":
        return problems.respond_json({"error": llama.INVALID_SECRET}, 403)
    answer = problems.answer(problem)
    return problems.respond_json({"error": problem.detail}, answer.status, answer.headers)


# ------------------------------------------------------------------------------------------- the caller


async def _admit(app: App, secret: str, space: str | None) -> Principal:
    """Return the session with this secret, and count the request against its rate."""
    for credential in llama.credentials(secret):
        try:
            who = await app.authenticator.identify(f"Bearer {credential}", space)
        except Problem as problem:
            if problem.code != "unauthenticated":
                raise
            continue
        app.rates.take(who.id)
        return who
    raise Problem("unauthenticated", llama.INVALID_SECRET)


def _run_of(who: Principal) -> llama.LlamaRun:
    return llama.LlamaRun(who.name, who.space, who.session)


async def _ask(app: App, who: Principal, steps: Steps[llama.LlamaReply]) -> llama.LlamaReply:
    return await aask(partial(app.dispatcher.ask, who), steps)


# ------------------------------------------------------------------------------------------- the routes


async def _change(
    steps: Callable[[App, llama.LlamaRun, str, dict[str, Any]], Steps[llama.LlamaReply]], app: App, request: Request
) -> llama.LlamaReply:
    app.check_origin(request)
    body = await _body(request)
    secret = _text(body, "secret")
    if secret is None:
        return llama.bad("missing secret")
    key = llama.key_of(body.get("resourceKey"))
    ttl = llama.ttl_of(body.get("ttl"))
    who = await _admit(app, secret, _text(body, "space"))
    return await _ask(app, who, steps(app, _run_of(who), key, {**body, "ttl": ttl}))


def _acquire(app: App, run: llama.LlamaRun, key: str, body: dict[str, Any]) -> Steps[llama.LlamaReply]:
    ttl = app.ttl if body["ttl"] is None else body["ttl"]
    return llama.acquire(run, key, ttl, body["resourceKey"])


async def _body(request: Request) -> dict[str, Any]:
    content = await read_body(request)
    decoding.check_media_type(request.headers.get("content-type"))
    try:
        body = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise InvalidInput("body", "invalid JSON body")
    return body


def _text(body: dict[str, Any], field: str) -> str | None:
    value = body.get(field)
    return value if isinstance(value, str) and value else None


async def _list_own(app: App, request: Request) -> llama.LlamaReply:
    app.check_origin(request)
    secret = request.query_params.get("secret") or _bearer(request)
    if not secret:
        return llama.bad("missing secret")
    who = await _admit(app, secret, request.query_params.get("space"))
    return await _ask(app, who, llama.own(_run_of(who)))


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def _status(app: App, request: Request) -> llama.LlamaReply:
    """Return every lock, also to callers with a key and, where there are no keys, to every caller."""
    space = request.query_params.get("space")
    token = _bearer(request)
    if token and not token.startswith("lh_"):
        app.check_origin(request)
        who = await _admit(app, token, space)
    else:
        who = await app.admit(request, space)
    permissions.allow(who, "list")
    asked = permissions.bound(who, "list", {"space": space})
    return await _ask(app, who, llama.status(asked["space"]))

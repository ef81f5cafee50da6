"""LOCK and UNLOCK /terraform/lock/NAME: the locks of Terraform's and OpenTofu's `http` backend.

``compat.terraform`` says what they mean; this module identifies the caller and reads the body.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from leasehold.compat import terraform
from leasehold.compat.steps import aask
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.server.api import decoding, problems
from leasehold.server.api.basic import admit_by_password
from leasehold.server.api.problems import Problem
from leasehold.server.http.bodies import read_body

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from leasehold.server.api.app import App
    from leasehold.steps import Steps

    Endpoint = Callable[[Request], Awaitable[Response]]

PATH = "/terraform/lock/{name:path}"


def endpoints(app: App) -> dict[str, dict[str, Endpoint]]:
    """Return the handlers, by path and method. POST and DELETE are for clients that know no other methods."""
    lock, unlock = partial(_answer, app, _lock), partial(_answer, app, _unlock)
    return {PATH: {"LOCK": lock, "POST": lock, "UNLOCK": unlock, "DELETE": unlock}}


async def _answer(
    app: App, steps: Callable[[Request, str, bytes], Steps[terraform.TerraformReply]], request: Request
) -> Response:
    try:
        app.check_origin(request)
        content = await read_body(request)
        who, _ = await admit_by_password(app, request, request.query_params.get("space"))
        space = request.query_params.get("space") or who.space or "default"
        reply = await aask(partial(app.dispatcher.ask, who), steps(request, space, content))
    except InvalidInput as error:
        reply = terraform.TerraformReply(400, {"error": str(error)})
    except Problem as problem:
        app.metrics.refused(problem.code)
        return problems.respond(problems.answer(problem))
    except LeaseholdError as error:
        return problems.respond(problems.answer(problems.of_error(error)))
    return problems.respond_json(reply.body, reply.status)


def _lock(request: Request, space: str, content: bytes) -> Steps[terraform.TerraformReply]:
    return terraform.acquire(_wanted(request, space, content))


def _unlock(request: Request, space: str, content: bytes) -> Steps[terraform.TerraformReply]:
    if not content:
        return terraform.force(request.path_params["name"], space)
    return terraform.release(_wanted(request, space, content))


def _wanted(request: Request, space: str, content: bytes) -> terraform.TerraformLock:
    decoding.check_media_type(request.headers.get("content-type"))
    try:
        body: Any = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = None
    ttl = request.query_params.get("ttl") or terraform.TTL
    return terraform.TerraformLock(request.path_params["name"], terraform.lock_info(body), space, ttl)

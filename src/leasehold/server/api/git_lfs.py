"""The file-locking API of Git LFS, for `lfs.url = https://SERVER/lfs/SPACE`: a repository is a space.

``compat.git_lfs`` says what its routes mean; this module identifies the caller and reads the body.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from leasehold.compat import git_lfs
from leasehold.compat.steps import aask
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.server.api import problems
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
    Meaning = Callable[[git_lfs.LfsCaller, Request, dict[str, Any]], Steps[git_lfs.LfsReply]]

BASE = "/lfs/{space:path}/locks"
MEDIA = "application/vnd.git-lfs+json"
_ASK = {"LFS-Authenticate": 'Basic realm="Leasehold: any user name, and a key as the password"'}


def endpoints(app: App) -> dict[str, dict[str, Endpoint]]:
    """Return the handlers, by path and method."""

    def of(meaning: Meaning) -> Endpoint:
        return partial(_answer, app, meaning)

    lock = of(lambda caller, _request, body: git_lfs.acquire(caller, body.get("path")))
    listed = of(lambda caller, request, _body: git_lfs.locks(caller, dict(request.query_params)))
    return {
        f"{BASE}/verify": {"POST": of(lambda caller, _request, body: git_lfs.verify(caller, body))},
        f"{BASE}/{{id}}/unlock": {"POST": of(_unlock)},
        BASE: {"POST": lock, "GET": listed},
    }


def _unlock(caller: git_lfs.LfsCaller, request: Request, body: dict[str, Any]) -> Steps[git_lfs.LfsReply]:
    return git_lfs.release(caller, request.path_params["id"], force=body.get("force") is True)


async def _answer(app: App, meaning: Meaning, request: Request) -> Response:
    headers: dict[str, str] = {}
    try:
        app.check_origin(request)
        body = await _body(request)
        who, user = await admit_by_password(app, request, request.path_params["space"])
        principal = None if who.authority is None else who.authority.principal
        holder = who.name if principal is not None else user or who.name
        caller = git_lfs.LfsCaller(holder, request.path_params["space"], principal)
        reply = await aask(partial(app.dispatcher.ask_fully, who), meaning(caller, request, body))
    except InvalidInput as error:
        reply = git_lfs.LfsReply(400, {"message": str(error)})
    except (Problem, LeaseholdError) as error:
        problem = error if isinstance(error, Problem) else problems.of_error(error)
        app.metrics.refused(problem.code)
        headers = _ASK if problem.code == "unauthenticated" else {}
        reply = git_lfs.LfsReply(problems.answer(problem).status, {"message": problem.detail})
    return problems.respond_json(reply.body, reply.status, {**headers, "Content-Type": MEDIA})


async def _body(request: Request) -> dict[str, Any]:
    content = await read_body(request)
    if not content:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != MEDIA:  # pages of other origins need a preflight for it
        raise Problem("media_type", f"send JSON as {MEDIA}")
    try:
        body = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise InvalidInput("body", "must be a JSON object")
    return body

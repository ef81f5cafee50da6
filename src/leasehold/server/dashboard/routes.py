"""The paths of the server that belong to the page, and its files."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from leasehold.server.api.problems import Problem
from leasehold.server.dashboard import login, views
from leasehold.server.dashboard.figures import HistoryFigures

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from leasehold.server.api.app import App

    Endpoint = Callable[[Request], Awaitable[Response]]
    from starlette.requests import Request


def paths(app: App) -> dict[str, dict[str, Endpoint]]:
    """Return the handlers, by path and method."""
    files, figures = PageFiles(), HistoryFigures(app)
    return {
        "/": {"GET": files.page},
        "/dashboard/session": {
            "GET": partial(login.who_am_i, app),
            "POST": partial(login.sign_in, app),
            "DELETE": partial(login.sign_out, app),
        },
        "/dashboard/graph": {"GET": partial(views.graph, app)},
        "/dashboard/runs": {"GET": partial(views.runs, app)},
        "/dashboard/contention": {"GET": figures.contention},
        "/dashboard/trends": {"GET": figures.trends},
        "/dashboard/pools": {"GET": partial(views.pools, app)},
        "/dashboard/closed": {"GET": partial(views.closed, app)},
        "/dashboard/{name}": {"GET": files.part},
    }


FOLDER = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-cache",
}


class PageFile(msgspec.Struct, frozen=True):
    """One file, read once."""

    content: bytes
    media_type: str
    tag: str


def _read() -> dict[str, PageFile]:
    found: dict[str, PageFile] = {}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in TYPES:
            content = path.read_bytes()
            found[path.name] = PageFile(content, TYPES[path.suffix], f'"{sha256(content).hexdigest()[:20]}"')
    return found


class PageFiles:
    """The files of the page. Names are keys of a table, never paths, so nothing else can be read."""

    def __init__(self) -> None:
        self._files = _read()

    async def page(self, request: Request) -> Response:
        """Return the page itself."""
        return self._respond("index.html", request)

    async def part(self, request: Request) -> Response:
        """Return a script, a style or a picture of the page."""
        return self._respond(str(request.path_params["name"]), request)

    def _respond(self, name: str, request: Request) -> Response:
        file = self._files.get(name)
        if file is None:
            raise Problem("not_found", "there is no such file; the page is at /")
        headers = {**HEADERS, "etag": file.tag}
        if request.headers.get("if-none-match") == file.tag:
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers, media_type=file.media_type)

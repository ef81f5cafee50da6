"""The files of the page, with headers that allow no other script to run and no other file to be fetched."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from leasehold.server.api.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request

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

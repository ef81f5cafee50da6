"""Signing in with a key: a cookie stands for an `Authorization` header, for requests of our own page only.

The cookie contains the key itself, so it survives a restart, works at every server of the store, and ends when the key
is revoked (docs/adr/0016). Scripts cannot read it and other sites cannot send it. A request that changes something must
also have a header that no form and no page of another origin can send without a preflight request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

import leasehold
from leasehold.server.access import permissions
from leasehold.server.access.authentication import is_own_site, is_same_origin
from leasehold.server.api import decoding, problems
from leasehold.server.api.problems import Problem
from leasehold.server.api.requests import Body
from leasehold.server.http.bodies import read_body

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from leasehold.server.access.principals import Principal
    from leasehold.server.api.app import App

HEADER = "x-leasehold"
"""Our page sends it with every request. Its value does not matter: other origins cannot send it."""
READING = ("GET", "HEAD")
OWN_PAGE = "a signed-in browser may only be used by the dashboard's own page"


class SignIn(Body):
    """Sign in with a key."""

    key: str


def cookie_name(request: Request) -> str:
    """Return a name with the port: cookies ignore ports, and servers of one machine must not sign each other out."""
    host = request.headers.get("host", "")
    _, colon, port = host.rpartition(":")
    return f"leasehold_{port}" if colon and port.isdigit() else "leasehold"


def header_of(request: Request) -> str | None:
    """Return the header that the cookie stands for, or None. Refuse a cookie that another page sends."""
    key = request.cookies.get(cookie_name(request))
    if not key:
        return None
    check_page(request)
    return f"Bearer {key}"


def check_page(request: Request) -> None:
    """Refuse requests that do not come from our own page."""
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    if not is_own_site(request.headers.get("sec-fetch-site")):
        raise Problem("not_allowed", OWN_PAGE)
    if origin is not None and not is_same_origin(host, origin):
        behind = f"it is at {origin[:100]} and requests {host[:100]}: a proxy between them must forward the Host"
        raise Problem("not_allowed", f"{OWN_PAGE}; {behind}")
    if request.method not in READING and HEADER not in request.headers:
        raise Problem("not_allowed", f"with a cookie, the header {HEADER} is needed; with a key: Authorization")


async def sign_in(app: App, request: Request) -> Response:
    """Set the cookie for a caller with a key."""
    check_page(request)
    if HEADER not in request.headers:
        raise Problem("not_allowed", f"the header {HEADER} is needed")
    asked = decoding.decode(SignIn, await read_body(request), request.headers.get("content-type"))
    key = asked.key.strip()
    if not key.startswith("lh_") or not key.isascii() or not key.isprintable():
        raise Problem("invalid", "key: must be a key, which begins with lh_", field="key")
    who = await app.authenticator.identify(f"Bearer {key}", None)
    app.rates.take(who.id)
    response = problems.ok(_signed_in(app, who))
    secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
    response.set_cookie(cookie_name(request), key, path="/", httponly=True, samesite="strict", secure=secure)
    return response


async def sign_out(_app: App, request: Request) -> Response:
    """Delete the cookie."""
    check_page(request)
    response = problems.ok({"signed_in": False})
    response.delete_cookie(cookie_name(request), path="/", httponly=True, samesite="strict")
    return response


async def who_am_i(app: App, request: Request) -> Response:
    """Return who is signed in. If no one is, answer so: a browser would log a refusal as an error."""
    try:
        who = await app.admit(request)
    except Problem as problem:
        if problem.code != "unauthenticated":
            raise
        return problems.ok({"signed_in": False, "version": leasehold.__version__})
    return problems.ok(_signed_in(app, who))


class SignedIn(msgspec.Struct):
    """The facts about its user that the page needs."""

    name: str
    role: str
    space: str | None
    open: bool
    can: list[str]
    version: str
    signed_in: bool = True


def _signed_in(app: App, who: Principal) -> dict[str, object]:
    everywhere = who.role == "admin"
    can = sorted(permissions.ROLES[who.role])
    space = None if everywhere else who.space
    is_open = app.authenticator.is_open and who.id == "open"
    return msgspec.to_builtins(  # type: ignore[no-any-return] # of a struct: a dict
        SignedIn(name=who.name, role=who.role, space=space, open=is_open, can=can, version=leasehold.__version__)
    )

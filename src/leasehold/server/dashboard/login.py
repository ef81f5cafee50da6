"""Signing in with a key: from a cookie to what `Authorization` would have said, for requests of our own page only.

The cookie carries the key itself, so that a restart, another server of the same store and a revocation all do what
one expects (docs/adr/0016). Scripts cannot read it, other sites cannot send it, and whatever changes something must
also carry a header that no form and no page of another origin can send without asking first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

import leasehold
from leasehold.server.access import permissions
from leasehold.server.access.origin import is_own_site, is_same_origin
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
"""What our page sends with every request. Anything will do: that it can be sent is the proof."""
LOOKS = ("GET", "HEAD")
OWN_PAGE = "a signed-in browser may only be used by the dashboard's own page"


class SignIn(Body):
    """Who wants in."""

    key: str


def cookie_name(request: Request) -> str:
    """One for each port: cookies know none, and several servers of one machine must not sign each other out."""
    host = request.headers.get("host", "")
    _, colon, port = host.rpartition(":")
    return f"leasehold_{port}" if colon and port.isdigit() else "leasehold"


def shown(request: Request) -> str | None:
    """What the cookie stands for; None without one. Who sends it from elsewhere is refused."""
    key = request.cookies.get(cookie_name(request))
    if not key:
        return None
    check_page(request)
    return f"Bearer {key}"


def check_page(request: Request) -> None:
    """Whether it is our own page that asks."""
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    if not is_own_site(request.headers.get("sec-fetch-site")):
        raise Problem("not_allowed", OWN_PAGE)
    if origin is not None and not is_same_origin(host, origin):
        behind = f"it is at {origin[:100]} and asks {host[:100]}: if there is a proxy between, it must pass the Host on"
        raise Problem("not_allowed", f"{OWN_PAGE}; {behind}")
    if request.method not in LOOKS and HEADER not in request.headers:
        raise Problem("not_allowed", f"with a cookie, the header {HEADER} is needed; with a key: Authorization")


async def sign_in(app: App, request: Request) -> Response:
    """A cookie for whoever has a key."""
    check_page(request)
    if HEADER not in request.headers:
        raise Problem("not_allowed", f"the header {HEADER} is needed")
    asked = decoding.decode(SignIn, await read_body(request), request.headers.get("content-type"))
    key = asked.key.strip()
    if not key.startswith("lh_") or not key.isascii() or not key.isprintable():
        raise Problem("invalid", "key: must be a key, which begins with lh_", field="key")
    who = await app.door.admit(f"Bearer {key}", None)
    app.rates.take(who.id)
    response = problems.ok(_told(app, who))
    secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
    response.set_cookie(cookie_name(request), key, path="/", httponly=True, samesite="strict", secure=secure)
    return response


async def sign_out(_app: App, request: Request) -> Response:
    """The cookie is forgotten."""
    check_page(request)
    response = problems.ok({"signed_in": False})
    response.delete_cookie(cookie_name(request), path="/", httponly=True, samesite="strict")
    return response


async def who_am_i(app: App, request: Request) -> Response:
    """Who is signed in. That nobody is, is an answer as well: a browser would log a refusal as an error."""
    try:
        who = await app.admit(request, None)
    except Problem as problem:
        if problem.code != "unauthenticated":
            raise
        return problems.ok({"signed_in": False, "version": leasehold.__version__})
    return problems.ok(_told(app, who))


class Told(msgspec.Struct):
    """What the page has to know of who looks at it."""

    name: str
    role: str
    space: str | None
    open: bool
    can: list[str]
    version: str
    signed_in: bool = True


def _told(app: App, who: Principal) -> dict[str, object]:
    everywhere = who.role == "admin"
    can = sorted(permissions.ROLES[who.role])
    space = None if everywhere else who.space
    is_open = app.door.is_open and who.id == "open"
    return msgspec.to_builtins(  # type: ignore[no-any-return] # of a struct: a dict
        Told(name=who.name, role=who.role, space=space, open=is_open, can=can, version=leasehold.__version__)
    )

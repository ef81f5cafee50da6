"""Admit callers without bearer tokens, such as Terraform and Git LFS: their password is a key."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import TYPE_CHECKING

from leasehold.server.api.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request

    from leasehold.server.access.principals import Principal
    from leasehold.server.api.app import App


async def admit_by_password(app: App, request: Request, space: str | None) -> tuple[Principal, str]:
    """Return the caller and the user name that it gives, if any, and count the request against its rate."""
    header, user = request.headers.get("authorization"), ""
    scheme, _, given = (header or "").partition(" ")
    if scheme.lower() == "basic":
        user, password = _credentials(given.strip())
        header = None if app.authenticator.is_open and not password.startswith("lh_") else f"Bearer {password}"
    who = await app.authenticator.identify(header, space)
    app.rates.take(who.id)
    return who, user


def _credentials(encoded: str) -> tuple[str, str]:
    try:
        user, _, password = b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise Problem("unauthenticated", "the Authorization header is not spelled like one") from None
    return user, password

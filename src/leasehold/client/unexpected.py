"""Errors for answers that came from no Leasehold server: their likely source, and what to do. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.errors import Unreachable

if TYPE_CHECKING:
    from leasehold.client.messages import ServerAddress

WANTS_A_PASSWORD = 407
_OF_PROXIES = (WANTS_A_PASSWORD, 502, 503, 504)
"""A proxy answers so if its server is down or slow, or if it wants a password."""


class NoServer(Unreachable):
    """The answer came from no Leasehold server, or did not arrive whole. `explained` says more."""

    def __init__(self, status: int, why: str, *, is_proxied: bool = False) -> None:
        super().__init__(f"what answers there is not a Leasehold server: {why} (status {status})")
        self.status = status
        self.is_proxied = is_proxied


class ProxyRefused(Unreachable):
    """The proxy refuses the request; a retry is useless."""


def explained(error: Exception, base: ServerAddress) -> Exception:
    """Return the error with advice about the server, its proxies and the environment."""
    if not isinstance(error, NoServer):
        return error
    if base.via is not None and not base.tls and error.status in (*_OF_PROXIES, 403):
        return refused_by_proxy(base, error.status)
    if error.status in _OF_PROXIES or error.is_proxied:
        return Unreachable(
            f"a proxy answered {error.status} instead of the server {base.name}: is that running, and may requests "
            "stay open there as long as the server keeps those that wait (serve --keep-open)?"
        )
    through = "" if base.via is None else f" It was asked through the proxy {base.via.name} ({base.via.variable})."
    return Unreachable(f"{error}.{through} Is {base.name} its address?")


def refused_by_proxy(base: ServerAddress, status: int) -> Unreachable:
    """Return the error for an answer of the proxy that the environment names for this server."""
    via = base.via
    if via is None:
        raise ValueError("there is no proxy")
    told = f"the proxy {via.name} ({via.variable}) answered {status} instead of the server {base.name}"
    if status == WANTS_A_PASSWORD:
        return ProxyRefused(
            f"{told}: it wants a user and a password. Give them to it:\n"
            f"  export {via.variable}=http://USER:PASSWORD@{via.name}"
        )
    around = f"To go past it, if the server can be reached without it:\n  export NO_PROXY={base.host}"
    if status < 500:
        return ProxyRefused(f"{told}: it does not let you go there. {around}")
    return Unreachable(f"{told}: it cannot reach it, or does not wait so long. {around}")

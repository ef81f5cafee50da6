"""Where a request comes from: without keys, a web page of another site must not use a browser on this machine.

A browser on this machine reaches an open server, and so does every page that it shows. `Host` tells a name that was led
to this address (DNS rebinding); `Origin` and `Sec-Fetch-Site` tell whose page asks, and no page can change them.
"""

from __future__ import annotations

import ipaddress

from leasehold.server.api.problems import Problem

OWN_SITES = ("same-origin", "none")
"""`none` is an address that a person typed."""


def check_place(host: str | None, origin: str | None, site: str | None = None) -> None:
    """Refuse other names of this address, and pages of other sites and of other ports."""
    if host is None or not is_loopback(_without_port(host)):
        raise Problem("misdirected", "without keys, only requests to localhost are served (the Host header)")
    if not is_same_origin(host, origin):
        raise Problem("not_allowed", "without keys, pages of other origins may not ask (the Origin header)")
    if not is_own_site(site):
        raise Problem("not_allowed", "without keys, pages of other origins may not ask (the Sec-Fetch-Site header)")


def is_same_origin(host: str, origin: str | None) -> bool:
    """True if no page asks, or one of this very host and port."""
    return origin is None or origin.lower().partition("://")[1:] == ("://", host.lower())


def is_own_site(site: str | None) -> bool:
    """True if the browser says that our own page or a person asks; other clients say nothing."""
    return site is None or site in OWN_SITES


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can reach it: by its address, which nobody can lead elsewhere as names can be."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()

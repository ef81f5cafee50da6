"""Which proxy the environment names for a server, as curl reads it. Imported only where it names one.

`http_proxy` or `HTTP_PROXY` for http, `https_proxy` or `HTTPS_PROXY` for https, else `all_proxy` or `ALL_PROXY`; not
for a host of `no_proxy` or `NO_PROXY`, and, as in Go, never for this machine itself, which a proxy elsewhere cannot
reach. docs/how-to/proxies.md says the same to users.
"""

from __future__ import annotations

from base64 import b64encode
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

from leasehold.client.messages import END, HEAD_MOST, INTERIM, parse_head
from leasehold.client.unexpected import refused_by_proxy
from leasehold.errors import InvalidInput, Unreachable

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from ipaddress import IPv4Address, IPv6Address

    from leasehold.client.messages import ServerAddress

PORT = 80


class Proxy(NamedTuple):
    """The address of a proxy."""

    host: str
    port: int
    variable: str
    """The environment variable that names it."""
    headers: tuple[str, ...] = ()
    """Headers with its password, if it has one."""

    @property
    def name(self) -> str:
        """Host and port, for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __repr__(self) -> str:
        return f"Proxy({self.name!r}, {self.variable!r})"


def proxy(base: ServerAddress, env: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for this server; None if it is reached directly."""
    if _is_this_machine(base.host) or _is_excepted(base, _first(env, "no_proxy", "NO_PROXY")[1]):
        return None
    names = ["https_proxy", "HTTPS_PROXY"] if base.tls else ["http_proxy"]
    if not base.tls and "REQUEST_METHOD" not in env:  # of a CGI program, HTTP_PROXY is a header that anybody may send
        names.append("HTTP_PROXY")
    variable, value = _first(env, *names)
    if variable is None:
        variable, value = _first(env, "all_proxy", "ALL_PROXY")
    return _parsed(variable, value) if variable is not None and value else None


def _first(env: Mapping[str, str], *names: str) -> tuple[str | None, str]:
    """Return the first of these variables that is set, with its value; an empty value means no proxy."""
    return next(((name, env[name].strip()) for name in names if name in env), (None, ""))


def _parsed(variable: str, value: str) -> Proxy:
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("http:")
    if parts.scheme != "http" or not host:
        raise InvalidInput(
            variable,
            "must be http://HOST:PORT; other kinds of proxies are not supported. NO_PROXY lists hosts to ask directly",
        )
    headers: tuple[str, ...] = ()
    if parts.username is not None:
        pair = unquote_to_bytes(parts.username) + b":" + unquote_to_bytes(parts.password or "")
        headers = (f"Proxy-Authorization: Basic {b64encode(pair).decode()}",)
    return Proxy(host, port or PORT, variable, headers)


# ---------------------------------------------------------------------------------------------- exceptions


def _is_this_machine(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback)


def _is_excepted(base: ServerAddress, exceptions: str) -> bool:
    """Return True if NO_PROXY has this host, a domain that it is in, its address, its network, or `*`."""
    address = _address(base.host)
    for each in exceptions.replace(",", " ").split():
        if each == "*" or _is_network_of(each, address):
            return True
        name, port = _split(each.lower())
        if port is not None and port != base.port:
            continue
        if _address(name) is not None:
            if _address(name) == address:
                return True
        elif base.host == name.lstrip(".") or (address is None and base.host.endswith("." + name.lstrip("."))):
            return True
    return False


def _split(text: str) -> tuple[str, int | None]:
    """Split `host:port` or `[address]:port`; the port may be missing."""
    if _address(text.strip("[]")) is not None:
        return text.strip("[]"), None
    host, colon, port = text.rpartition(":")
    return (host.strip("[]"), int(port)) if colon and port.isdecimal() and len(port) <= 5 else (text, None)


def _is_network_of(text: str, address: IPv4Address | IPv6Address | None) -> bool:
    if address is None or "/" not in text:
        return False
    try:
        return address in ip_network(text, strict=False)
    except ValueError:  # a name with a slash in it: it excepts nothing
        return False


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


# -------------------------------------------------------------------------------------------------- tunnels


def tunnel(line: socket.socket, base: ServerAddress) -> None:
    """Have the proxy at the other end of this connection open a tunnel to an https server."""
    if base.via is None:
        return
    request = "\r\n".join((f"CONNECT {base.name} HTTP/1.1", f"Host: {base.name}", *base.via.headers))
    line.sendall(request.encode() + END)
    received = b""
    while True:
        while (end := received.find(END)) < 0:
            piece = line.recv(65_536)
            if not piece:
                raise ConnectionResetError("it closed the connection")
            received += piece
            if len(received) > HEAD_MOST:
                raise Unreachable(f"what answers at {base.via.name} ({base.via.variable}) is not a proxy")
        head, received = parse_head(received[:end]), received[end + len(END) :]
        if head.length != INTERIM:
            break
    if not 200 <= head.status < 300:
        raise refused_by_proxy(base, head.status)
    if received:  # the server sends nothing before the first request
        raise Unreachable(f"the proxy {base.via.name} ({base.via.variable}) sent more than its answer")

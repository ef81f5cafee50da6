"""HTTP/1.1: encode a request, and parse the head of its answer. Pure.

A general client costs several times as much per request as all the rest (httpx 720 requests a second, http.client
3,400, this 10,000); so this one is written by hand (docs/adr/0013). An answer with a length, as our own server sends
it, is read here; every other legal answer, as proxies send them, in `framing`.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from leasehold.client.unexpected import NoServer
from leasehold.config import credentials
from leasehold.domain.nouns import masked
from leasehold.errors import InvalidInput, Unreachable

if TYPE_CHECKING:
    from leasehold.client.encoding import HttpRequest
    from leasehold.client.proxies import Proxy

HEAD_MOST = 64 * 1024
BODY_MOST = 64 * 1024 * 1024
DIGITS_MOST = 20
END = b"\r\n\r\n"
UNTIL_CLOSE, CHUNKED, INTERIM = -1, -2, -3
"""In place of a length: the body ends with the connection, or with its last chunk; or this is not the answer yet."""
_VERSIONS = ("HTTP/1.1", "HTTP/1.0")
_PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
_spelled = json.JSONEncoder(separators=(",", ":")).encode
_read = json.JSONDecoder().raw_decode


class ServerAddress(NamedTuple):
    """The address of a server."""

    host: str
    port: int
    tls: bool
    path: str
    token: str | None = None
    """The key or session for this server. Each has its own, so that no key goes to another server."""
    via: Proxy | None = None
    """The proxy that the environment names for it, if any."""

    def __repr__(self) -> str:
        return masked(self)

    @property
    def name(self) -> str:
        """Host and port, for messages and the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def first(self) -> str:
        """The peer of the connection, for messages: the server or its proxy."""
        return self.name if self.via is None else f"the proxy {self.via.name} ({self.via.variable})"


def token(api_key: str | None, url: str) -> str | None:
    """Return the key or session for a server: as given, from the environment, or stored for it."""
    given: object = api_key or os.environ.get("LEASEHOLD_API_KEY") or credentials.stored(url, os.environ)
    if given is not None and not (
        isinstance(given, str) and given.isascii() and given.isprintable() and " " not in given
    ):
        raise InvalidInput("api_key", "must be a key as `leasehold keys create` gave it, or a session's ID.SECRET")
    return given


def bases(url: str, api_key: str | None = None) -> tuple[ServerAddress, ...]:
    """Return the addresses in a URL: one, or several with commas between them, which are tried in turn."""
    found = tuple(address_of(each)._replace(token=token(api_key, each)) for each in url.split(","))
    if len({base.tls for base in found}) > 1:
        raise InvalidInput("url", "must not mix http and https")
    if not any(os.environ.get(name) for name in _PROXIES):
        return found
    from leasehold.client.proxies import proxy  # noqa: PLC0415 (only for those who have one)

    return tuple(base._replace(via=proxy(base, os.environ)) for base in found)


def address_of(url: str) -> ServerAddress:
    """Return the address in the URL of one server."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:  # a port that is none, brackets that do not match
        raise InvalidInput("url", f"{url!r} is no URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput("url", f"{url!r} must be http://HOST[:PORT] or https://HOST[:PORT]")
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidInput("url", "must not hold a user, a query or a fragment; a key goes into LEASEHOLD_API_KEY")
    tls = parts.scheme == "https"
    return ServerAddress(parts.hostname, port or (443 if tls else 7420), tls, parts.path.rstrip("/"))


def render(request: HttpRequest, base: ServerAddress) -> bytes:
    """Return the bytes of a request."""
    if request.body is None:
        return _opening(request.method, request.path, base) + END
    body = _spelled(request.body).encode()
    opening = _opening(request.method, request.path, base)
    return b"%b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (opening, len(body), body)


@lru_cache(maxsize=64)
def _opening(method: str, path: str, base: ServerAddress) -> bytes:
    """Return the head up to the body's headers: the same bytes for each call of a verb, which servers cache."""
    is_asked = base.via is not None and not base.tls  # no tunnel: the proxy needs the whole URL
    target = f"http://{base.name}{base.path}{path}" if is_asked else f"{base.path}{path}"
    lines = [f"{method} {target} HTTP/1.1", f"Host: {base.name}", "Accept: application/json"]
    if base.via is not None and is_asked:
        lines += base.via.headers
    if base.token is not None:
        lines.append(f"Authorization: Bearer {base.token}")
    return "\r\n".join(lines).encode()


class AnswerHead(NamedTuple):
    """The head of an answer."""

    status: int
    length: int
    """Bytes of the body; below zero, `framing` finds its end."""
    keeps: bool
    """True if the connection can be used again."""
    retry_after: float | None
    coding: str = ""
    """How the body is compressed. This client never asks for it, but a proxy may do it."""
    is_proxied: bool = False
    """True if a proxy says that the answer passed through it."""
    kind: str = ""
    """The media type of the body."""
    owner: str = ""
    """The address of the server that decided, if that was another one."""


@lru_cache(maxsize=256)
def parse_head(head: bytes) -> AnswerHead:
    """Parse the head of an answer; cached, as there are few different ones."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or words[0] not in _VERSIONS or len(words[1]) != 3 or not _is_number(words[1]):
        raise Unreachable("what answers there does not speak HTTP: is this the address of a Leasehold server?")
    status = int(words[1])
    fields = _fields(lines, status)
    after = fields.get("retry-after", "")
    options = {each.strip() for each in fields.get("connection", "").lower().split(",")}
    is_old = words[0] == "HTTP/1.0"
    length = _length(fields, status, is_old=is_old)
    return AnswerHead(
        status,
        length,
        ("keep-alive" in options if is_old else "close" not in options)
        and not ("transfer-encoding" in fields and "content-length" in fields),
        float(after) if _is_number(after.replace(".", "", 1)) else None,
        fields.get("content-encoding", "").lower(),
        "via" in fields,
        fields.get("content-type", "").partition(";")[0].strip().lower(),
        fields.get("leasehold-owner", ""),
    )


def _fields(lines: list[str], status: int) -> dict[str, str]:
    """Return the headers by lower-case name; several of one name are joined by commas."""
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if line.startswith((" ", "\t")):
            raise NoServer(status, "one of its headers goes on in a second line, which HTTP/1.1 forbids")
        if not colon or not name or name != name.strip():
            raise NoServer(status, "one of its headers cannot be read")
        name, value = name.lower(), value.strip()
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


def _length(fields: dict[str, str], status: int, *, is_old: bool) -> int:
    """Return the length of the body, or how to find it (RFC 9112, section 6.3)."""
    if status < 200:
        return INTERIM
    if status in (204, 304):
        return 0
    coding = fields.get("transfer-encoding")
    if coding is not None:
        if coding.lower() != "chunked" or is_old:
            raise NoServer(status, f"its transfer coding is none that a client of HTTP/1.1 must read: {coding[:40]!r}")
        return CHUNKED
    if "content-length" not in fields:
        return UNTIL_CLOSE
    told = {each.strip() for each in fields["content-length"].split(",")}
    length = told.pop()
    if told or not _is_number(length) or int(length) > BODY_MOST:
        raise NoServer(status, "its answer has no proper length")
    return int(length)


def _is_number(text: str) -> bool:
    """Return True if `int` accepts it: "²" is a digit to Python as well, and thousands of digits are refused."""
    return text.isdecimal() and len(text) <= DIGITS_MOST


def content_of(head: AnswerHead, data: bytes) -> bytes:
    """Return the body, uncompressed if a proxy compressed it."""
    if not head.coding or head.coding == "identity":
        return data
    from leasehold.client.framing import uncompressed  # noqa: PLC0415 (our own server compresses nothing)

    return uncompressed(head, data)


def body_of(head: AnswerHead, data: bytes) -> dict[str, Any]:
    """Return the JSON object of an answer."""
    try:
        text = content_of(head, data).decode()
        value, end = _read(text)  # `json.loads` looks for blanks around it, which costs half as much again
        if end != len(text):
            value = json.loads(text)
    except ValueError:
        raise NoServer(head.status, "its answer is not JSON", is_proxied=head.is_proxied) from None
    if not isinstance(value, dict):
        raise NoServer(head.status, "its answer is not an object", is_proxied=head.is_proxied)
    if head.status >= 400 and not isinstance(value.get("code"), str):
        raise NoServer(head.status, "its refusal has no code", is_proxied=head.is_proxied)
    return value

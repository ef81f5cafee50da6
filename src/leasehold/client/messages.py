"""HTTP/1.1 as far as our own server speaks it: one request, one answer with a length. Pure.

A general client costs several times as much per request as all the rest (httpx 720 requests a second, http.client
3,400, this 10,000); so this one is written by hand, and refuses whatever it does not know (docs/adr/0013).
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from leasehold import credentials
from leasehold.errors import InvalidInput, Unreachable

if TYPE_CHECKING:
    from leasehold.client.encoding import Request

HEAD_MOST = 64 * 1024
BODY_MOST = 64 * 1024 * 1024
DIGITS_MOST = 20
END = b"\r\n\r\n"
_OF_PROXIES = (502, 503, 504)
_spelled = json.JSONEncoder(separators=(",", ":")).encode
_read = json.JSONDecoder().raw_decode


class Base(NamedTuple):
    """Where a server is."""

    host: str
    port: int
    tls: bool
    path: str
    token: str | None = None
    """What that server knows us by: each has its own, or a key would go to one that it is not for."""

    @property
    def name(self) -> str:
        """For messages and the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def token(api_key: str | None, url: str) -> str | None:
    """What this one server knows us by: as given, from the environment, or stored for it."""
    given = api_key or os.environ.get("LEASEHOLD_API_KEY") or credentials.stored(url, os.environ)
    if given is not None and not (given.isascii() and given.isprintable() and " " not in given):
        raise InvalidInput("api_key", "must be a key as `leasehold keys create` gave it, or a session's ID.SECRET")
    return given


def bases(url: str, api_key: str | None = None) -> tuple[Base, ...]:
    """The servers of a URL: one, or several with commas between them, which are tried in turn."""
    found = tuple(_base(each)._replace(token=token(api_key, each)) for each in url.split(","))
    if len({base.tls for base in found}) > 1:
        raise InvalidInput("url", "must not mix http and https")
    return found


def _base(url: str) -> Base:
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
    return Base(parts.hostname, port or (443 if tls else 7420), tls, parts.path.rstrip("/"))


def render(request: Request, base: Base) -> bytes:
    """The bytes of a request."""
    if request.body is None:
        return _opening(request.method, request.path, base) + END
    body = _spelled(request.body).encode()
    opening = _opening(request.method, request.path, base)
    return b"%b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (opening, len(body), body)


@lru_cache(maxsize=64)
def _opening(method: str, path: str, base: Base) -> bytes:
    """The same for each call of a verb: the server, too, looks at its bytes once (see ``server.protocol``)."""
    lines = [f"{method} {base.path}{path} HTTP/1.1", f"Host: {base.name}", "Accept: application/json"]
    if base.token is not None:
        lines.append(f"Authorization: Bearer {base.token}")
    return "\r\n".join(lines).encode()


class Head(NamedTuple):
    """What the first lines of an answer say."""

    status: int
    length: int
    keeps: bool
    """Whether the connection can be used again."""
    retry_after: float | None


@lru_cache(maxsize=256)
def parse_head(head: bytes) -> Head:
    """Read the first lines of an answer; there are not many different ones."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not _is_number(words[1]):
        raise Unreachable("what answers there does not speak HTTP: is this the address of a Leasehold server?")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = fields.get("content-length", "")
    if not _is_number(length) or int(length) > BODY_MOST:
        raise no_server(int(words[1]), "its answer has no proper length")
    after = fields.get("retry-after", "")
    return Head(
        int(words[1]),
        int(length),
        fields.get("connection", "").lower() != "close",
        float(after) if _is_number(after.replace(".", "", 1)) else None,
    )


def parse_stream_head(head: bytes) -> bool:
    """Read the first lines of an answer that does not end; whether it comes in chunks. Any other is `Unreachable`."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not _is_number(words[1]):
        raise Unreachable("what answers there does not speak HTTP: is this the address of a Leasehold server?")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if words[1] != "200" or not fields.get("content-type", "").startswith("text/event-stream"):
        raise no_server(int(words[1]), "its answer is not a stream of events")
    return fields.get("transfer-encoding", "").lower() == "chunked"


def _is_number(text: str) -> bool:
    """Whether Python reads it: not "²", which is a digit to it as well, nor thousands of them."""
    return text.isdecimal() and len(text) <= DIGITS_MOST


def body_of(head: Head, data: bytes) -> dict[str, Any]:
    """The JSON object of an answer."""
    try:
        text = data.decode()
        value, end = _read(text)  # `json.loads` looks for blanks around it, which costs half as much again
        if end != len(text):
            value = json.loads(text)
    except ValueError:
        raise no_server(head.status, "its answer is not JSON") from None
    if not isinstance(value, dict):
        raise no_server(head.status, "its answer is not an object")
    return value


def no_server(status: int, why: str) -> Unreachable:
    """Whatever answered is none of ours: mostly a proxy, which has nobody behind it or waits for nobody so long."""
    if status in _OF_PROXIES:
        return Unreachable(
            f"a proxy answered {status} instead of the server: is that running, and may requests stay open there as "
            "long as the server keeps those that wait (serve --keep-open)?"
        )
    return Unreachable(f"what answers there is not a Leasehold server: {why} (status {status})")

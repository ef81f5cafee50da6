"""One signed POST of one event to a checked address. Redirects are not followed; only the status is read."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ssl
import time
from functools import cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from leasehold.server.api import problems
from leasehold.server.webhooks.addresses import resolve
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from leasehold.domain.events import Event
    from leasehold.server.webhooks.settings import Hook

SECONDS = 10.0
"""How long a receiver may take to answer. It should accept the event first and process it later."""
HEAD_MOST = 16 * 1024


class HookReply(NamedTuple):
    """The answer of a receiver."""

    status: int
    retry_after: float | None


def body_of(event: Event) -> bytes:
    """Return the body: the event as the history has it."""
    told = wire.event(event)
    return problems.encode({"type": event.kind, "timestamp": told["at"], "data": told})


def signature(secret: bytes, id_: str, timestamp: int, body: bytes) -> str:
    """Return the signature of the id, the time and the body, so that none of them can be replaced."""
    signed = b"%b.%d.%b" % (id_.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()


async def post(hook: Hook, event: Event) -> HookReply:
    """Send an event to a receiver. Raises `OSError` or `TimeoutError` if it does not answer."""
    async with asyncio.timeout(SECONDS):
        reader, writer = await _connect(hook)
        try:
            writer.write(_request(hook, event))
            return _understood(await reader.readuntil(b"\r\n\r\n"))
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            raise ConnectionError("the receiver does not speak HTTP") from error
        finally:
            writer.transport.abort()


async def _connect(hook: Hook) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first of the checked addresses that accepts a connection."""
    parts = urlsplit(hook.url)
    host, is_tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    failure: OSError = ConnectionError(f"{host} has no address")
    for address in await resolve(host, port, allow_private=hook.allow_private):
        try:
            if is_tls:
                return await asyncio.open_connection(address, port, limit=HEAD_MOST, ssl=_trust(), server_hostname=host)
            return await asyncio.open_connection(address, port, limit=HEAD_MOST)
        except OSError as error:
            failure = error
    raise failure


@cache
def _trust() -> ssl.SSLContext:
    return ssl.create_default_context()


def _request(hook: Hook, event: Event) -> bytes:
    parts = urlsplit(hook.url)
    body, now, id_ = body_of(event), int(time.time()), id_of(event)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = (
        f"POST {target} HTTP/1.1",
        f"Host: {parts.netloc}",
        "User-Agent: leasehold",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"Webhook-Id: {id_}",
        f"Webhook-Timestamp: {now}",
        f"Webhook-Signature: {signature(hook.secret, id_, now, body)}",
        "Connection: close",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def id_of(event: Event) -> str:
    """Return the id of a delivery, the same each time that this event is sent, so that receivers can drop repeats."""
    return f"event-{event.seq}"


def _understood(head: bytes) -> HookReply:
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if not words[0].startswith("HTTP/1.") or len(words) < 2 or not words[1].isdigit():
        raise ValueError("no status")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    after = fields.get("retry-after", "")
    return HookReply(int(words[1]), float(after) if after.isascii() and after.isdigit() and len(after) < 9 else None)

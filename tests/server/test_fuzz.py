"""Many broken requests, of every kind and in any mixture: never a 5xx, never a hang, and nothing else suffers."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from leasehold.server.api.routes import ROUTES
from tests.kit.serving import PATIENCE, Running, serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REQUESTS = 100_000 if os.environ.get("LEASEHOLD_PROVE") else 1_500
AT_ONCE = 16
SEED = 20261115
VALUES: tuple[object, ...] = (
    None, True, -1, 0, 1, 1.5, 1e300, 2**63, "", "x", "a\u0000b", "\u001b[31m", "é" * 300, "path:../x", "x" * 600,
    "issue:1", [], ["a", "b"], [[]], {}, {"a": {"b": []}}, "l1-" + "0" * 32, "exclusive", "s.t",
)  # fmt: skip
HEADERS = (
    "Content-Length: -1",
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: 99999999999999999999",
    "Content-Length: 10\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked, identity",
    "Expect: 100-continue\r\nContent-Length: 2",
    "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x",
    "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
    "Authorization: Bearer lh_0123456789abcdef_" + "0" * 32,
    "Authorization: Bearer \xff\xfe",
    "Authorization: Basic eDp5",
    "Host: evil.example",
    "Origin: https://evil.example",
    "Last-Event-ID: -1",
    "Content-Type: text/plain",
    "X" * 5_000 + ": y",
    "a b: c",
    ": empty",
    "Content-Encoding: gzip",
)
LINES = (
    "GET /{} HTTP/9.9",
    "GET  /{}  HTTP/1.1",
    "PRI * HTTP/2.0",
    "CONNECT {}:443 HTTP/1.1",
    "GET http://h/{} HTTP/1.1",
    "GET /{}",
    "\x00\x01\x02{}",
    "OPTIONS * HTTP/1.1",
    "HEAD /v1/{} HTTP/1.1",
    "DELETE /v1/{} HTTP/1.0",
)


def body(chance: random.Random, kind: type) -> bytes:
    """A body that may be right in any number of its fields."""
    fields = [name for name in getattr(kind, "__struct_fields__", ()) if name != "wait_seconds"]
    chosen = {name: chance.choice(VALUES) for name in fields if chance.random() < 0.4}
    if chance.random() < 0.5 and "resources" in fields:
        chosen |= {
            "resources": f"fuzz-{chance.randrange(50)}",
            "holder": f"h{chance.randrange(5)}",
            "ttl_seconds": 0.05,
        }
    return json.dumps(chosen).encode()


def whole(chance: random.Random) -> bytes:
    """A request that is at least spelled like one."""
    route = chance.choice(ROUTES)
    content = body(chance, route.takes) if route.method == "POST" else b""
    query = f"?resource=fuzz-{chance.randrange(50)}" if route.method == "GET" and chance.random() < 0.5 else ""
    head = f"{route.method} {route.path}{query} HTTP/1.1\r\nHost: localhost\r\n"
    if chance.random() < 0.9:
        head += "Content-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def mutated(chance: random.Random) -> bytes:
    broken = bytearray(whole(chance))
    for _ in range(chance.randint(1, 8)):
        broken[chance.randrange(len(broken))] = chance.randrange(256)
    return bytes(broken)


def truncated(chance: random.Random) -> bytes:
    request = whole(chance)
    return request[: chance.randrange(1, len(request))]


def pipelined(chance: random.Random) -> bytes:
    makers = (whole, whole, whole, mutated)
    return b"".join(chance.choice(makers)(chance) for _ in range(chance.randint(2, 10)))


def malformed(chance: random.Random) -> bytes:
    extra = "\r\n".join(chance.sample(HEADERS, chance.randint(1, 3)))
    if chance.random() < 0.3:
        line = chance.choice(LINES).format("x" * chance.choice((1, 100, 10_000)))
        return f"{line}\r\n{extra}\r\n\r\n".encode("latin-1")
    return f"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\n{extra}\r\n\r\n{{}}".encode("latin-1")


def oversized(chance: random.Random) -> bytes:
    size = chance.choice((65_536, 65_537, 200_000))
    if chance.random() < 0.5:
        return b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: %b\r\n\r\n" % (b"y" * size)
    head = b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\n"
    if chance.random() < 0.5:
        return head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (size, b"x" * size)
    return head + b"Content-Length: %d\r\n\r\n%b" % (size, b"x" * size)


def noise(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randint(1, 2_000))


KINDS: tuple[tuple[Callable[[random.Random], bytes], int], ...] = (
    (whole, 20),
    (mutated, 25),
    (truncated, 15),
    (pipelined, 15),
    (malformed, 15),
    (noise, 8),
    (oversized, 2),
)


async def send(server: Running, content: bytes, chance: random.Random) -> bytes:
    """What comes back until the server hangs up. Some do not stay to hear it, some send in pieces."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    received = b""
    try:
        with suppress(ConnectionError):  # it may have closed the connection, after its answer or instead of one
            if chance.random() < 0.1:
                for start in range(0, min(len(content), 400), 40):
                    writer.write(content[start : start + 40])
                    await asyncio.sleep(0)
                content = content[400:]
            writer.write(content)
            if chance.random() < 0.05:
                writer.transport.abort()
                return b""
            with suppress(OSError):
                writer.write_eof()
            async with asyncio.timeout(PATIENCE):
                while piece := await reader.read(65_536):
                    received += piece
    finally:
        writer.transport.abort()
    return received


async def fuzz(server: Running, seed: int, requests: int) -> dict[int, int]:
    """So many requests, one after the other; how often which status came back."""
    chance = random.Random(seed)
    makers, weights = zip(*KINDS, strict=True)
    counted: dict[int, int] = {}
    for _ in range(requests):
        content = chance.choices(makers, weights)[0](chance)
        received = await send(server, content, chance)
        for status in re.findall(rb"(?m)^HTTP/1\.1 (\d{3}) ", received):
            counted[int(status)] = counted.get(int(status), 0) + 1
            assert int(status) < 500, (content, received)
    return counted


async def dribble(server: Running, stop: asyncio.Event) -> None:
    """A client that takes its time: a byte now and then, for as long as it may."""
    while not stop.is_set():
        with suppress(ConnectionError):
            _, writer = await asyncio.open_connection(server.host, server.port)
            try:
                for byte in b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n" + b" " * 99:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(stop.wait(), 0.05)
                    if stop.is_set():
                        break
            finally:
                writer.transport.abort()


async def storm(server: Running) -> dict[int, int]:
    """All at once, with slow ones beside."""
    stop = asyncio.Event()
    slow = [asyncio.create_task(dribble(server, stop)) for _ in range(20)]
    told = await asyncio.gather(*(fuzz(server, SEED + each, REQUESTS // AT_ONCE) for each in range(AT_ONCE)))
    stop.set()
    await asyncio.gather(*slow)
    total: dict[int, int] = {}
    for counted in told:
        for status, count in counted.items():
            total[status] = total.get(status, 0) + count
    return total


def test_a_storm_of_broken_requests_is_survived(tmp_path: Path) -> None:
    with serving(tmp_path, "--rate", "0") as server:
        counted = asyncio.run(storm(server))
        assert {200, 400, 404, 413} <= set(counted), counted  # the storm got everywhere
        assert server.ask("GET", "/readyz").status == 200
        granted = server.post("acquire", {"resources": "afterwards", "holder": "x"})
        assert granted.status == 200
        assert server.stop() == 0
        assert server.process.stderr is not None
        logged = server.process.stderr.read()
        assert "Traceback" not in logged, logged[-5_000:]

"""What the fuzzers feed with bytes, and what must hold whatever the bytes are. No tests in here.

A target returns, or raises `AssertionError` or anything else that it must not raise: that is a finding.
"""

from __future__ import annotations

import asyncio
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import uvicorn

from leasehold.domain import durations, names
from leasehold.domain.durations import BadDuration
from leasehold.domain.names import BadName
from leasehold.guard.editors.shell import written
from leasehold.guard.effects.reading import only_reads
from leasehold.locks.hosted import Served
from leasehold.requests.checks import Settings
from leasehold.server.api.app import App, asgi
from leasehold.server.api.long_polls import LongPolls
from leasehold.server.http.protocol import protocol_for
from leasehold.stores.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.server.http.protocol import Protocol

TURNS = 50
"""So many turns of its loop has a server to answer what it can answer."""
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")


def name(data: bytes) -> None:
    """A name is refused or has one normal form, and overlap knows no order."""
    one, _, other = data.decode("utf-8", "surrogateescape").partition("\n")
    parsed = [each for raw in (one, other) if (each := _parsed(raw)) is not None]
    for each in parsed:
        assert names.parse(each) == each, each
        assert len(each.encode()) <= 512
        assert names.overlaps(each, each)
        assert not any(ord(character) < 32 for character in each)
    if len(parsed) == 2:
        assert names.overlaps(*parsed) == names.overlaps(*reversed(parsed)), parsed


def pattern(data: bytes) -> None:
    """Patterns meet in both directions, and one that matches a path never misses it."""
    one, _, other = data.decode("utf-8", "replace").partition("\n")
    first, second = _parsed(f"path:{one}"), _parsed(f"path:{other}")
    if first is None or second is None:
        return
    assert names.overlaps(first, second) == names.overlaps(second, first), (first, second)
    if names.lies_in(first, second):
        assert names.overlaps(first, second), (first, second)


def _parsed(raw: str) -> str | None:
    try:
        return names.parse(raw)
    except BadName:
        return None


def duration(data: bytes) -> None:
    """A duration is refused or a number of microseconds that is written as it is read."""
    try:
        us = durations.parse(data.decode("utf-8", "replace"))
    except BadDuration:
        return
    assert isinstance(us, int)
    assert abs(us) <= durations.LONGEST
    assert durations.parse(durations.format(us)) == us


def shell(data: bytes) -> None:
    """The readers of shell commands answer, whatever the command is; what writes a file never only reads."""
    command = data.decode("utf-8", "replace")
    files = written(command)
    assert all(isinstance(file, str) for file in files)
    if any(file not in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty") for file in files):
        assert not only_reads(command), (command, files)


# ----------------------------------------------------------------------------------------------- requests


class FakeTransport(asyncio.Transport):
    """A connection that keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.sent = b""
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.sent += bytes(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@cache
def _server() -> tuple[asyncio.AbstractEventLoop, Callable[[], Protocol]]:
    """The protocol of a server in this process, on a store in memory."""
    loop = asyncio.new_event_loop()

    async def opened() -> App:
        served = Served([MemoryStore()], Settings(), loop, space="default")
        return App(served, loopback=True, rate=0, polls=LongPolls(served, at_most=60, grace=60))

    app = loop.run_until_complete(opened())
    config = uvicorn.Config(asgi(app), http=protocol_for(app), ws="none", lifespan="off", log_config=None)
    config.load()
    state: Any = uvicorn.server.ServerState()
    kind: Any = config.http_protocol_class

    def connect() -> Protocol:
        made: Protocol = kind(config=config, server_state=state, app_state={}, _loop=loop)
        return made

    return loop, connect


def request(data: bytes) -> None:
    """No bytes make a server fail: each answer is below 500, and the same however the bytes arrive."""
    if data[:1] == b"\xff":  # what one of them acquires is held for the other one, until it expires
        in_pieces, whole = ([200 if each == 409 else each for each in _answers(data[1:], of)] for of in (1, 1 << 20))
        assert in_pieces == whole, data
    for status in _answers(data, 1 << 20):
        assert status < 500 or status == 503, data


def _answers(data: bytes, piece: int) -> list[int]:
    """The statuses that a new connection gets for these bytes, sent in pieces of this size."""
    loop, connect = _server()

    async def ask() -> list[int]:
        protocol, transport = connect(), FakeTransport()
        protocol.connection_made(transport)
        for start in range(0, len(data), piece):
            if not transport.is_closed:
                protocol.data_received(data[start : start + piece])
        for _ in range(TURNS):
            await asyncio.sleep(0)
        protocol.connection_lost(None)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        return [int(status) for status in _STATUS.findall(transport.sent)]

    return loop.run_until_complete(ask())


_BODY = b'{"resources": "fuzzed", "holder": "x", "ttl_seconds": 1}'
_HEAD = b"POST /v1/%b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
_WHOLE = _HEAD % b"acquire" + b"Content-Length: %d\r\n\r\n" % len(_BODY) + _BODY
TARGETS: dict[str, tuple[Callable[[bytes], None], tuple[bytes, ...]]] = {
    "name": (
        name,
        (b"path:./src//a.py\npath:src", b"github://Acme/app/issues/42\nrepo:x", b"issue:42\npath:a/**/*.py"),
    ),
    "pattern": (pattern, (b"src/**/*.py\nsrc/a.py", b"[a-c]/?.[!x]\n\\*/[[:alpha:]]", b"**/x\nx/**")),
    "duration": (duration, (b"2h30m", b"1.5h", b"500ms", b"90", b"-1d")),
    "request": (
        request,
        (
            _WHOLE,
            b"\xff" + _WHOLE,
            _WHOLE + _WHOLE,
            _HEAD % b"renew" + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: y\r\n\r\n",
            b"GET /v1/leases?resource=a HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ),
    ),
    "shell": (
        shell,
        (
            b"cat a > b",
            b"sed -i s/a/b/ x y; git -C d checkout -- f",
            b"for f in *; do tee $f <<'E'\nx\nE\ndone",
            b"$(echo `rm x`) | tee >(cat)",
        ),
    ),
}
"""By name, what is fed, and what to begin with."""

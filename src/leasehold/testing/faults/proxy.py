"""A TCP proxy on loopback that breaks connections as networks do. It must not look into what it carries.

Nothing of the machine is changed, and nobody needs to be root. Several proxies share one thread.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Any, Protocol

    class Breakable(Protocol):
        """A proxy, or the wire of a host: it carries data in one of several ways."""

        def go(self, way: str) -> None:
            """Carry data this way from now on."""


SELF = "127.0.0.1"
MOST = 1 << 16
CRUMB = 17
PATIENCE = 10.0
_AT_ONCE = struct.pack("ii", 1, 0)


class ProxyThread:
    """The event loop of all proxies of a run, in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="proxies", daemon=True)
        self._thread.start()
        self.proxies: list[FaultyProxy] = []

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 (its result)
        """Run this there, and return what it returns."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def close(self) -> None:
        """End all connections, all proxies and the thread."""
        for proxy in self.proxies:
            proxy.close()
        self.do(self._end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        self.loop.close()

    async def _end(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # so that the connections that were just reset are closed


class FaultyProxy:
    """Listens on `port` and connects to the port of its goal, in one of these ways.

    ============  ==========================================================================================
    `pass`        as it should be
    `cut`         existing connections are reset, and new ones too
    `mute`        what the client sends arrives late: it waits until the proxy passes again (a one-way cut)
    `deaf`        what the server answers arrives late: it waits until the proxy passes again (a one-way cut)
    `silent`      both
    `drop`        the server gets each request; its reply is thrown away, and the connection reset
    `drop-once`   the same for the next reply alone
    `half-open`   new connections are accepted, and nothing ever comes of them; existing ones are reset
    `slow`        each piece of data waits for `delay` seconds
    `crumbs`      data arrives a few bytes at a time
    `idle`        a connection is closed once nothing was sent one way for `idle` seconds, as impatient proxies do
    ============  ==========================================================================================
    """

    WAYS = ("pass", "cut", "mute", "deaf", "silent", "drop", "drop-once", "half-open", "slow", "crumbs", "idle")

    def __init__(self, thread: ProxyThread, goal: int, delay: float = 0.2, idle: float = 0.5) -> None:
        self._thread = thread
        self.goal = goal
        """The port of the goal; it may change."""
        self.delay = delay
        self.idle = idle
        self.dropped = 0
        """The number of replies thrown away."""
        self._way = "pass"
        self._changed = asyncio.Event()
        self._lines: dict[asyncio.StreamWriter, float] = {}
        """Each connection, and when something was last sent on it."""
        self._server: asyncio.Server = thread.do(self._listen())
        thread.proxies.append(self)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, SELF, 0)

    def go(self, way: str) -> None:
        """Send connections this way from now on."""
        if way not in self.WAYS:
            raise ValueError(f"no such way: {way}; there are {', '.join(self.WAYS)}")
        self._thread.do(self._go(way))

    def lead_to(self, goal: int) -> None:
        """Reset all connections, and lead new ones to this port."""
        self.goal = goal
        self.go("cut")
        self.go("pass")

    async def _go(self, way: str) -> None:
        self._way = way
        self._changed.set()
        self._changed = asyncio.Event()
        if way in ("cut", "half-open"):
            self._reset()
        elif way == "idle":
            self._closing = asyncio.create_task(self._close_idle())

    async def _close_idle(self) -> None:
        while self._way == "idle":
            await asyncio.sleep(self.idle / 4)
            before = self._thread.loop.time() - self.idle
            for line in [line for line, sent in self._lines.items() if sent < before]:
                line.close()

    def _reset(self) -> None:
        for line in tuple(self._lines):
            _reset(line)

    async def _serve(self, near: asyncio.StreamReader, to_near: asyncio.StreamWriter) -> None:
        self._lines[to_near] = self._thread.loop.time()
        try:
            if self._way == "cut":
                _reset(to_near)
            elif self._way == "half-open":
                await near.read()  # until the client has had enough, or the proxy resets it
            else:
                await self._connect(near, to_near)
        except OSError:
            _reset(to_near)
        finally:
            self._lines.pop(to_near, None)
            to_near.close()

    async def _connect(self, near: asyncio.StreamReader, to_near: asyncio.StreamWriter) -> None:
        far, to_far = await asyncio.open_connection(SELF, self.goal)
        self._lines[to_far] = self._thread.loop.time()
        try:
            back = asyncio.create_task(self._carry(far, to_near, ("deaf", "silent"), is_reply=True))
            try:
                await self._carry(near, to_far, ("mute", "silent"), is_reply=False)
                await back
            finally:
                back.cancel()
        finally:
            self._lines.pop(to_far, None)
            to_far.close()

    async def _carry(
        self, source: asyncio.StreamReader, goal: asyncio.StreamWriter, held_up: tuple[str, ...], *, is_reply: bool
    ) -> None:
        with suppress(OSError):  # one side has closed it
            while data := await source.read(MOST):
                while self._way in held_up:
                    await self._changed.wait()
                if is_reply and self._way in ("drop", "drop-once"):
                    self.dropped += 1
                    self._way = "drop" if self._way == "drop" else "pass"
                    _reset(goal)
                    return
                if self._way == "slow":
                    await asyncio.sleep(self.delay)
                if goal in self._lines:
                    self._lines[goal] = self._thread.loop.time()
                for crumb in _crumbs(data) if self._way == "crumbs" else (data,):
                    goal.write(crumb)
                    await goal.drain()
        with suppress(OSError):
            goal.write_eof()

    def close(self) -> None:
        """End everything. Idempotent."""
        self._thread.do(self._end())

    async def _end(self) -> None:
        self._server.close()
        self._reset()


def _crumbs(data: bytes) -> Iterator[bytes]:
    return (data[start : start + CRUMB] for start in range(0, len(data), CRUMB))


def _reset(line: asyncio.StreamWriter) -> None:
    """End a connection so that the other side notices at once: by a reset, not by an orderly end."""
    with suppress(OSError):  # it has ended already
        line.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    line.transport.abort()


def breaking(proxy: Breakable, way: str) -> Callable[[], None]:
    """Let the proxy or wire go this way, and return how to undo that."""
    proxy.go(way)
    return partial(proxy.go, "pass")

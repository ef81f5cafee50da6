"""The load generator: a process of its own, one thread on `epoll`, the same for every server that is measured.

``python -m benchmarks.generator SCENE TARGET CLIENTS SECONDS`` plays a scene and prints what it saw as JSON.
"""

from __future__ import annotations

import gc
import json
import random
import select
import sys
import time
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from benchmarks.wires import connect, target_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.wires import Client, Target, Wire

    Scene = Callable[[Target, int, float], dict[str, object]]

HOLD = 0.001
LONG = 50
RECEIVED = 65_536
"""Bytes to receive at once. For much more, Python asks the kernel for memory each time, and that takes longer."""


class Stage:
    """All connections, and whatever is to happen at a certain time."""

    def __init__(self, target: Target, clients: int) -> None:
        self._epoll = select.epoll()  # before all connections: `select` takes no descriptor above 1,023
        self.wires = connect(target, clients)
        self.clients = [client for wire in self.wires for client in wire.clients]
        self._by_number = {wire.socket.fileno(): wire for wire in self.wires}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        for number in self._by_number:
            self._epoll.register(number, select.EPOLLIN)

    def later(self, at: float, call: Callable[[], None]) -> None:
        heappush(self._timers, (at, len(self._timers), call))

    def play(self, until: Callable[[], bool]) -> None:
        while not until():
            select.select([self._epoll], [], [], self._patience())  # `poll` itself waits for whole milliseconds
            for number, _ in self._epoll.poll(0, 256):
                self._receive(self._by_number[number])
            now = time.perf_counter()
            while self._timers and self._timers[0][0] <= now:
                heappop(self._timers)[2]()

    def _receive(self, wire: Wire) -> None:
        data = wire.socket.recv(RECEIVED)
        assert data, "the server closed the connection"
        wire.received(data)

    def _patience(self) -> float:
        return max(0.0, min(1.0, self._timers[0][0] - time.perf_counter())) if self._timers else 1.0

    def close(self) -> None:
        for wire in self.wires:
            wire.close()


def cycles(target: Target, clients: int, seconds: float) -> dict[str, object]:
    """Acquire and release, each client on names of its own."""
    stage = Stage(target, clients)
    acquires: list[float] = []
    releases: list[float] = []
    asked: dict[int, float] = {}
    tag = b"%08x" % random.getrandbits(32)
    counts = dict.fromkeys((client.id for client in stage.clients), 0)
    busy = len(stage.clients)
    clock = time.perf_counter

    def ask(client: Client) -> None:
        count = counts[client.id] = counts[client.id] + 1
        asked[client.id] = clock()
        client.acquire(b"job-%b-%d-%d" % (tag, client.id, count))

    def granted(client: Client) -> None:
        now = clock()
        acquires.append(now - asked[client.id])
        asked[client.id] = now
        client.release()

    def released(client: Client) -> None:
        nonlocal busy
        now = clock()
        releases.append(now - asked[client.id])
        if now < end:
            ask(client)
        else:
            busy -= 1

    begun = clock()
    end = begun + seconds
    for client in stage.clients:
        client.granted, client.released = granted, released
        ask(client)
    stage.play(lambda: not busy)
    took = clock() - begun
    stage.close()
    return {"cycles": len(releases), "seconds": took, "acquire": spread(acquires), "release": spread(releases)}


class Contention:
    """Everybody wants the same name, holds it for up to a millisecond, and queues again."""

    def __init__(self, stage: Stage, seconds: float, hold: float) -> None:
        self._stage = stage
        self._hold = hold
        self._end = time.perf_counter() + seconds
        self._released_at = 0.0
        self._holder: int | None = None
        self.busy = len(stage.clients)
        self._asked: dict[int, float] = {}
        self.hand_offs: list[float] = []
        self.acquires: list[float] = []
        self.name = b"hot-%08x" % random.getrandbits(32)
        for client in stage.clients:
            client.granted, client.released = self._granted, self._released

    def begin(self) -> None:
        for client in self._stage.clients:
            self._ask(client)

    def _ask(self, client: Client) -> None:
        self._asked[client.id] = time.perf_counter()
        client.acquire(self.name, LONG)

    def _granted(self, client: Client) -> None:
        now = time.perf_counter()
        assert self._holder is None, "two have it at once"
        self._holder = client.id
        self.acquires.append(now - self._asked[client.id])
        if self._released_at:
            self.hand_offs.append(now - self._released_at)
        self._stage.later(now + random.uniform(0, self._hold), lambda: self._release(client))

    def _release(self, client: Client) -> None:
        self._released_at = time.perf_counter()
        self._holder = None
        client.release()

    def _released(self, client: Client) -> None:
        if time.perf_counter() < self._end:
            self._ask(client)
        else:
            self.busy -= 1


def contention(target: Target, clients: int, seconds: float) -> dict[str, object]:
    """How long it takes from a release until the next has it."""
    stage = Stage(target, clients)
    play = Contention(stage, seconds, HOLD)
    play.begin()
    stage.play(lambda: not play.busy)
    stage.close()
    return {
        "hand_off": spread(play.hand_offs),
        "acquire": spread(play.acquires),
        "grants": len(play.acquires),
        "name": play.name.decode(),
    }


def spread(taken: list[float]) -> dict[str, float]:
    """Quantiles, in seconds."""
    ordered = sorted(taken) or [0.0]
    return {
        "p50": ordered[len(ordered) // 2],
        "p99": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
        "most": ordered[-1],
    }


SCENES: dict[str, Scene] = {"cycles": cycles, "contention": contention}


def main() -> None:
    name, target, clients, seconds = sys.argv[1:]
    gc.disable()
    print(json.dumps(_scene(name)(target_of(target), int(clients), float(seconds))))


def _scene(name: str) -> Scene:
    if name != "crowd":
        return SCENES[name]
    from benchmarks.crowd import crowd  # noqa: PLC0415 (it is made of what is here)

    return crowd


if __name__ == "__main__":
    main()

"""Ten thousand requests wait at one server: what each costs it, and whether the head is still served at once."""

from __future__ import annotations

import os
import resource
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.generator import Stage, spread

if TYPE_CHECKING:
    from benchmarks.wires import Client, Target

NAME = b"hot"
SECONDS = 600
PATIENCE = 300.0
SPARE = 100
"""Files that this process has open besides its connections."""


def memory(process: int) -> int:
    """The memory of a process, in bytes."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu(process: int) -> float:
    """The CPU time that a process has used, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def allowed(clients: int) -> int:
    """So many connections, or as many as this machine lets one process have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return clients if hard == resource.RLIM_INFINITY else min(clients, hard - SPARE)


class Crowd:
    """One has it, all others wait for it; then it goes from hand to hand."""

    def __init__(self, stage: Stage, hand_offs: int) -> None:
        self._left = hand_offs
        self._released_at = 0.0
        self.is_over = False
        self.hand_offs: list[float] = []
        for client in stage.clients:
            client.granted, client.released = self._granted, _nothing

    def _granted(self, client: Client) -> None:
        if self._released_at:
            self.hand_offs.append(time.perf_counter() - self._released_at)
        else:
            self.holder = client
        if len(self.hand_offs) == self._left:
            self.is_over = True
        elif self.hand_offs:
            self.pass_on(client)

    def pass_on(self, client: Client) -> None:
        self._released_at = time.perf_counter()
        client.release()


def _nothing(_client: Client) -> None:
    """It was released."""


def waiting(target: Target) -> int:
    """How many wait at the server, by its own account."""
    url = f"http://{target.host}:{target.port}/metrics"
    with urllib.request.urlopen(url) as reply:
        lines = reply.read().decode().splitlines()
    return round(sum(float(line.split()[-1]) for line in lines if line.startswith("leasehold_queue_length")))


def crowd(target: Target, clients: int, hand_offs: float) -> dict[str, object]:
    """Queue, rest for a while, hand over."""
    clients = allowed(clients + 1) - 1
    before = memory(target.process)
    stage = Stage(target, clients + 1)
    play = Crowd(stage, int(hand_offs))
    stage.clients[0].acquire(NAME)
    stage.play(lambda: hasattr(play, "holder"))
    begun = time.perf_counter()
    for client in stage.clients[1:]:
        client.acquire(NAME, SECONDS)
    _until_queued(target, clients)
    queued = time.perf_counter() - begun
    each = (memory(target.process) - before) / clients
    idle = _idle(target.process)
    play.pass_on(play.holder)
    stage.play(lambda: play.is_over)
    stage.close()
    return {"clients": clients, "queued": queued, "each": each, "idle": idle, "hand_off": spread(play.hand_offs)}


def _until_queued(target: Target, clients: int) -> None:
    give_up = time.monotonic() + PATIENCE
    while waiting(target) < clients:
        assert time.monotonic() < give_up, "they never all queued"
        time.sleep(0.1)


def _idle(process: int, seconds: float = 3.0) -> float:
    """The part of a CPU that it takes while nobody asks anything."""
    used, begun = cpu(process), time.perf_counter()
    time.sleep(seconds)
    return (cpu(process) - used) / (time.perf_counter() - begun)

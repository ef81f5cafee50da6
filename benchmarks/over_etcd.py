"""Servers on one etcd, beside etcd's own v3 lock service, both called from Python in the same run.

Theirs is driven over grpc.aio, and ours over `aconnect`: once on etcd itself, as theirs is, and once to one server.
There are 64 tasks each, in one process; all of them wait for the disk.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import leasehold
from benchmarks import peers, postgres, scratch
from benchmarks.generator import spread
from benchmarks.report import at_least
from benchmarks.serving import CLIENTS, _median, _rate, _ratio, _run

if TYPE_CHECKING:
    from benchmarks.report import Figure

GOAL = 1.5
WAYS = {"tasks": "on etcd itself", "server": "by one server"}


def under_load(seconds: float, rounds: int) -> list[Figure]:
    """Acquire and release on distinct names."""
    rates: dict[str, list[float]] = {name: [] for name in (*WAYS, "theirs")}
    with scratch.folder() as folder, ExitStack() as stack:
        etcd = stack.enter_context(peers.etcd(Path(folder)))
        store = f"etcd://{etcd.host}:{etcd.port}"
        ours = stack.enter_context(postgres.served(store))
        for number in range(rounds + 1):
            told = {"tasks": _run("tasks", store, CLIENTS, seconds)}
            for name, target in (("server", ours), ("theirs", etcd)):
                told[name] = _run("from_python", json.dumps(target._asdict()), CLIENTS, seconds)
            for name, one in told.items():
                if number:  # the first round warms all of them up
                    rates[name].append(_rate(one))
    return [
        at_least(
            f"etcd, {CLIENTS} tasks in Python, durable acquire and release, {WAYS[name]}",
            f"{_median(rates[name]):,.0f} cycles/s",
            f"etcd {peers.etcd_version()} v3 lock by grpc.aio {_median(rates['theirs']):,.0f} cycles/s",
            _ratio(rates[name], rates["theirs"]),
            GOAL,
        )
        for name in WAYS
    ]


def handing_over(count: int) -> list[Figure]:
    """A release at one server, a grant at another."""
    with scratch.folder() as folder, ExitStack() as stack:
        etcd = stack.enter_context(peers.etcd(Path(folder)))
        servers = [stack.enter_context(postgres.served(f"etcd://{etcd.host}:{etcd.port}")) for _ in range(2)]
        one, two = (
            stack.enter_context(leasehold.connect(f"http://{each.host}:{each.port}", api_key=each.key))
            for each in servers
        )
        postgres._hand_offs(one, two, 3)
        told = spread(postgres._hand_offs(one, two, count))
    what = "etcd, from a release to a grant at another server"
    return [
        postgres._within(f"{what}, p50", told["p50"], 0.020),
        postgres._within(f"{what}, p99", told["p99"], 0.100),
    ]


BENCHMARKS = {
    "etcd": lambda *, smoke: under_load(0.3, 1) if smoke else under_load(3.0, 5),
    "etcd-hand-off": lambda *, smoke: handing_over(5 if smoke else 200),
}

"""Servers on one etcd, beside etcd's own v3 lock service, both called from Python in the same run.

Theirs is driven over grpc.aio and ours over `aconnect` to one server, with 64 tasks each; both wait for the disk.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import leasehold
from benchmarks import peers, postgres
from benchmarks.generator import spread
from benchmarks.report import at_least
from benchmarks.serving import CLIENTS, HERE, _median, _rate, _ratio, _run

if TYPE_CHECKING:
    from benchmarks.report import Figure

GOAL = 1.5


def under_load(seconds: float, rounds: int) -> list[Figure]:
    """Acquire and release on distinct names."""
    rates: dict[str, list[float]] = {"ours": [], "theirs": []}
    with tempfile.TemporaryDirectory(dir=HERE) as folder, ExitStack() as stack:
        etcd = stack.enter_context(peers.etcd(Path(folder)))
        ours = stack.enter_context(postgres.served(f"etcd://{etcd.host}:{etcd.port}"))
        for number in range(rounds + 1):
            for name, target in (("ours", ours), ("theirs", etcd)):
                told = _run("from_python", json.dumps(target._asdict()), CLIENTS, seconds)
                if number:  # the first round warms both up
                    rates[name].append(_rate(told))
    return [
        at_least(
            f"etcd, {CLIENTS} tasks in Python, durable acquire and release",
            f"{_median(rates['ours']):,.0f} cycles/s",
            f"etcd's v3 lock by grpc.aio {_median(rates['theirs']):,.0f} cycles/s",
            _ratio(rates["ours"], rates["theirs"]),
            GOAL,
        )
    ]


def handing_over(count: int) -> list[Figure]:
    """A release at one server, a grant at another."""
    with tempfile.TemporaryDirectory(dir=HERE) as folder, ExitStack() as stack:
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

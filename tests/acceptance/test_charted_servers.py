"""The servers of the Helm chart, with the very words that it gives them, on a real PostgreSQL: they share its lanes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING
from urllib.request import urlopen

import leasehold
from leasehold.testing.lending import free_port
from tests.kit import charts, postgres
from tests.kit.serving import until

if TYPE_CHECKING:
    from pathlib import Path

LANES = 4


def words_of(place: int, ports: list[int]) -> list[str]:
    """The words of one pod, with addresses of this machine in place of those of the cluster."""
    parts = charts.rendered({"replicas": len(ports)})
    text = "\n".join(charts.only("StatefulSet", parts)["spec"]["template"]["spec"]["containers"][0]["args"])
    text = text.replace("$(POD_NAME)", f"leasehold-{place}")
    for number, port in enumerate(ports):
        text = text.replace(f"leasehold-{number}.leasehold-peers:7420", f"127.0.0.1:{port}")
    return text.replace("\n7420\n", f"\n{ports[place]}\n").splitlines()


def figures(port: int, name: str) -> list[float]:
    """The values of a metric of a server."""
    text = urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60).read().decode()
    return [float(each) for each in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)]


def test_the_charts_servers_own_lanes_and_hand_requests_on(tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    with postgres.schema(LANES) as url, ExitStack() as stack:
        with leasehold.connect(url) as locks:
            made = locks.create_key(role="agent", name="ci")
            assert isinstance(made, leasehold.KeyCreated)
        # As in the pod, nothing but the temporary directory can be written.
        env = {"PATH": os.environ["PATH"], "LEASEHOLD_URL": url, "HOME": "/proc/nowhere", "TMPDIR": str(tmp_path)}
        servers = []
        for place in range(len(ports)):
            command = [sys.executable, "-m", "leasehold.cli", *words_of(place, ports)]
            started = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            servers.append(stack.enter_context(started))
            stack.callback(started.kill)
        assert all(server.stdout is not None and "Serving " in server.stdout.readline() for server in servers)
        until(lambda: [figures(port, "leasehold_lanes_owned") for port in ports] == [[LANES / 2]] * len(ports))
        for port in ports:
            with leasehold.connect(f"http://127.0.0.1:{port}", api_key=made.credential, holder=f"job-{port}") as locks:
                assert locks.acquire(f"deploy://{port}", ttl=60)
        until(lambda: sum(sum(figures(port, "leasehold_handed_on_total")) for port in ports) > 0)
        for server in servers:
            server.terminate()
            assert server.wait(60) == 0

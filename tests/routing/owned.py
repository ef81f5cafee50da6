"""Servers that own lanes, from the outside: who owns what, and how much was handed on. No tests in here."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import leasehold
from leasehold.domain.outcomes import Refused
from leasehold.errors import LeaseholdError
from leasehold.stores import SERVERS
from leasehold.testing.conformance.asking import until

if TYPE_CHECKING:
    import subprocess

    from leasehold.domain.leases import Lease
    from tests.acceptance.servers import Servers

PATIENCE = 60.0


def ask(url: str, path: str) -> str:
    """What a server answers to a GET."""
    connection = HTTPConnection(url.partition("://")[2], timeout=PATIENCE)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def handed_on(url: str, outcome: str = "answered") -> int:
    """How many requests this server has handed on."""
    found = re.search(rf'leasehold_handed_on_total{{outcome="{outcome}"}} (\d+)', ask(url, "/metrics"))
    return int(found[1]) if found else 0


def leases_of_servers(url: str) -> tuple[Lease, ...]:
    """The leases by which the servers share the lanes."""
    with leasehold.connect(url) as locks:
        found = locks.list(space=SERVERS)
        assert not isinstance(found, Refused)
        return found


def owners(url: str) -> dict[str, str]:
    """The address of the owner of each lane, as the store says."""
    found: dict[str, str] = {}
    for lease in leases_of_servers(url):
        if lease.resources[0].startswith("lane:"):
            told: dict[str, Any] = json.loads(lease.context or "{}")
            found[lease.resources[0]] = told["address"]
    return found


def settle(servers: Servers, lanes: int = 1) -> None:
    """Wait until each lane has an owner, and no server more than its share."""
    least, most = lanes // len(servers.urls), -(-lanes // len(servers.urls))

    def is_settled() -> bool:
        owned = [owned_by(url) for url in servers.urls]
        return sum(owned) == lanes and min(owned) >= least and max(owned) <= most

    until(is_settled, "the lanes are spread")


def owned_by(url: str) -> int:
    """How many lanes this server says it owns."""
    found = re.search(r"leasehold_lanes_owned (\d+)", ask(url, "/metrics"))
    assert found is not None
    return int(found[1])


def process_at(servers: Servers, url: str) -> subprocess.Popen[str]:
    """The process that serves at this URL."""
    return servers.processes[servers.urls.index(url)]


def open_files(servers: Servers, url: str) -> int:
    """How many files and connections this server has open."""
    return len([*Path(f"/proc/{process_at(servers, url).pid}/fd").iterdir()])


def move_lanes(url: str) -> None:
    """End the leases of all lanes: they get owners anew."""
    with suppress(LeaseholdError), leasehold.connect(url) as locks:
        for lane in owners(url):
            locks.force_release(lane, by="chaos", reason="move", space=SERVERS)

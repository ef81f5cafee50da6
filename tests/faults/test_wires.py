"""Hosts in network namespaces, where this machine lets us have them: their wires lose packets, and clients recover."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from leasehold.errors import LeaseholdError
from leasehold.testing.faults import namespaces
from leasehold.testing.faults.apart import APART
from leasehold.testing.faults.mixed import Course, MixedRun
from leasehold.testing.faults.namespaces import Network

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

PATIENCE = 0.5
"""Seconds until a datagram that has not arrived is lost."""


def in_a_thread(work: Callable[[], Any]) -> Any:  # noqa: ANN401 (what it returns)
    """Do this in a thread of its own, which alone enters the namespaces."""
    results: list[Any] = []

    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


def why_not() -> str:
    """Return why this machine lets us have no namespaces, or nothing."""
    try:
        with Network() as network:
            network.host()
    except LeaseholdError as error:
        return str(error)
    return ""


WHY_NOT = in_a_thread(why_not)
needs_namespaces = pytest.mark.skipif(bool(WHY_NOT), reason=f"not run: {WHY_NOT}")


def arrives(sender: socket.socket, receiver: socket.socket) -> bool:
    """Send datagrams from one host to the other; return True if one arrives."""
    receiver.settimeout(PATIENCE)
    try:
        sender.sendto(b"x", receiver.getsockname())
        receiver.recv(1)
    except OSError:
        return False
    return True


def seen_by_way() -> dict[str, tuple[bool, bool]]:
    """Return for each way whether data passes from the host, and to it."""
    seen = {}
    with Network() as network:
        host, other = network.host(), network.host()
        with host.inside():
            inside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            inside.bind((host.address, 0))
        with other.inside():
            outside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            outside.bind((other.address, 0))
        with inside, outside:
            arrives(inside, outside)  # so that both know each other's hardware address
            for way in host.WAYS:
                host.go(way)
                seen[way] = arrives(inside, outside), arrives(outside, inside)
                host.go("pass")
            with pytest.raises(ValueError, match="no such way"):
                host.go("sideways")
    return seen


@needs_namespaces
def test_a_wire_loses_what_its_way_says() -> None:
    assert in_a_thread(seen_by_way) == {
        "pass": (True, True),
        "mute": (False, True),
        "deaf": (True, False),
        "silent": (False, False),
    }


@needs_namespaces
def test_a_thread_is_where_it_was_once_a_network_is_gone() -> None:
    def visited() -> tuple[list[str], list[str], int]:
        before = [name for _, name in socket.if_nameindex()]
        with Network() as network:
            host = network.host()
            with host.inside():
                there = socket.if_nameindex()
        names = [name for _, name in socket.if_nameindex()]
        assert {"lo", "eth0"} <= {name for _, name in there}
        return before, names, len(list(namespaces.NAMESPACES.glob(f"{host.name}*")))

    before, after, left = in_a_thread(visited)
    assert (after, left) == (before, 0)


@needs_namespaces
def test_a_program_on_a_host_does_not_see_this_machine(tmp_path: Path) -> None:
    script = "import socket; print(sorted(name for _, name in socket.if_nameindex()))"
    (tmp_path / "interfaces.py").write_text(script)

    def told() -> str:
        with Network() as network, network.host().inside():
            done = subprocess.run([sys.executable, str(tmp_path / "interfaces.py")], capture_output=True, check=True)
        return done.stdout.decode()

    assert "eth0" in in_a_thread(told)


def test_where_it_may_not_be_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(LeaseholdError, match="needs Linux, root, and the commands ip and tc"), Network():
        pass


@needs_namespaces
@pytest.mark.parametrize("store", APART)
def test_no_promise_is_broken_while_wires_are_cut(store: str) -> None:
    result = in_a_thread(lambda: MixedRun(store, Course(seconds=4, clients=16, seed=1), apart=True).run())
    assert result["violations"] == [], result
    assert result["grants"] > 0
    assert result["faults"]

"""Hosts of their own, each in a network namespace of Linux, on one bridge: their wires are cut by the kernel.

A proxy acknowledges what it holds back, so TCP notices nothing. On a cut wire packets are lost: senders back off, and
connections that begin meanwhile do not open. Nothing leaves these namespaces, and no other interface is changed.

It needs root, and `ip` and `tc` of iproute2; `Network` raises `LeaseholdError` where it cannot have them.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.errors import LeaseholdError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

NAMESPACES = Path("/run/netns")
_NEWNET = 0x40000000
"""The kind of namespace, for setns(2)."""


class Host:
    """A namespace with one wire to the bridge, which goes one of these ways.

    ==========  ==========================================================
    `pass`      as it should be
    `mute`      what the host sends is lost
    `deaf`      what is sent to the host is lost
    `silent`    both: the link is down
    ==========  ==========================================================
    """

    WAYS = ("pass", "mute", "deaf", "silent")

    def __init__(self, hub: str, number: int) -> None:
        self.name = f"{hub}-{number}"
        self.address = f"10.77.0.{number + 1}"
        self._hub = hub
        self._port = f"port{number}"
        """The other end of its wire, at the bridge."""
        _run("ip", "netns", "add", self.name)
        try:
            self._connect()
        except BaseException:
            self.remove()
            raise

    def _connect(self) -> None:
        words = ("type", "veth", "peer", "name", "eth0", "netns", self.name)
        _run("ip", "-n", self._hub, "link", "add", self._port, *words)
        _run("ip", "-n", self._hub, "link", "set", self._port, "master", "bridge", "up")
        _run("ip", "-n", self.name, "address", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _run("ip", "-n", self.name, "link", "set", device, "up")

    def go(self, way: str) -> None:
        """Carry packets this way from now on."""
        if way not in self.WAYS:
            raise ValueError(f"no such way: {way}; there are {', '.join(self.WAYS)}")
        _run("ip", "-n", self._hub, "link", "set", self._port, "down" if way == "silent" else "up")
        for at, device, lost in ((self.name, "eth0", "mute"), (self._hub, self._port, "deaf")):
            if way == lost:
                _run("tc", "-n", at, "qdisc", "replace", "dev", device, "root", "blackhole")
            elif way == "pass":
                with suppress(LeaseholdError):  # nothing is lost there
                    _run("tc", "-n", at, "qdisc", "delete", "dev", device, "root")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Let this thread be in the namespace: what it starts runs there."""
        _enter(NAMESPACES / self.name)
        try:
            yield
        finally:
            _enter(NAMESPACES / self._hub)

    def remove(self) -> None:
        """Remove the namespace once its last process has ended."""
        _run("ip", "netns", "delete", self.name)


class Network:
    """A bridge in a namespace of its own, in which this thread is until the end; `hosts` are connected to it."""

    def __init__(self) -> None:
        self._hub = f"leasehold-{os.getpid()}"
        self._stack = ExitStack()
        self._count = 0

    def __enter__(self) -> Self:
        _check()
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self._stack.callback(os.close, own)
        try:
            _run("ip", "netns", "add", self._hub)
            self._stack.callback(_run, "ip", "netns", "delete", self._hub)
            _run("ip", "-n", self._hub, "link", "add", "bridge", "type", "bridge")
            _run("ip", "-n", self._hub, "address", "add", "10.77.0.1/24", "dev", "bridge")
            for device in ("lo", "bridge"):
                _run("ip", "-n", self._hub, "link", "set", device, "up")
            _enter(NAMESPACES / self._hub)
            self._stack.callback(_enter, Path(f"/proc/self/fd/{own}"))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def host(self) -> Host:
        """Connect another host."""
        self._count += 1
        host = Host(self._hub, self._count)
        self._stack.callback(host.remove)
        return host


def _check() -> None:
    if sys.platform != "linux" or os.geteuid() or not all(map(shutil.which, ("ip", "tc"))):
        raise LeaseholdError("needs Linux, root, and the commands ip and tc of iproute2")


def _run(*words: str) -> None:
    done = subprocess.run(words, check=False, capture_output=True, text=True)  # noqa: S603 (our own words)
    if done.returncode:
        raise LeaseholdError(f"needs a kernel that lets root do `{' '.join(words)}`: {done.stderr.strip()}")


def _enter(namespace: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(namespace, os.O_RDONLY)
    try:
        if libc.setns(descriptor, _NEWNET):
            raise LeaseholdError(f"cannot enter {namespace}: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(descriptor)

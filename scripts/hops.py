"""Count the files of the package that one acquire enters, and the functions that it calls there.

    python scripts/hops.py [--list] [cli] [lock] [sqlite] [postgres] [etcd]

Each word is a way to acquire: `leasehold acquire` in a fresh process, `with locks.lock()` with its release, a warm
`POST /v1/acquire` at a server on that store. All threads count. Bodies of modules and classes and the constructors of
records do not. `--list` prints the files in the order in which they were entered. PostgreSQL and etcd are real ones,
from their wheels.
"""

from __future__ import annotations

import http.client
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import leasehold

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

PACKAGE = str(Path(leasehold.__file__).parent) + os.sep
_NOUNS = ("api_keys", "entries", "events", "graph", "leases", "nouns", "outcomes", "sessions")
RECORDS = (*(f"domain/{name}" for name in _NOUNS), "stores/sqlite/meta")
"""The modules of records, whose constructors do not count."""
CONSTRUCTORS = frozenset(
    ("__new__", "__init__", "_early_new", "_constructor", "_make", "_replace", "__instancecheck__")
)
SKIPPED = frozenset(("<module>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<lambda>"))
TRIES = 15
"""Requests that are counted at a server. The one with the fewest files has no sweep or heartbeat beside it."""
ANSWER = "LEASEHOLD_HOPS"
"""The variable with the file into which a child writes what it counted."""


class Hops(NamedTuple):
    """What one acquire entered: files in their order, and how many functions were called."""

    files: list[str]
    functions: int


class Counter:
    """Counts the calls of the package's functions on all threads that start after it."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}

    def begin(self) -> None:
        """Count from now on."""
        self.calls.clear()
        threading.setprofile(self._seen)
        sys.setprofile(self._seen)

    def end(self) -> Hops:
        """Stop on this thread, and return what was counted."""
        sys.setprofile(None)
        threading.setprofile(None)
        return self.so_far()

    def so_far(self) -> Hops:
        """Return what was counted so far."""
        calls = dict(self.calls)  # other threads go on
        files = list(dict.fromkeys(name.partition(":")[0] for name in calls))
        return Hops(files, sum(calls.values()))

    def _seen(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE) or code.co_name in SKIPPED:
            return
        if not code.co_flags & inspect.CO_OPTIMIZED:  # the body of a module or of a class
            return
        file = code.co_filename.removeprefix(PACKAGE)
        if file.startswith(RECORDS) and code.co_name in CONSTRUCTORS:
            return
        name = f"{file}:{code.co_qualname}"
        self.calls[name] = self.calls.get(name, 0) + 1


def acquire_once() -> None:
    """Run `leasehold acquire` in this process and write what was counted; it exits as the command does."""
    from leasehold.cli import main  # noqa: PLC0415 (its module bodies are not part of the way)

    counter = Counter()
    counter.begin()
    code = main(["acquire", "one", "--ttl", "60"])
    write(counter.end())
    sys.exit(code)


def serve(store: str) -> None:
    """Serve this store; SIGUSR1 begins to count anew, SIGUSR2 writes what was counted."""
    from leasehold.cli import main  # noqa: PLC0415 (see `acquire_once`)

    counter = Counter()
    counter.begin()
    signal.signal(signal.SIGUSR1, lambda *_: (write(Hops([], 0)), counter.calls.clear()))
    signal.signal(signal.SIGUSR2, lambda *_: write(counter.so_far()))
    sys.exit(main(["serve", "--store", store, "--port", "0"]))


def write(found: Hops) -> None:
    """Tell the parent."""
    part = Path(os.environ[ANSWER] + ".part")
    part.write_text(json.dumps(found))
    part.rename(os.environ[ANSWER])


def of_lock(folder: Path) -> Hops:
    """`with locks.lock()`, its threads included."""
    counter = Counter()
    counter.begin()  # before the threads that keep a lease
    with leasehold.connect(f"sqlite://{folder}/locks.db", holder="a") as locks:
        with locks.lock("warm", ttl=60):
            pass
        counter.calls.clear()
        with locks.lock("one", ttl=60):
            pass
        return counter.end()


def of_cli(folder: Path) -> Hops:
    """`leasehold acquire` on a database that exists."""
    answer = folder / "hops.json"
    env = os.environ | {"LEASEHOLD_URL": f"sqlite://{folder}/locks.db", ANSWER: str(answer), "HOME": str(folder)}
    warm = "import sys; from leasehold.cli import main; sys.exit(main(['acquire', 'warm', '--ttl', '60']))"
    subprocess.run([sys.executable, "-c", warm], env=env, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(
        [sys.executable, __file__, "--child", "cli"], env=env, cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    return Hops(*json.loads(answer.read_text()))


def of_server(store: str, folder: Path) -> Hops:
    """One warm `POST /v1/acquire`."""
    env = os.environ | {ANSWER: str(folder / "hops.json")}
    with serving([sys.executable, __file__, "--child", "serve", store], env) as (process, host, port):
        line = http.client.HTTPConnection(host, port, timeout=60)
        for place in range(20):
            _acquire(line, f"warm{place}")
        found = []
        for place in range(TRIES):
            told(process, signal.SIGUSR1, folder)
            _acquire(line, f"one{place}")
            found.append(told(process, signal.SIGUSR2, folder))
        return min(found, key=lambda each: len(each.files))


def told(process: subprocess.Popen[str], number: int, folder: Path) -> Hops:
    """Send this signal to the server, and wait until it has written its answer."""
    answer = folder / "hops.json"
    process.send_signal(number)
    while not answer.exists():
        assert process.poll() is None, "the server has ended"
        time.sleep(0.01)
    found = Hops(*json.loads(answer.read_text()))
    answer.unlink()
    return found


@contextmanager
def serving(command: list[str], env: dict[str, str]) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    """A server, where it listens, and its end."""
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            host, _, port = process.stdout.readline().split()[1].partition("://")[2].rpartition(":")
            yield process, host, int(port)
        finally:
            process.terminate()


def _acquire(line: http.client.HTTPConnection, name: str) -> None:
    body = json.dumps({"resources": name, "ttl_seconds": 60, "holder": "a"})
    line.request("POST", "/v1/acquire", body, {"Content-Type": "application/json"})
    answer = line.getresponse()
    said = answer.read()
    assert answer.status == 200, said


WAYS = {
    "cli": of_cli,
    "lock": of_lock,
    "sqlite": lambda folder: of_server(f"sqlite://{folder}/locks.db", folder),
    "postgres": lambda folder: on("leasehold.testing.postgres", folder),
    "etcd": lambda folder: on("leasehold.testing.etcd", folder),
}
NAMES = {
    "cli": "leasehold acquire, SQLite",
    "lock": "with locks.lock(), SQLite",
    "sqlite": "POST /v1/acquire, SQLite",
    "postgres": "POST /v1/acquire, PostgreSQL",
    "etcd": "POST /v1/acquire, etcd",
}


def on(starter: str, folder: Path) -> Hops:
    """As `of_server`, on a database that is started for it and gone afterwards."""
    result = folder / "found.json"
    command = [sys.executable, "-m", starter, sys.executable, __file__, "--child", "measure", "{url}", str(result)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return Hops(*json.loads(result.read_text()))


def measure(store: str, result: str) -> None:
    """Count at a server on this store, and write that into a file."""
    with tempfile.TemporaryDirectory() as folder:
        Path(result).write_text(json.dumps(of_server(store, Path(folder))))


CHILDREN = {"cli": acquire_once, "serve": serve, "measure": measure}


def main(words: list[str]) -> None:
    """Print a line for each way, and with `--list` the files."""
    if words[:1] == ["--child"]:
        CHILDREN[words[1]](*words[2:])
        return
    for way in [word for word in words if word != "--list"] or list(WAYS):
        with tempfile.TemporaryDirectory() as folder:
            found = WAYS[way](Path(folder))
        print(f"{NAMES[way]}: {len(found.files)} files, {found.functions} calls")
        if "--list" in words:
            print("".join(f"  {file}\n" for file in found.files), end="")


if __name__ == "__main__":
    main(sys.argv[1:])

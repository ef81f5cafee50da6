"""`make run` serves the page with some life in it, finds a free port, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import leasehold
from tests.kit.serving import PATIENCE, until
from tests.kit.shell import heed_signals

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def demo(folder: Path, *words: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    settings = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    with subprocess.Popen(
        [sys.executable, "-m", "leasehold.demo", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**settings, "TMPDIR": str(folder), **more},
        preexec_fn=heed_signals,  # noqa: PLW1509 (before it has any)
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)  # if it were killed, its server would stay
                process.communicate(timeout=PATIENCE)


def line_with(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"{text!r} was never printed: {process.stderr and process.stderr.read()}")


def url_of(process: subprocess.Popen[str]) -> str:
    return line_with(process, "Leasehold is running:").split()[-1].rstrip("/")


def test_the_commands_that_it_prints_work(tmp_path: Path) -> None:
    """Also by who has only ever typed `make run`: nothing of ours is on the PATH then."""
    path = ":".join(each for each in os.environ["PATH"].split(":") if not (Path(each) / "leasehold").exists())
    with demo(tmp_path, "--port", "0", PATH=path) as process:
        typed = line_with(process, "In another terminal:").partition(":")[2].split()
        assert typed[1:3] == ["watch", "--url"]
        done = subprocess.run(
            [*typed, "--count", "1"],
            env={**os.environ, "PATH": path},
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_it_serves_the_page_with_some_life_and_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    with demo(tmp_path, "--port", "0") as process:
        url = url_of(process)
        with urlopen(f"{url}/", timeout=PATIENCE) as page:
            assert b"<title>Leasehold</title>" in page.read()
        line_with(process, "granted")
        with leasehold.connect(url) as locks:
            until(lambda: len(_leases(locks)) >= 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert list(tmp_path.iterdir()) == []
    with socket.socket() as trial:
        assert trial.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) != 0, "the server is still there"


def _leases(locks: leasehold.Locks) -> tuple[leasehold.Lease, ...]:
    found = locks.list()
    assert not isinstance(found, leasehold.Refused)
    return found


def test_a_port_in_use_is_reported_and_another_one_used(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with demo(tmp_path, "--port", str(port), "--for", "0.5") as process:
            assert f"Port {port} is taken" in line_with(process, "taken")
            other = int(url_of(process).rpartition(":")[2])
            assert port < other < port + 20
            assert process.wait(PATIENCE) == 0

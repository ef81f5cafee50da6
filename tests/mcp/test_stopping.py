"""`leasehold mcp` is told to stop while its client still has the line open: it releases everything, and goes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from tests.kit.serving import PATIENCE, serving, until
from tests.mcp.test_tools import database, settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class Line:
    """A client that writes what it likes, and closes nothing."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._sent = 0
        self._answer(self.send("initialize", HELLO))
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, method: str, params: dict[str, Any]) -> int:
        self._sent += 1
        self._write({"jsonrpc": "2.0", "id": self._sent, "method": method, "params": params})
        return self._sent

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        told: dict[str, Any] = self._answer(self.begin(tool, **arguments))["structuredContent"]
        return told

    def begin(self, tool: str, **arguments: Any) -> int:
        return self.send("tools/call", {"name": tool, "arguments": arguments})

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def _answer(self, number: int) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told: dict[str, Any] = json.loads(line)
            if told.get("id") == number:
                result: dict[str, Any] = told["result"]
                return result
        raise AssertionError("it went without an answer")


HURRIED = """
from leasehold.cli import main
from leasehold.mcp import stdio

stdio.LEAVING = 0.5
main()
"""


@contextmanager
def connected(folder: Path, how: tuple[str, ...] = ("-m", "leasehold.cli"), **env: str) -> Iterator[Line]:
    process = subprocess.Popen(
        [sys.executable, *how, "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=settings(folder) | env,
        cwd=folder,
        text=True,
    )
    with process:
        try:
            yield Line(process)
        finally:
            process.kill()


@pytest.mark.parametrize("number", SIGNALS)
def test_a_server_that_gets_a_signal_releases_everything_and_ends(tmp_path: Path, number: signal.Signals) -> None:
    with leasehold.connect(database(tmp_path), holder="keeper") as locks:
        assert isinstance(locks.acquire("wanted", ttl=600), leasehold.Granted)
        with connected(tmp_path) as client:
            assert client.call("acquire_lock", resource="own", ttl_seconds=3600)["ok"]
            assert client.call("acquire_lock", resource="too", agent_id="other")["ok"]
            client.begin("wait_for_lock", resource="wanted")
            until(lambda: _waiting(locks) == ["coder-1"])
            client.process.send_signal(number)
            client.process.send_signal(number)  # some say it twice: that must not keep it from releasing
            assert client.process.wait(PATIENCE) == 0
            assert [lease.holder for lease in locks.list()] == ["keeper"]  # type: ignore[union-attr]
            assert (locks.sessions(), _waiting(locks)) == ((), [])


def test_a_wait_in_a_session_that_was_given_ends_too_and_the_session_does_not(tmp_path: Path) -> None:
    with leasehold.connect(database(tmp_path), holder="keeper") as locks:
        assert isinstance(locks.acquire("wanted", ttl=600), leasehold.Granted)
        session = locks.start_session(ttl=600, holder="nightly")
        assert isinstance(session, leasehold.SessionStarted)
        with connected(tmp_path, LEASEHOLD_SESSION=session.secret) as client:
            assert client.call("acquire_lock", resource="own")["ok"]
            client.begin("wait_for_lock", resource="wanted")
            until(lambda: _waiting(locks) == ["nightly"])
            client.process.send_signal(signal.SIGTERM)
            assert client.process.wait(PATIENCE) == 0
            assert _waiting(locks) == []
            assert {lease.holder for lease in locks.list()} == {"keeper", "nightly"}  # type: ignore[union-attr]


def test_a_server_that_cannot_release_says_so_and_ends_all_the_same(tmp_path: Path) -> None:
    with serving(tmp_path) as server, connected(tmp_path, LEASEHOLD_URL=server.url) as client:
        assert client.call("acquire_lock", resource="own")["ok"]
        server.process.kill()
        server.process.wait(PATIENCE)
        client.process.send_signal(signal.SIGTERM)
        assert client.process.wait(PATIENCE) == 1


def test_a_server_that_loses_its_client_and_gets_no_answer_ends_all_the_same(tmp_path: Path) -> None:
    hurried = ("-c", HURRIED)
    with serving(tmp_path) as server, connected(tmp_path, hurried, LEASEHOLD_URL=server.url) as client:
        assert client.call("acquire_lock", resource="own")["ok"]
        server.process.send_signal(signal.SIGSTOP)  # it takes every question, and answers none
        assert client.process.stdin is not None
        client.process.stdin.close()
        assert client.process.wait(PATIENCE) == 1


def _waiting(locks: leasehold.Locks) -> list[str]:
    seen = locks.inspect("wanted")
    assert isinstance(seen, leasehold.Inspection)
    return [each.holder for each in seen.waiting]

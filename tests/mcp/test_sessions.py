"""The sessions of MCP over HTTP: what they cost, who has to give way, and that a client notices none of it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kit.serving import PATIENCE, Running, command_with, create_key, id_of, serving, until

if TYPE_CHECKING:
    from collections.abc import Iterator

OPENING = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
OPENED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
MIB = 1024 * 1024
FEW = "; ".join(
    f"leasehold.server.api.mcp_sessions.{name} = {count}"
    for name, count in (("KNOWN_EACH", 8), ("KNOWN_MOST", 12), ("LIVE_EACH", 3), ("LIVE_MOST", 4))
)


class Line:
    """A connection of one key."""

    def __init__(self, server: Running, key: str) -> None:
        self._line = HTTPConnection(server.host, server.port, timeout=PATIENCE)
        self._key = key

    def say(self, message: object, session: str | None = None, method: str = "POST") -> tuple[int, str | None, Any]:
        headers = {
            "Authorization": f"Bearer {self._key}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        if session is not None:
            headers["Mcp-Session-Id"] = session
        self._line.request(method, "/mcp", json.dumps(message), headers)
        reply = self._line.getresponse()
        content = reply.read().decode()
        data = [line[6:] for line in content.splitlines() if line.startswith("data: {")]
        return reply.status, reply.headers["mcp-session-id"], json.loads(data[0]) if data else None

    def open(self) -> str:
        status, session, told = self.say(OPENING)
        assert status == 200
        assert session is not None
        assert told["result"]["serverInfo"]["name"]
        return session

    def works(self, session: str) -> bool:
        """Whether the tools are told, in this session."""
        status, same, told = self.say(LIST, session)
        if status == 404:
            return False
        assert (status, same) == (200, session)
        assert told["result"]["tools"]
        return True

    def close(self) -> None:
        self._line.close()


@contextmanager
def connected(server: Running, *keys: str) -> Iterator[list[Line]]:
    lines = [Line(server, key) for key in keys]
    try:
        yield lines
    finally:
        for line in lines:
            line.close()


def memory(server: Running) -> int:
    """What the server's process has in memory, in bytes."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def test_sessions_that_are_never_used_cost_next_to_nothing(tmp_path: Path) -> None:
    greedy, other = (create_key(tmp_path, "viewer", name=name) for name in ("greedy", "other"))
    with serving(tmp_path, "--rate", "0") as server, connected(server, greedy, other) as (one, two):
        for _ in range(50):
            one.open()
        before = memory(server)
        for _ in range(1_000):
            one.say(OPENING)
        assert memory(server) - before < 12 * MIB  # of 55 MiB that the SDK would take
        assert two.works(two.open())


def test_one_principal_leaves_room_for_the_others(tmp_path: Path) -> None:
    names = ("greedy", "ann", "bob")
    keys = [create_key(tmp_path, "viewer", name=name) for name in names]
    with (
        serving(tmp_path, "--rate", "0", command=command_with(FEW)) as server,
        connected(server, *keys) as (greedy, ann, bob),
    ):
        mine = [greedy.open() for _ in range(20)]
        assert [greedy.works(session) for session in mine] == [False] * 12 + [True] * 8  # the latest are known
        theirs = [(line, line.open()) for line in (ann, bob, ann, bob, ann, bob)]
        assert all(line.works(session) for line, session in theirs)
        assert [greedy.works(session) for session in mine[12:]] == [False] * 2 + [True] * 6
        assert all(line.works(session) for line, session in theirs)  # which took nothing from them


def test_a_session_is_used_by_its_own_key_only_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    keys = [create_key(tmp_path, "viewer", name=name) for name in ("ann", "bob")]
    with serving(tmp_path, "--rate", "0") as server, connected(server, *keys) as (ann, bob):
        session, unused = ann.open(), ann.open()
        assert not bob.works(session)
        assert bob.say(None, session, "DELETE")[0] == 404
        assert ann.works(session)
        for each in (session, unused):
            assert ann.say(None, each, "DELETE")[0] == 200
            assert ann.say(None, each, "DELETE")[0] == 404
            assert not ann.works(each)
        assert ann.say(OPENED, "nobody's")[0] == 404


def test_a_session_that_was_idle_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    hurried = command_with("leasehold.server.api.mcp_sessions.IDLE = 0.01")
    key = create_key(tmp_path, "agent")
    with serving(tmp_path, "--rate", "0", command=hurried) as server, connected(server, key) as (line,):
        session = line.open()
        assert line.say(OPENED, session)[0] == 202
        call = {"name": "acquire_lock", "arguments": {"resource": "x", "agent_id": "me"}}
        for number in range(5):
            status, _, told = line.say(
                {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}, session
            )
            assert (status, told["id"], told["result"]["structuredContent"]["ok"]) == (200, number, True)
            until(lambda: server.get("leases", key=key).status == 200)


def test_what_a_client_says_of_itself_has_a_bound(tmp_path: Path) -> None:
    key = create_key(tmp_path, "viewer")
    with serving(tmp_path) as server, connected(server, key) as (line,):
        large = {**OPENING, "params": {**OPENING["params"], "_meta": {"x": "y" * 10_000}}}  # type: ignore[dict-item]
        assert line.say(large)[:2] == (413, None)
        assert line.say({"method": "initialize"})[:2] == (400, None)  # what was not understood begins none
        assert line.works(line.open())


def test_the_sessions_of_a_revoked_key_end_with_it(tmp_path: Path) -> None:
    key, admin = create_key(tmp_path, "viewer"), create_key(tmp_path, "admin")
    with serving(tmp_path, "--rate", "0") as server, connected(server, key) as (line,):
        session = line.open()
        assert line.works(session)
        assert server.post("keys/revoke", {"id": id_of(key)}, key=admin).json["revoked"]
        assert line.say(LIST, session)[0] == 401

"""Malformed, oversized, truncated and pipelined requests: never a 5xx, and the server lives on."""

from __future__ import annotations

import json
import random
import socket
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, cast

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

import tests.kit.serving
from leasehold.errors import LeaseholdError
from leasehold.server.http.protocol import STARTS, ConnectionLimit, protocol_for
from tests.kit.serving import PATIENCE, Running, read_reply, serving, until

if TYPE_CHECKING:
    from pathlib import Path

    from leasehold.server.api.app import App


GOOD = json.dumps({"resources": "fuzzed", "holder": "x"}).encode()
BAD = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b"\xff\xfe",
    b'{"resources": "\\ud800"}',
    b'{"resources": "a", "ttl_seconds": 1e400}',
    b'{"resources": "a", "ttl_seconds": NaN}',
    b'{"resources": "a", "slots": 99999999999999999999999}',
    b'{"resources": "a", "context": ' + b"[" * 30_000 + b"]" * 30_000 + b"}",
    b'{"resources": "a", "context": {"n": 123456789012345678901234567890}, "holder": "\\u0000"}',
]


@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
def test_a_body_that_is_not_what_it_should_be(server: Running, body: bytes) -> None:
    reply = server.post("acquire", body)
    assert (reply.status, reply.code) == (400, "invalid"), reply


def test_too_large_and_of_the_wrong_kind(server: Running) -> None:
    large = json.dumps({"resources": "x" * 70_000}).encode()
    assert server.post("acquire", large).code == "too_large"
    assert server.ask("POST", "/v1/acquire", GOOD, **{"Content-Type": "text/plain"}).code == "media_type"
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
        line.sendall(b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        line.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n" + b"1\r\nx\r\n")
        assert read_reply(line).status == 413


def test_a_call_of_a_tool_has_bounds_too(server: Running) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"more": "x" * 300_000}}
    assert server.ask("POST", "/mcp", call).code == "too_large"


@pytest.mark.parametrize("path", ["acquire", "batch", "cancel"])
def test_a_body_that_says_that_it_is_too_large_is_refused_before_it_comes(server: Running, path: str) -> None:
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
        head = f"POST /v1/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {1 << 40}\r\n\r\n"
        line.sendall(head.encode())
        assert read_reply(line).code == "too_large"


@pytest.mark.parametrize("before", [b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"], ids=["first", "second"])
def test_a_head_has_its_bound_however_it_arrives(server: Running, before: bytes) -> None:
    """In one piece, more than a piece, or at the end of a piece that other requests are in."""
    bare = (
        b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX: "
        % len(GOOD)
    )
    for size, status in ((60_000, b"200 OK"), (66_000, b"400 Bad Request"), (100_000, b"400 Bad Request")):
        request = before + bare + b"y" * size + b"\r\nConnection: close\r\n\r\n"
        with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
            line.sendall(request + GOOD.replace(b"fuzzed", b"%06d" % size))
            told = line.makefile("rb").read()
        assert b"HTTP/1.1 " + status in told, (size, told)
        assert (b"the head of a request may have at most 65536 bytes" in told) == (status != b"200 OK")


NOT_HTTP = (
    b"nonsense\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost localhost\r\n\r\n",
    b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
    b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
)


@pytest.mark.parametrize("sent", NOT_HTTP, ids=["nonsense", "no colon", "negative", "two lengths", "too large"])
def test_what_is_no_request_gets_a_problem_as_well(server: Running, sent: bytes) -> None:
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
        line.sendall(sent)
        reply = read_reply(line)
    assert (reply.status, reply.code, reply.headers["connection"]) == (400, "invalid", "close")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_slash_too_many_leads_nowhere(server: Running, method: str) -> None:
    """Nowhere else, in particular: behind a proxy that speaks https, that would be to http, with the key."""
    assert server.ask(method, "/v1/leases/", Host="elsewhere.example").code == "not_found"


def test_a_large_body_does_not_count_for_the_head_that_arrives_with_it(server: Running) -> None:
    body = json.dumps({"resources": "with much", "holder": "x", "context": "y" * 16_000}).encode() + b" " * 49_000
    head = b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"X: %b\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.sendall(b"POST /v1/acq")
        assert server.ask("GET", "/healthz").status == 200  # by now the server has read what came before
        line.sendall((head % (b"y" * 5_000, len(body)) + body)[len(b"POST /v1/acq") :])
        assert read_reply(line).status == 200


def test_truncated_requests_change_nothing(server: Running) -> None:
    head = (
        b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % len(GOOD)
    )
    for cut in range(1, len(head + GOOD)):
        with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
            line.sendall((head + GOOD)[:cut])
    assert server.get("leases?resource=fuzzed").json["leases"] == []


def test_pipelined_requests_are_answered_in_order(server: Running) -> None:
    one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    two = b"GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
        line.sendall(one + one + two)
        content = b""
        while chunk := line.recv(65536):
            content += chunk
    assert content.count(b"HTTP/1.1 200") == 2
    assert content.index(b"HTTP/1.1 404") > content.rindex(b"HTTP/1.1 200")


def test_pipelined_hot_and_ordinary_requests_are_answered_in_order(server: Running) -> None:
    def post(path: str, body: object) -> bytes:
        content = json.dumps(body).encode()
        head = f"POST /v1/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content

    requests = [post("acquire", {"resources": f"p{number}", "holder": f"h{number}"}) for number in range(20)]
    requests[5] = post("acquire", {"resources": "p4", "holder": "h5", "wait_seconds": 0.05})
    requests[9] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    requests[13] = post("acquire", {"resources": "x" * 66_000})
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
        line.sendall(b"".join(requests))
        found = line.makefile("rb")
        for number in range(20):
            status = int(found.readline().split()[1])
            length = 0
            while (header := found.readline()) != b"\r\n":
                name, _, value = header.partition(b":")
                length = int(value) if name == b"content-length" else length
            told = json.loads(found.read(length))
            if number in (5, 9, 13):
                assert status == {5: 409, 9: 200, 13: 413}[number]
                if number == 13:
                    break  # what comes after an oversized body is not read
            else:
                assert told["lease"]["holder"] == f"h{number}"


def test_a_client_that_never_reads_is_not_served_without_end(server: Running) -> None:
    one = b"POST /v1/renew HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
        line.setblocking(False)
        sent = 0
        try:
            while sent < 200_000_000:
                sent += line.send(one * 1000)
        except BlockingIOError:
            pass
        assert sent < 200_000_000
    until(lambda: server.ask("GET", "/readyz").status == 200)


def test_random_bytes_and_mutated_requests(server: Running) -> None:
    chance = random.Random(20261115)
    whole = (
        b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % len(GOOD)
        + GOOD
    )
    for _ in range(300):
        broken = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
            line.sendall(broken)
            line.shutdown(socket.SHUT_WR)
            answer = line.recv(65536)
        assert not answer.startswith(b"HTTP/1.1 5"), (bytes(broken), answer)
    assert server.ask("GET", "/readyz").status == 200


def test_a_head_without_end_is_cut_off(server: Running) -> None:
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\n")
        closed = False
        try:
            for number in range(10_000):
                line.sendall(b"x-%d: %s\r\n" % (number, b"y" * 1000))
        except OSError:
            closed = True
        assert closed
    until(lambda: server.ask("GET", "/healthz").status == 200)


def test_a_server_does_not_start_with_an_uvicorn_that_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each request that does not go the short way would be answered with a 500."""
    monkeypatch.delattr(HttpToolsProtocol, STARTS)
    with pytest.raises(LeaseholdError, match=r"^uvicorn [0-9.]+ is not one"):
        protocol_for(cast("App", None))


FILES = 352
"""With so many files, a server has at most 96 connections."""


def test_connections_without_a_request_make_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They need no key, and used to take every file of the process."""
    poor = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES})); "
        "from leasehold.cli import main; sys.exit(main())"
    )
    monkeypatch.setattr(tests.kit.serving, "COMMAND", (sys.executable, "-c", poor, "serve"))
    with serving(tmp_path) as server, ExitStack() as opened:
        server.post("acquire", {"resources": "busy", "holder": "ann"})
        waiting = opened.enter_context(
            server.begin("acquire", {"resources": "busy", "holder": "bob", "wait_seconds": 600, "request_id": "w"})
        )
        until(lambda: server.waiting("busy") == ["bob"])
        for number in range(FILES):
            idle = opened.enter_context(socket.create_connection((server.host, server.port), timeout=PATIENCE))
            idle.sendall(b"POST /v1/acquire HTTP/1.1\r\nHost: loc" if number % 2 else b"")
            if number % 50 == 0:
                assert server.get("leases").status == 200
        assert server.waiting("busy") == ["bob"], "a request under way keeps its connection"
        server.post("cancel", {"request_id": "w", "holder": "bob"})
        assert read_reply(waiting).code == "cancelled"


def test_a_server_whose_connections_are_all_busy_says_so() -> None:
    class Connection:
        def __init__(self, number: int, is_idle: bool) -> None:
            self.is_idle, self.last_used, self.transport = is_idle, (True, number), self
            self.is_closed = False

        def close(self) -> None:
            self.is_idle, self.is_closed = False, True

    limit = ConnectionLimit(3)
    made: list[Any] = [Connection(number, number in (1, 2)) for number in range(4)]
    newcomer = made.pop()
    assert limit.admit(newcomer, made)
    assert limit.admit(newcomer, [*made, newcomer])
    assert [each.is_closed for each in made] == [False, True, False], "the one that was idle for longest"
    assert limit.admit(newcomer, [*made, newcomer]), "it is closed, and ends soon"
    assert not limit.admit(newcomer, [*made[:1] * 4, newcomer])
    limit.forget(made[1])
    assert limit.admit(newcomer, [made[0], made[2], newcomer])


def test_slow_heads_and_bodies_are_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a server that is less patient than usual: an endless head ends the connection, a slow body gets 408."""
    hurried = (
        "import sys; import leasehold.server.http.protocol as p, leasehold.server.http.bodies as b; "
        "p.HEAD_SECONDS = b.BODY_SECONDS = 0.3; from leasehold.cli import main; sys.exit(main())"
    )
    monkeypatch.setattr(tests.kit.serving, "COMMAND", (sys.executable, "-c", hurried, "serve"))
    with serving(tmp_path) as impatient:
        address = (impatient.host, impatient.port)
        silent = socket.create_connection(address, timeout=PATIENCE)
        slow = socket.create_connection(address, timeout=PATIENCE)
        slow.sendall(b"POST /v1/acquire HTTP/1.1\r\nHost: loc")
        unfinished = socket.create_connection(address, timeout=PATIENCE)
        unfinished.sendall(b"POST /v1/cancel HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
        with silent, slow, unfinished:
            assert silent.recv(1) == b""
            assert slow.recv(1) == b""
            assert read_reply(unfinished).code == "slow"
        with socket.create_connection(address, timeout=PATIENCE) as agents:
            agents.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
            assert read_reply(agents).code == "slow"
        for path in (b"acquire", b"renew", b"release", b"batch"):
            with socket.create_connection(address, timeout=PATIENCE) as hot:
                hot.sendall(b"POST /v1/%b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{" % path)
                reply = read_reply(hot)
                assert (reply.status, reply.code, reply.headers["connection"]) == (408, "slow", "close"), path
                assert hot.recv(1) == b""
        assert impatient.ask("GET", "/readyz").status == 200

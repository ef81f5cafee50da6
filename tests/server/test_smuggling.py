"""No request hides in another one: where proxies and servers might disagree about its end, it is refused, and the rest.

Each case is one write with a hidden request behind or inside it, which would acquire `smuggled`. A server may take both
for what they are only where no proxy could see a single one.
"""

from __future__ import annotations

import json
import re
import socket
from typing import TYPE_CHECKING

import pytest

from tests.kit.serving import PATIENCE, create_key, serving, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.serving import Running

BODY = json.dumps({"resources": "smuggled", "holder": "mallory"}).encode()
JSON = b"Content-Type: application/json\r\n"
HIDDEN = b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\n" + JSON + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
LINE = b"POST /v1/renew HTTP/1.1\r\nHost: localhost\r\n" + JSON
SIZE = len(HIDDEN)
CASES = {
    "length and chunks": LINE + b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (SIZE + 5),
    "chunks and length": LINE + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": LINE + b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % SIZE,
    "a list of lengths": LINE + b"Content-Length: 0, %d\r\n\r\n" % SIZE,
    "a length with a sign": LINE + b"Content-Length: +0\r\n\r\n",
    "a length with a blank inside": LINE + b"Content-Length: 0 0\r\n\r\n",
    "a hexadecimal length": LINE + b"Content-Length: 0x0\r\n\r\n",
    "a blank before the colon": LINE + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a blank before the name": LINE + b" Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n" % SIZE,
    "a tab in the value": LINE + b"Transfer-Encoding: \x0bchunked\r\nContent-Length: %d\r\n\r\n" % SIZE,
    "another coding": LINE + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked is not the last": LINE + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "twice": LINE + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "a size beyond 64 bits": LINE + b"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n",
    "a size with a sign": LINE + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    "a chunk without its end": LINE + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}0\r\n\r\n",
    "a nul in a name": LINE + b"X\0: y\r\nContent-Length: %d\r\n\r\n" % SIZE,
    "a bare carriage return": LINE + b"X: y\rTransfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n" % SIZE,
}
"""What comes before the hidden request."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("smuggling"), "--rate", "0") as running:
        yield running


def said(server: Running, sent: bytes) -> bytes:
    """All that comes back until the connection ends, or nothing more comes."""
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
        line.sendall(sent)
        line.shutdown(socket.SHUT_WR)
        received = b""
        try:
            while data := line.recv(65_536):
                received += data
        except ConnectionResetError:
            pass  # closed with something unread
    return received


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_smuggled(server: Running, case: str) -> None:
    statuses = re.findall(rb"HTTP/1\.1 (\d{3})", said(server, CASES[case] + HIDDEN))
    assert len(statuses) <= 1, "both were answered"
    assert not statuses or statuses[0].startswith(b"4"), statuses
    assert server.get("leases?resource=smuggled").json["leases"] == []


@pytest.mark.parametrize("trailer", [b"Authorization: Bearer %s", b"Content-Length: 0", b"Transfer-Encoding: chunked"])
def test_a_trailer_changes_nothing(tmp_path: Path, trailer: bytes) -> None:
    """Not who asks, in particular: the head had no key."""
    key = create_key(tmp_path, "admin").encode()
    with serving(tmp_path, "--rate", "0") as server:
        head = LINE.replace(b"renew", b"acquire") + b"Transfer-Encoding: chunked\r\n\r\n"
        line = trailer % key if b"%s" in trailer else trailer
        answer = said(server, head + b"%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n" + line + b"\r\n\r\n")
        assert not answer.startswith(b"HTTP/1.1 2"), answer
        assert server.get("leases", key=key.decode()).json["leases"] == []


def test_nested_and_long_input_is_refused(server: Running) -> None:
    deep = b'{"resources": "a", "context": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}"
    wide = json.dumps({"resources": [f"r{number}" for number in range(10_000)]}).encode()
    keys = json.dumps({f"k{number}": 1 for number in range(5_000)}).encode()
    for body in (deep, wide, keys, b'{"resources": "' + b"x" * 60_000 + b'"}'):
        assert server.post("acquire", body).status in (400, 413)
    for path in ("/v1/leases?" + "a=b&" * 10_000, "/v1/" + "x/" * 20_000, "/v1/inspect?resource=" + "x" * 30_000):
        assert 400 <= server.ask("GET", path).status < 500


@pytest.mark.parametrize("path", ["../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc/passwd", "x%00.js"])
def test_no_path_leads_out_of_the_files_of_the_page(server: Running, path: str) -> None:
    for folder in ("/", "/static/", "/dashboard/", "/assets/"):
        reply = server.ask("GET", folder + path)
        assert reply.status in (400, 404, 405), reply
        assert b"root:" not in reply.content


def test_many_slow_clients_keep_nobody_out(server: Running) -> None:
    lines = [socket.create_connection((server.host, server.port), timeout=PATIENCE) for _ in range(100)]
    for line in lines:
        line.sendall(b"POST /v1/acquire HTTP/1.1\r\nHost: loc")
    until(lambda: server.ask("GET", "/readyz").status == 200)
    for line in lines:
        line.close()

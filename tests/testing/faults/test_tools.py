"""The tools of the fault kit do what they say: proxies, dials, and histories on disk."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from leasehold.testing.faults import nginx
from leasehold.testing.faults.dials import DISK_FAILS_SYNCS, DISK_FULL, DISK_WELL, Dials
from leasehold.testing.faults.proxy import FaultyProxy, ProxyThread, _crumbs
from leasehold.testing.faults.recording import Recorder, Writing, read
from leasehold.testing.observations import Observation
from tests.kit.listening import listening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE = 30.0
HOUR = 3_600


def echo(line: socket.socket) -> None:
    """Answer what is said in capitals, until there is no more."""
    while data := line.recv(1_000):
        line.sendall(data.upper())


@pytest.fixture
def proxy() -> Iterator[FaultyProxy]:
    thread = ProxyThread()
    with listening(echo) as port:
        yield FaultyProxy(thread, port)
    thread.close()


def called(proxy: FaultyProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), PATIENCE)


def says(line: socket.socket, words: bytes) -> bytes:
    line.sendall(words)
    return line.recv(1_000)


def is_silent(line: socket.socket) -> bool:
    line.settimeout(0.1)
    try:
        line.recv(1)
    except TimeoutError:
        return True
    finally:
        line.settimeout(PATIENCE)
    return False


def test_a_proxy_passes_slows_and_cuts(proxy: FaultyProxy) -> None:
    with called(proxy) as line:
        assert says(line, b"a") == b"A"
        proxy.delay = 0.01
        proxy.go("slow")
        assert says(line, b"b") == b"B"
        proxy.go("cut")
        with pytest.raises(ConnectionResetError):
            line.recv(1)
        with pytest.raises(ConnectionError), called(proxy) as refused:  # at once, or at the first look
            assert refused.recv(1) == b"x"


@pytest.mark.parametrize("way", ["mute", "deaf", "silent"])
def test_what_a_one_way_cut_holds_up_arrives_late(proxy: FaultyProxy, way: str) -> None:
    with called(proxy) as line:
        assert says(line, b"a") == b"A"
        proxy.go(way)
        line.sendall(b"b")
        assert is_silent(line)
        proxy.go("pass")
        assert line.recv(1) == b"B"


@pytest.mark.parametrize("way", ["drop", "drop-once"])
def test_a_dropped_reply_is_counted_and_ends_its_connection(proxy: FaultyProxy, way: str) -> None:
    proxy.go(way)
    with called(proxy) as line, pytest.raises(ConnectionResetError):
        says(line, b"a")
    assert proxy.dropped == 1
    if way == "drop-once":
        with called(proxy) as line:
            assert says(line, b"b") == b"B"


def test_a_half_open_connection_is_accepted_and_never_answered(proxy: FaultyProxy) -> None:
    proxy.go("half-open")
    with called(proxy) as line:
        line.sendall(b"a")
        assert is_silent(line)


def test_data_may_arrive_in_crumbs(proxy: FaultyProxy) -> None:
    proxy.go("crumbs")
    with called(proxy) as line:
        line.sendall(b"abcdefgh" * 20)
        pieces = [line.recv(1_000)]
        while sum(map(len, pieces)) < 160:
            pieces.append(line.recv(1_000))
    assert b"".join(pieces) == b"ABCDEFGH" * 20
    assert [len(crumb) for crumb in _crumbs(b"a" * 40)] == [17, 17, 6]


def test_an_idle_connection_is_closed_in_good_order(proxy: FaultyProxy) -> None:
    proxy.idle = 0.05
    with called(proxy) as line:
        assert says(line, b"a") == b"A"
        proxy.go("idle")
        assert line.recv(1) == b""
        proxy.go("pass")
    with called(proxy) as line:
        assert says(line, b"b") == b"B"


def test_a_proxy_leads_new_connections_elsewhere(proxy: FaultyProxy) -> None:
    with called(proxy) as line, listening(lambda other: other.sendall(b"elsewhere")) as port:
        assert says(line, b"a") == b"A"
        proxy.lead_to(port)
        with pytest.raises(ConnectionResetError):
            line.recv(1)
        with called(proxy) as other_line:
            assert other_line.recv(100) == b"elsewhere"


@pytest.mark.skipif(nginx.PROGRAM is None, reason="not run: nginx is not installed")
def test_nginx_asks_a_server_by_http_1_0(tmp_path: Path) -> None:
    asked: list[bytes] = []

    def serve(line: socket.socket) -> None:
        asked.append(line.recv(10_000))
        line.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with listening(serve) as port:
        before = nginx.Nginx(tmp_path, port)
        try:
            with socket.create_connection(("127.0.0.1", before.port), PATIENCE) as line:
                assert says(line, b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 200")
        finally:
            before.kill()
    assert asked[0].startswith(b"GET /x HTTP/1.0\r\n")


def test_a_proxy_refuses_a_way_that_there_is_not(proxy: FaultyProxy) -> None:
    with pytest.raises(ValueError, match="there are pass, cut"):
        proxy.go("sideways")


ASK = "import time; print(time.time() - {now}, time.clock_gettime(time.CLOCK_MONOTONIC), time.monotonic())"


def armed(dials: Path, folder: Path, code: str) -> list[str]:
    """What a process with these dials prints."""
    (folder / "asked.py").write_text(code)
    words = [sys.executable, "-m", "leasehold.testing.faults.armed", str(dials), "asked"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_dials_step_the_wall_clock_and_change_the_rate_of_all_clocks(tmp_path: Path) -> None:
    path = tmp_path / "dials"
    dials = Dials.create(path)
    dials.step(-HOUR)
    told = armed(path, tmp_path, ASK.format(now=time.time()))
    assert -HOUR <= float(told[0]) < -HOUR + PATIENCE
    dials.step(0)
    dials.run_at(1_000.0)
    before, setting = time.clock_gettime_ns(time.CLOCK_BOOTTIME), dials.read()
    _, steady, monotonic = armed(path, tmp_path, ASK.format(now=time.time()))
    after = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert setting.skew(before) / 1e9 < float(steady) - time.monotonic() + PATIENCE
    assert float(monotonic) - time.monotonic() < setting.skew(after) / 1e9 + PATIENCE
    dials.run_at(1.0)
    standing = dials.read()
    assert standing.skew(after) == standing.skew(after + 10**12) == standing.ahead > 0


WRITE = """
import apsw
connection = apsw.Connection("some.db")
try:
    connection.execute("PRAGMA synchronous=FULL; CREATE TABLE IF NOT EXISTS t (a); INSERT INTO t VALUES (1)")
    print("well")
except apsw.Error as error:
    print(type(error).__name__)
"""


def test_dials_fill_the_disk_of_sqlite_and_fail_its_syncs(tmp_path: Path) -> None:
    dials = Dials.create(tmp_path / "dials")
    for disk, told in ((DISK_FULL, "FullError"), (DISK_FAILS_SYNCS, "IOError"), (DISK_WELL, "well")):
        dials.set_disk(disk)
        assert armed(tmp_path / "dials", tmp_path, WRITE) == [told]


def test_a_history_survives_its_writer(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history-a.jsonl")
    number, call = recorder.called("a-0", "acquire", {"what": "r"})
    reply = recorder.replied(number, "granted", "l1", 7)
    recorder.called("a-0", "release", {"what": ["l1"]})
    recorder.stayed(Observation("a-0", "r", 1, 2, 7))
    recorder.wrote(Writing("a-0", "counter", 1, 7, 1, 2, is_late=False))
    recorder.complain("something")
    recorder.close()
    with (tmp_path / "history-a.jsonl").open("a") as file:
        file.write('["call", 3, "cut sh')
    found = read([tmp_path / "history-a.jsonl"])
    answered, unanswered = found.invocations
    assert (answered.call, answered.reply, answered.kind, answered.lease, answered.fence) == (
        call,
        reply,
        "granted",
        "l1",
        7,
    )
    assert (unanswered.verb, unanswered.reply, unanswered.kind) == ("release", None, "unknown")
    assert found.sections == [Observation("a-0", "r", 1, 2, 7)]
    assert found.writings == [Writing("a-0", "counter", 1, 7, 1, 2, is_late=False)]
    assert found.complaints == ["something"]

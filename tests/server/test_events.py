"""Server-sent events: live, filtered, and resumed where a reader left off."""

from __future__ import annotations

import asyncio
import json
import select
import socket
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.locks.connect import open_served
from leasehold.routing.history import HistoryOfLanes
from leasehold.server.access.authentication import Authenticator
from leasehold.server.access.principals import OPEN
from leasehold.server.api import events, sse, tail
from tests.kit.serving import PATIENCE, Running, command_with, create_key, id_of, serving, until, until_soon

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from http.client import HTTPResponse
    from pathlib import Path

    from leasehold.locks.hosted import Served


@contextmanager
def watching(server: Running, query: str = "", **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
    connection = HTTPConnection(server.host, server.port, timeout=PATIENCE)
    try:
        connection.request("GET", f"/v1/events{query}", headers=headers)
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert reply.readline() == b": leasehold\n"  # from here on, nothing is missed
        yield _frames(reply)
    finally:
        connection.close()


def _frames(reply: HTTPResponse) -> Iterator[dict[str, Any]]:
    frame: dict[str, str] = {}
    for raw in reply:
        line = raw.decode().rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            frame[name] = value
        elif frame:
            yield {"id": int(frame.get("id", 0)), "event": frame["event"], "data": json.loads(frame["data"])}
            frame = {}


def take(server: Running, name: str, holder: str = "ann", **more: object) -> None:
    assert server.post("acquire", {"resources": name, "holder": holder, **more}).status == 200


def test_events_come_live_filtered_and_again_from_where_one_was(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        with watching(server) as events:
            take(server, "one")
            take(server, "two", "bob")
            seen = [next(events), next(events)]
        assert [event["data"]["resources"] for event in seen] == [["one"], ["two"]]
        assert [event["event"] for event in seen] == ["granted", "granted"]
        assert all(event["id"] == event["data"]["seq"] for event in seen)
        take(server, "three")
        with watching(server, **{"Last-Event-ID": str(seen[0]["id"])}) as events:
            assert [next(events)["data"]["resources"] for _ in range(2)] == [["two"], ["three"]]
        with watching(server, "?last_event_id=0&holder=ann&resource=three") as events:
            assert next(events)["data"]["resources"] == ["three"]
        with watching(server) as events, leasehold.connect(f"sqlite:///{server.database}") as elsewhere:
            elsewhere.acquire("four", ttl=60, holder="other process")
            assert next(events)["data"]["holder"] == "other process"
        assert server.get("events", **{"Last-Event-ID": "x"}).code == "invalid"
        assert server.get("events?last_event_id=-1").code == "invalid"


def test_a_reader_sees_its_space_only(tmp_path: Path) -> None:
    viewer = create_key(tmp_path, "viewer", space="team")
    admin = create_key(tmp_path, "admin")
    with serving(tmp_path) as server:
        for space in ("other", "team"):
            server.post("acquire", {"resources": "x", "space": space}, key=admin)
        with watching(server, "?last_event_id=0", Authorization=f"Bearer {viewer}") as events:
            assert [next(events)["data"]["space"] for _ in range(2)] == ["team", "team"]  # its key, then the lease
        assert server.get("events?space=other", key=viewer).code == "not_allowed"


def test_a_reader_that_saw_another_history_is_told_of_the_gap(tmp_path: Path) -> None:
    """Its store was replaced, or restored from a copy that is older than what it saw."""
    with serving(tmp_path) as server:
        take(server, "one")
        newest = 0
        for seen in ({"query": "", "Last-Event-ID": "4711"}, {"query": "?last_event_id=4711"}):
            with watching(server, **seen) as found:
                gap, event = next(found), next(found)
                assert (gap["event"], gap["id"]) == ("gap", 0)
                assert event["data"]["resources"] == ["one"]
                newest = event["id"]
        with watching(server, **{"Last-Event-ID": str(newest)}) as found:  # nothing was missed: this one goes on
            take(server, "two")
            assert next(found)["data"]["resources"] == ["two"]


def test_a_look_at_the_head_alone_ends_at_once(tmp_path: Path) -> None:
    with serving(tmp_path) as server, socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
        line.sendall(b"HEAD /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        told = b"".join(iter(lambda: line.recv(65_536), b""))
    head, answer = told.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 200")
    assert b"content-type: text/event-stream" in head
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'{"status":"ok"}' in answer


def ends(found: Iterator[dict[str, Any]], resource: str) -> bool:
    """Whether the stream ends, and before it tells of this resource."""
    return resource not in [name for event in found for name in event["data"]["resources"]]


def test_a_stream_ends_when_its_key_is_revoked(tmp_path: Path) -> None:
    admin = create_key(tmp_path, "admin")
    viewers = [create_key(tmp_path, "viewer", name=f"v{number}") for number in range(2)]
    with serving(tmp_path) as server, leasehold.connect(f"sqlite:///{server.database}") as elsewhere:

        def revoke_here(id_: str) -> object:
            return server.post("keys/revoke", {"id": id_}, key=admin)  # this server knows at once

        ways: tuple[Callable[[str], object], ...] = (revoke_here, elsewhere.revoke_key)
        for viewer, revoke in zip(viewers, ways, strict=True):
            with (
                watching(server, Authorization=f"Bearer {viewer}") as found,
                watching(server, Authorization=f"Bearer {admin}") as theirs,
            ):
                revoke(id_of(viewer))
                until(lambda key=viewer: server.get("leases", key=key).status == 401)  # type: ignore[misc]
                server.post("acquire", {"resources": "secret", "reentrant": True}, key=admin)
                assert ends(found, "secret")
                assert "secret" in [name for _ in range(2) for name in next(theirs)["data"]["resources"]]
            assert server.get("events", key=viewer).status == 401


def test_an_open_stream_ends_when_the_door_is_closed(tmp_path: Path) -> None:
    with serving(tmp_path) as server, watching(server) as found:
        take(server, "one")
        assert next(found)["data"]["resources"] == ["one"]
        key = create_key(tmp_path, "admin")
        until(lambda: server.get("leases").status == 401)
        assert server.post("acquire", {"resources": "secret"}, key=key).status == 200
        assert ends(found, "secret")


def test_a_stream_of_a_session_ends_with_it_and_with_its_key(tmp_path: Path) -> None:
    admin = create_key(tmp_path, "admin")
    agent = create_key(tmp_path, "agent", space="team")
    with serving(tmp_path) as server:

        def session() -> str:
            return str(server.post("sessions", {"ttl_seconds": 600}, key=agent).json["credential"])

        def end(shown: str) -> None:
            assert server.post("sessions/end", {"space": "team"}, key=shown).status == 200

        def revoke(_shown: str) -> None:
            assert server.post("keys/revoke", {"id": id_of(agent)}, key=admin).status == 200

        for close in (end, revoke):
            shown = session()
            with watching(server, "?space=team", Authorization=f"Bearer {shown}") as found:
                close(shown)
                until(lambda key=shown: server.get("leases?space=team", key=key).status == 401)  # type: ignore[misc]
                assert server.post("acquire", {"resources": "secret", "space": "team", "reentrant": True}, key=admin)
                assert ends(found, "secret")


def test_streams_end_with_the_server(tmp_path: Path) -> None:
    with serving(tmp_path) as server, watching(server) as events:
        take(server, "one")
        next(events)
        assert server.stop() == 0
        assert list(events) == []


def test_every_filter_alone_and_together(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        for name, holder, space in (("a", "ann", "here"), ("b", "ann", "there"), ("a", "bob", "there")):
            take(server, name, holder, space=space)
        for query, expected in {
            "resource=a": [("a", "ann", "here"), ("a", "bob", "there")],
            "holder=ann": [("a", "ann", "here"), ("b", "ann", "there")],
            "space=there": [("b", "ann", "there"), ("a", "bob", "there")],
            "resource=a&holder=bob&space=there": [("a", "bob", "there")],
        }.items():
            with watching(server, f"?last_event_id=0&{query}") as found:
                told = [next(found)["data"] for _ in expected]
            assert [(each["resources"][0], each["holder"], each["space"]) for each in told] == expected


def test_what_happens_while_a_reader_is_away_is_told_in_order_and_once(tmp_path: Path) -> None:
    """More than fits on a page, with the reader hanging up again and again."""
    with serving(tmp_path, "--rate", "0") as server:
        with leasehold.connect(f"sqlite:///{server.database}") as elsewhere:
            for number in range(1_203):
                elsewhere.acquire(f"r{number}", ttl=600, holder="ann")
        seen: list[str] = []
        last = 0
        while len(seen) < 1_203:
            with watching(server, **{"Last-Event-ID": str(last)}) as found:
                for _ in range(min(700, 1_203 - len(seen))):
                    event = next(found)
                    seen.append(event["data"]["resources"][0])
                    last = event["id"]
        assert seen == [f"r{number}" for number in range(1_203)]


# ---------------------------------------------------------------- one reader, without the network between


class Reader:
    """Takes what it is sent, as long as it likes to."""

    def __init__(self) -> None:
        self.received = b""
        self.takes = asyncio.Event()
        self.takes.set()
        self._gone = asyncio.Event()

    @property
    def is_disconnected(self) -> bool:
        return self._gone.is_set()

    async def send(self, message: Any) -> None:  # noqa: ANN401 (as ASGI has it)
        await self.takes.wait()
        self.received += message.get("body", b"")

    async def receive(self) -> Any:  # noqa: ANN401
        await self._gone.wait()
        return {"type": "http.disconnect"}

    def disconnect(self) -> None:
        self._gone.set()

    def scope(self) -> dict[str, Any]:
        can = {sse.ABORT: self.disconnect}
        return {"type": "http", "method": "GET", "headers": [], "extensions": can}

    def names(self) -> list[str]:
        found = [line for line in self.received.splitlines() if line.startswith(b'data: {"seq')]
        return [json.loads(line[6:])["resources"][0] for line in found]


class Streaming:
    """Streams of events of one store, without a server around them."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.streams = events.EventStreams(served, Authenticator(served, loopback=True))
        self.tasks: list[asyncio.Task[None]] = []

    async def open(self, reader: Reader, last: int = 0) -> None:
        asked = {"space": None, "resource": None, "holder": None, "last_event_id": last}
        stream = await self.streams.open(OPEN, asked, None)
        self.tasks.append(asyncio.create_task(stream(reader.scope(), reader.receive, reader.send)))

    async def fill(self, *names: int) -> None:
        for number in names:
            await self.served.locks.acquire(f"r{number}", ttl=600, holder="ann")

    async def end(self) -> None:
        self.streams.close()
        await asyncio.gather(*self.tasks)


def play(tmp_path: Path, scene: Callable[[Streaming], Awaitable[None]]) -> None:
    async def run() -> None:
        served = await open_served(f"sqlite:///{tmp_path}/locks.db")
        streaming = Streaming(served)
        await scene(streaming)
        await streaming.end()
        await served.close()

    asyncio.run(run())


def test_a_slow_reader_is_dropped_and_can_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "SLOW", 0.05)

    async def scene(it: Streaming) -> None:
        slow, quick, again = Reader(), Reader(), Reader()
        await it.open(slow)
        await it.open(quick)
        await it.fill(0, 1)
        await until_soon(lambda: slow.names() == quick.names() == ["r0", "r1"])
        slow.takes.clear()
        await it.fill(2, 3)
        await it.tasks[0]
        assert slow.is_disconnected
        assert not it.tasks[1].done()  # nobody else suffers
        assert it.streams.readers.taken == 1
        await it.open(again, int(slow.received.rsplit(b"id: ", 1)[1].split(b"\n")[0]))
        await until_soon(lambda: again.names() == ["r2", "r3"])

    play(tmp_path, scene)


def test_a_client_that_never_reads_is_disconnected(tmp_path: Path) -> None:
    """The whole way, through a real connection whose buffers are full."""
    hurried = command_with("leasehold.server.api.sse.SLOW = 0.5")
    with serving(tmp_path, "--rate", "0", command=hurried) as server:
        for number in range(200):  # each of them is an event of 30 KB
            names = [f"{number}-{each}-{'x' * 450}" for each in range(64)]
            assert server.post("acquire", {"resources": names, "holder": "ann"}).status == 200
        with socket.socket() as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            line.connect((server.host, server.port))
            line.sendall(b"GET /v1/events?last_event_id=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            poll = select.poll()
            poll.register(line, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
            assert poll.poll(PATIENCE * 1_000)  # it is gone, although nothing was read
        assert server.stop() == 0
        assert server.process.stderr is not None
        assert '"level": "error"' not in server.process.stderr.read()


def test_a_client_that_never_reads_does_not_keep_the_server_from_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiting client keeps its place for some seconds only, and has to find the next server by then."""
    monkeypatch.setattr(sse, "LAST", 0.01)

    async def scene(it: Streaming) -> None:
        readers = stuck, idle, quick = Reader(), Reader(), Reader()
        for reader in readers:
            await it.open(reader)
        await it.fill(0, 1)
        await until_soon(lambda: all(reader.names() == ["r0", "r1"] for reader in readers))
        stuck.takes.clear()  # a write to it is under way when the server stops
        await it.fill(2)
        await until_soon(lambda: it.streams.writes and quick.names()[2:] == idle.names()[2:] == ["r2"])
        idle.takes.clear()  # and this one does not take the end
        await it.end()
        assert [reader.is_disconnected for reader in readers] == [True, True, False]

    play(tmp_path, scene)


def test_a_reader_that_comes_back_too_late_learns_of_the_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "CATCH_UP", 3)

    async def scene(it: Streaming) -> None:
        exact, late = Reader(), Reader()
        await it.fill(0, 1, 2)
        await it.open(exact)
        await until_soon(lambda: exact.names() == ["r0", "r1", "r2"])
        assert b"event: gap" not in exact.received
        await it.fill(3, 4)
        await it.open(late)
        await until_soon(lambda: late.names() == ["r2", "r3", "r4"])
        assert late.received.count(b"event: gap") == 1
        assert late.received.index(b"event: gap") < late.received.index(b"id: ")

    play(tmp_path, scene)


def have_seen(readers: Sequence[Reader], count: int) -> bool:
    return all(reader.names() == [f"r{number}" for number in range(count)] for reader in readers)


def test_the_store_is_read_once_for_all_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[object] = []
    read = HistoryOfLanes.after

    def counted(history: HistoryOfLanes, *asked: Any) -> Any:  # noqa: ANN401 (as the method has it)
        reads.append(asked)
        return read(history, *asked)

    monkeypatch.setattr(HistoryOfLanes, "after", counted)
    streams, rounds = 20, 12

    async def scene(it: Streaming) -> None:
        readers = [Reader() for _ in range(streams)]
        for reader in readers:
            await it.open(reader)
        for number in range(rounds):
            await it.fill(number)
            await until_soon(partial(have_seen, readers, number + 1))
        assert len(reads) <= 3 * streams + 2 * rounds

    play(tmp_path, scene)


def test_a_stream_beyond_what_the_tail_keeps_reads_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "KEPT", 2)

    async def scene(it: Streaming) -> None:
        reader = Reader()
        await it.open(reader)
        for number in range(12):
            await it.fill(2 * number, 2 * number + 1)
            await until_soon(partial(have_seen, [reader], 2 * number + 2))

    play(tmp_path, scene)


def test_an_idle_stream_shows_that_it_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "BEAT", 0.01)
    monkeypatch.setattr(events, "POLL_EVERY", 0.01)

    async def scene(it: Streaming) -> None:
        reader = Reader()
        await it.open(reader)
        await until_soon(lambda: reader.received.count(b"\n:\n\n") >= 2)

    play(tmp_path, scene)


def test_there_are_only_so_many_readers_and_those_that_leave_make_room(tmp_path: Path) -> None:
    with serving(tmp_path, "--rate", "0") as server:
        lines = [HTTPConnection(server.host, server.port, timeout=PATIENCE) for _ in range(events.READERS_EACH)]
        for line in lines:
            line.request("GET", "/v1/events")
            assert line.getresponse().status == 200
        assert server.get("events").code == "too_many"
        for line in lines:
            with suppress(OSError):
                line.close()

        def has_room() -> bool:
            line = HTTPConnection(server.host, server.port, timeout=PATIENCE)
            line.request("GET", "/v1/events")
            status = line.getresponse().status
            line.close()
            return status == 200

        until(has_room)


@pytest.mark.parametrize(("method", "kind", "bound"), [("GET", "events", "READERS"), ("POST", "losses", "STREAMS")])
def test_a_reader_that_opens_many_streams_takes_none_from_others(
    tmp_path: Path, method: str, kind: str, bound: str
) -> None:
    """With room for eight, of which one principal may have six."""
    place = f"leasehold.server.api.{kind}.{bound}"
    few = command_with(f"{place}_MOST = 8; {place}_EACH = 6")
    content, headers = ("{}", {"Content-Type": "application/json"}) if method == "POST" else (None, {})
    keys = {name: create_key(tmp_path, "viewer", name=name) for name in ("greedy", "ann", "bob", "cid")}
    with serving(tmp_path, "--rate", "0", command=few) as server, ExitStack() as streams:

        def watch(name: str) -> HTTPConnection | None:
            line = HTTPConnection(server.host, server.port, timeout=PATIENCE)
            streams.callback(line.close)
            shown = {"Authorization": f"Bearer {keys[name]}"}
            line.request(method, f"/v1/{kind}", content, {**headers, **shown})
            status = line.getresponse().status
            assert status in (200, 429)
            return line if status == 200 else None

        greedy = [watch("greedy") for _ in range(7)]
        assert [line is not None for line in greedy] == [True] * 6 + [False]
        assert all(watch(name) is not None for name in ("ann", "ann", "bob", "bob", "cid", "cid"))
        assert watch("cid") is None  # there are eight, and nobody has more than two
        socks = [line.sock for line in greedy[:6] if line is not None and line.sock is not None]
        until(lambda: sum(map(_ended, socks)) >= 4)
        assert sum(map(_ended, socks)) == 4


def _ended(line: socket.socket) -> bool:
    """Whether the server has hung up, after what it had sent before."""
    line.setblocking(False)
    try:
        while line.recv(65_536):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True

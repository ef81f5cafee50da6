"""The quick parser: cached heads, requests in one piece and in many, and the client on uvloop."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest
import uvicorn
import uvloop

import leasehold
from leasehold.engine.pending import Pending
from leasehold.locks.hosted import Served
from leasehold.requests.checks import Settings
from leasehold.server.api.app import App, asgi
from leasehold.server.api.batches import Batch
from leasehold.server.api.dispatch import Operation
from leasehold.server.api.long_polls import LongPolls
from leasehold.server.http.protocol import protocol_for
from leasehold.stores.sqlite import SqliteStore
from tests.kit.serving import PATIENCE, Running, create_key, id_of, read_reply, serving, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from tests.kit.serving import Reply


def connected(server: Running) -> socket.socket:
    line = socket.create_connection((server.host, server.port), timeout=PATIENCE)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # what is sent is sent, also behind what nobody answered
    return line


@pytest.fixture
def line(server: Running) -> Iterator[socket.socket]:
    with connected(server) as connection:
        yield connection


def spelled(path: str, body: object, *more: str) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"POST /v1/{path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *more]
    return "\r\n".join([*head, f"Content-Length: {len(content)}", "", ""]).encode() + content


def ask(line: socket.socket, path: str, body: object, *more: str) -> Reply:
    line.sendall(spelled(path, body, *more))
    return read_reply(line)


def taken(line: socket.socket, name: str, *more: str) -> str:
    """A cycle with the same heads each time, as long as names are of one length; the fence, as text."""
    granted = ask(line, "acquire", {"resources": name, "holder": "me"}, *more)
    assert granted.status == 200, granted
    lease, token = granted.json["lease"], granted.json["token"]
    assert lease["resources"] == [name]
    released = ask(line, "release", {"lease": lease["id"], "token": token}, *more)
    assert released.json["released"] is True
    return str(lease["fence"])


def make_known(line: socket.socket, name: str, *more: str) -> None:
    """So that the server knows these heads: the first request of all goes another way, the second is kept in mind."""
    for _ in range(3):
        taken(line, name, *more)


def test_the_same_head_again_and_again(line: socket.socket) -> None:
    fences = [int(taken(line, f"again-{number}")) for number in range(10)]
    assert fences == sorted(set(fences))


def test_a_known_head_with_what_cannot_be_understood_is_told_why(line: socket.socket) -> None:
    make_known(line, "known-00")
    good = {"resources": "known-01", "holder": "me"}
    length = len(json.dumps(good))
    for bad, field in (({"resources": "\u0007known-1"}, "resource"), ({"resources": "k", "slots": 0}, "slots")):
        content = json.dumps(bad).encode()
        reply = ask(line, "acquire", content + b" " * (length - len(content)))
        assert (reply.status, reply.code, reply.json["field"]) == (400, "invalid", field)
    reply = ask(line, "acquire", b"{" * length)
    assert (reply.status, reply.code) == (400, "invalid")
    taken(line, "known-02")


def test_a_known_head_in_pieces_and_with_more_behind_it(line: socket.socket) -> None:
    make_known(line, "piece-00")
    for piece in (
        spelled("acquire", {"resources": "piece-01", "holder": "me"})[at : at + 7] for at in range(0, 210, 7)
    ):
        line.sendall(piece)
    first = read_reply(line)
    assert first.json["lease"]["resources"] == ["piece-01"]
    several = [spelled("acquire", {"resources": f"piece-0{number}", "holder": "me"}) for number in (2, 3, 4)]
    line.sendall(b"".join(several))
    reader = line.makefile("rb")
    told = [read_from(reader) for _ in several]
    assert [each["lease"]["resources"] for each in told] == [["piece-02"], ["piece-03"], ["piece-04"]]
    lease = first.json["lease"]["id"]
    line.sendall(spelled("release", {"lease": lease, "token": first.json["token"]}))
    assert read_from(reader)["released"] is True


def read_from(reader: BinaryIO) -> dict[str, Any]:
    """The next answer of several on one connection."""
    length = 0
    while (read := reader.readline()) != b"\r\n":
        name, _, value = read.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    return dict(json.loads(reader.read(length)))


def test_a_known_head_whose_body_is_not_complete_yet(line: socket.socket) -> None:
    def padded(name: str) -> bytes:
        return spelled("acquire", json.dumps({"resources": name, "holder": "me"}).encode() + b"  ")

    for name in ("pad-0", "pad-1"):
        line.sendall(padded(name))
        assert read_reply(line).json["lease"]["resources"] == [name]
    whole = padded("pad-2")
    line.sendall(whole[:-2])  # so far, it would be JSON
    line.sendall(whole[-2:])
    assert read_reply(line).json["lease"]["resources"] == ["pad-2"]
    taken(line, "pad-3")


def test_a_known_head_waits_its_turn_behind_a_request_that_waits(server: Running, line: socket.socket) -> None:
    make_known(line, "turn-1")
    held = server.post("acquire", {"resources": "turn-2", "holder": "other"}).json
    line.sendall(spelled("acquire", {"resources": "turn-2", "holder": "me", "wait_seconds": 30}))
    until(lambda: server.waiting("turn-2") == ["me"])
    line.sendall(spelled("acquire", {"resources": "turn-3", "holder": "me"}))
    assert server.get("leases?resource=turn-2").status == 200  # by now the server has read what came before
    server.post("release", {"lease": held["lease"]["id"], "token": held["token"]})
    reader = line.makefile("rb")
    assert [read_from(reader)["lease"]["resources"] for _ in range(2)] == [["turn-2"], ["turn-3"]]


def test_a_known_head_asks_to_wait(server: Running, line: socket.socket) -> None:
    held = server.post("acquire", {"resources": "wait-1", "holder": "other"}).json
    line.sendall(spelled("acquire", {"resources": "wait-1", "holder": "me", "wait_seconds": 30}))
    until(lambda: server.waiting("wait-1") == ["me"])
    server.post("release", {"lease": held["lease"]["id"], "token": held["token"]})
    mine = read_reply(line).json
    assert mine["lease"]["holder"] == "me"
    again = server.post("acquire", {"resources": "wait-2", "holder": "other"}).json
    line.sendall(spelled("acquire", {"resources": "wait-2", "holder": "me", "wait_seconds": 30}))
    until(lambda: server.waiting("wait-2") == ["me"])
    line.close()
    until(lambda: server.waiting("wait-2") == [])
    assert server.post("release", {"lease": again["lease"]["id"], "token": again["token"]}).json["released"]


def test_a_known_head_shows_a_key_that_was_revoked(tmp_path: Path) -> None:
    key, admin = create_key(tmp_path, "agent"), create_key(tmp_path, "admin")
    with serving(tmp_path, "--rate", "0") as server, connected(server) as line:
        shown = f"Authorization: Bearer {key}"
        make_known(line, "key-1", shown)
        assert server.post("keys/revoke", {"id": id_of(key)}, key=admin).status == 200
        reply = ask(line, "acquire", {"resources": "key-3", "holder": "me"}, shown)
        assert (reply.status, reply.code) == (401, "unauthenticated")


def test_a_known_head_of_an_open_server_is_not_let_in_once_there_are_keys(tmp_path: Path) -> None:
    with serving(tmp_path, "--rate", "0") as server, connected(server) as line:
        make_known(line, "open-1")
        create_key(tmp_path, "agent")
        until(lambda: ask(line, "acquire", {"resources": "open-3", "holder": "me"}).status == 401)


def test_the_client_on_another_event_loop(server: Running) -> None:
    async def cycle() -> None:
        async with await leasehold.aconnect(server.url) as locks:
            granted = await locks.acquire("uvloop", ttl=60)
            assert isinstance(granted, leasehold.Granted)
            released = await locks.release(granted.lease.id, granted.token)
            assert isinstance(released, leasehold.Released)
            assert released.released

    uvloop.run(cycle())
    asyncio.run(cycle())


def taken_together(line: socket.socket, name: str) -> None:
    """Two of them at once, in one request each way."""
    calls = [{"verb": "acquire", "resources": f"{name}-{letter}", "holder": "me"} for letter in "ab"]
    told = [each["body"] for each in ask(line, "batch", {"calls": calls}).json["answers"]]
    calls = [{"verb": "release", "lease": each["lease"]["id"], "token": each["token"]} for each in told]
    assert all(each["body"]["released"] for each in ask(line, "batch", {"calls": calls}).json["answers"])


def taken_in_turn(line: socket.socket, name: str) -> None:
    """One connection holds, another waits for it and gets it."""
    with socket.create_connection(line.getpeername()[:2], timeout=PATIENCE) as other:
        held = ask(line, "acquire", {"resources": name, "holder": "me"}).json
        other.sendall(spelled("acquire", {"resources": name, "holder": "you", "wait_seconds": 30}))
        until(lambda: b'"position":1' in read_whole(line, f"GET /v1/inspect?resource={name} HTTP/1.1"))
        assert ask(line, "release", {"lease": held["lease"]["id"], "token": held["token"]}).json["released"]
        given = read_reply(other).json
        assert ask(other, "release", {"lease": given["lease"]["id"], "token": given["token"]}).json["released"]


def read_whole(line: socket.socket, asked: str) -> bytes:
    line.sendall(f"{asked}\r\nHost: localhost\r\n\r\n".encode())
    return read_reply(line).content


def history_of(line: socket.socket, name: str) -> list[Any]:
    """What happened to this resource, the newest first."""
    found: list[Any] = json.loads(read_whole(line, f"GET /v1/history?resource={name}&limit=500 HTTP/1.1"))["events"]
    return found


@asynccontextmanager
async def in_this_process(path: Path, rate: float = 0) -> AsyncIterator[tuple[Served, tuple[str, int]]]:
    """A server of this very process, and where it listens."""
    loop = asyncio.get_running_loop()
    served = Served([SqliteStore(str(path))], Settings(), loop, space="default")
    app = App(served, loopback=True, rate=rate, polls=LongPolls(served, at_most=60, grace=60))
    config = uvicorn.Config(asgi(app), http=protocol_for(app), ws="none", lifespan="off", log_config=None)
    config.load()
    state, kind = uvicorn.server.ServerState(), config.http_protocol_class
    listener = await loop.create_server(lambda: kind(config=config, server_state=state, app_state={}), "127.0.0.1", 0)  # type: ignore[call-arg]
    try:
        yield served, listener.sockets[0].getsockname()[:2]
    finally:
        listener.close()
        await served.close()


async def _leftovers(path: Path, cycles: int, take: Callable[[socket.socket, str], object]) -> int:
    """A server is asked so often; how many requests it still knows after that."""
    async with in_this_process(path) as (_, where):
        with socket.create_connection(where, timeout=PATIENCE) as line:
            for number in range(cycles):
                await asyncio.to_thread(take, line, f"tidy-{number:04}")
        return sum(isinstance(each, Operation | Pending | Batch) for each in gc.get_objects())


@pytest.mark.parametrize(
    ("take", "most"), [(taken, 2), (taken_together, 6), (taken_in_turn, 5)], ids=["alone", "several", "waits"]
)
def test_an_answered_request_leaves_nothing_for_the_collector(
    tmp_path: Path, take: Callable[[socket.socket, str], object], most: int
) -> None:
    gc.collect()
    gc.disable()  # so that whatever refers to itself, by whatever detour, is still there
    try:
        known = uvloop.run(_leftovers(tmp_path / "locks.db", 20, take))
        assert known <= most, "more than the last answer is kept"
    finally:
        gc.enable()


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, dict[str, str]]]:
    """A server with keys, on which "ours/held" is held."""
    folder = tmp_path_factory.mktemp("keyed")
    keys = {role: create_key(folder, role, prefixes=("ours/",)) for role in ("agent", "viewer")} | {"none": "lh_0_0"}
    with serving(folder, "--rate", "0") as server:
        assert server.post("acquire", {"resources": "ours/held", "holder": "ann"}, key=keys["agent"]).status == 200
        yield server, keys


HELD = {"resources": "ours/held", "holder": "bob"}
NEVER = {"lease": f"l999999999-{'0' * 32}", "token": "t"}


@pytest.mark.parametrize(
    ("path", "body", "role", "answer"),
    [
        ("acquire", HELD, "agent", (409, "held")),
        ("acquire", {**HELD, "wait_seconds": 0.01}, "agent", (409, "timeout")),
        ("acquire", {**HELD, "wait_seconds": 1e9}, "agent", (400, "invalid")),
        ("acquire", {**HELD, "ttl_seconds": -1}, "agent", (400, "invalid")),
        ("acquire", {**HELD, "colour": "red"}, "agent", (400, "invalid")),
        ("acquire", {**HELD, "resources": "theirs/a"}, "agent", (403, "not_allowed")),
        ("acquire", {**HELD, "space": "elsewhere"}, "agent", (403, "not_allowed")),
        ("acquire", HELD, "viewer", (403, "not_allowed")),
        ("acquire", {**HELD, "colour": "red"}, "none", (401, "unauthenticated")),
        ("acquire", b"{", "agent", (400, "invalid")),
        ("renew", NEVER, "agent", (404, "not_found")),
        ("release", {**NEVER, "status": "nonsense"}, "agent", (400, "invalid")),
        ("batch", {"calls": [{"verb": "acquire", **HELD, "wait_seconds": 1}]}, "agent", (200, None)),
        ("batch", {"calls": []}, "viewer", (403, "not_allowed")),
    ],
)
def test_both_parsers_get_the_same_answer(
    keyed: tuple[Running, dict[str, str]], path: str, body: object, role: str, answer: tuple[int, str | None]
) -> None:
    server, keys = keyed
    replies = [server.post(path, body, key=keys[role], **more) for more in ({}, {"Expect": "100-continue"}, {})]
    for reply in replies:
        assert (reply.status, reply.json.get("code")) == answer, reply
        assert reply.headers == {**replies[0].headers, "content-length": reply.headers["content-length"]}
        assert {**reply.json, "holders": None} == {**replies[0].json, "holders": None}


def test_what_goes_from_hand_to_hand_is_told_right(server: Running, line: socket.socket) -> None:
    for number in range(300):
        taken(line, f"alone-{number:03}")
    workers, times = 6, 25

    def work(number: int) -> list[Any]:
        told = []
        with connected(server) as mine:
            for time in range(times):
                who, why = f"h{number}", f"for the {time}th time"
                asked = {"resources": "hot", "holder": who, "reason": why, "wait_seconds": 50}
                granted = ask(mine, "acquire", asked).json
                assert (granted["lease"]["holder"], granted["lease"]["reason"]) == (who, why)
                given_back = ask(mine, "release", {"lease": granted["lease"]["id"], "token": granted["token"]}).json
                assert given_back["released"] is True
                told.append(granted["lease"])
        return told

    with ThreadPoolExecutor(workers) as threads:
        leases = {lease["id"]: lease for told in threads.map(work, range(workers)) for lease in told}
    assert len(leases) == workers * times
    events = [each for each in reversed(history_of(line, "hot")) if each["kind"] in ("granted", "released")]
    assert len(events) == 2 * len(leases)
    for granted, released in zip(events[::2], events[1::2], strict=True):
        lease = leases[granted["lease"]]
        assert (granted["kind"], released["kind"], released["lease"]) == ("granted", "released", lease["id"])
        assert (granted["fence"], granted["at"]) == (lease["fence"], lease["acquired_at"])
        assert granted["at"] <= released["at"]
    assert [each["at"] for each in events] == sorted(each["at"] for each in events)
    assert [each["fence"] for each in events[::2]] == sorted(lease["fence"] for lease in leases.values())
